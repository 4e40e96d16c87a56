// SPDX-License-Identifier: Apache-2.0
package fairway;

import jakarta.xml.soap.SOAPBodyElement;
import jakarta.xml.soap.SOAPConnection;
import jakarta.xml.soap.SOAPConnectionFactory;
import jakarta.xml.soap.SOAPHeader;
import jakarta.xml.soap.SOAPMessage;
import javax.xml.namespace.QName;
import org.w3c.dom.Element;

/** The echo client on SAAJ's own SOAPConnection. */
public final class Client {
    public static void main(String[] args) {
        Echo.main(args, Client::call);
    }

    private static Echo.Answer call(String url, String client, String service, Echo.Question q) throws Exception {
        SOAPMessage m = Saaj.message(q.form());
        SOAPHeader header = m.getSOAPHeader();
        for (Element block : Blocks.of(client, service, q.id())) {
            header.appendChild(header.getOwnerDocument().importNode(block, true));
        }
        SOAPBodyElement body = m.getSOAPBody().addBodyElement(new QName(Echo.NS, "echo", "e"));
        Saaj.text(body, "text", q.text());
        Saaj.text(body, "reply", q.reply());
        for (String spec : q.make()) {
            Saaj.text(body, "make", spec);
        }
        Saaj.attach(m, body, q.form(), q.files());
        SOAPConnection connection = SOAPConnectionFactory.newInstance().createConnection();
        SOAPMessage answer = connection.call(m, url);
        if (answer.getSOAPBody().hasFault()) {
            throw new Exception(answer.getSOAPBody().getFault().getFaultCode() + ": "
                    + answer.getSOAPBody().getFault().getFaultString());
        }
        Echo.Answer a = new Echo.Answer(
                answer.getSOAPHeader().getElementsByTagNameNS(Echo.XROAD, "id").item(0).getTextContent(),
                Saaj.texts(answer, "text").get(0), Saaj.texts(answer, "sum"), Saaj.files(answer));
        connection.close();
        return a;
    }
}
