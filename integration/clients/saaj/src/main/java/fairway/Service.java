// SPDX-License-Identifier: Apache-2.0
package fairway;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import jakarta.xml.soap.MessageFactory;
import jakarta.xml.soap.MimeHeaders;
import jakarta.xml.soap.SOAPBodyElement;
import jakarta.xml.soap.SOAPException;
import jakarta.xml.soap.SOAPHeader;
import jakarta.xml.soap.SOAPMessage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import javax.xml.namespace.QName;
import org.w3c.dom.Node;

/** The echo service: SAAJ messages over the JDK's HTTP server. */
public final class Service {
    public static void main(String[] args) throws IOException {
        HttpServer server = HttpServer.create(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(args[0])), 0);
        server.createContext("/echo", Service::serve);
        server.start();
    }

    private static void serve(HttpExchange exchange) throws IOException {
        try (exchange) {
            MimeHeaders headers = new MimeHeaders();
            headers.addHeader("Content-Type", exchange.getRequestHeaders().getFirst("Content-Type"));
            SOAPMessage answer = answer(MessageFactory.newInstance().createMessage(headers, exchange.getRequestBody()));
            answer.saveChanges();
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            answer.writeTo(out);
            exchange.getResponseHeaders().set("Content-Type", answer.getMimeHeaders().getHeader("Content-Type")[0]);
            exchange.sendResponseHeaders(200, out.size());
            out.writeTo(exchange.getResponseBody());
        } catch (SOAPException | RuntimeException e) {
            e.printStackTrace();
            exchange.sendResponseHeaders(500, -1);
        }
    }

    private static SOAPMessage answer(SOAPMessage question) throws SOAPException, IOException {
        String reply = Saaj.texts(question, "reply").get(0);
        SOAPMessage m = Saaj.message(reply);
        SOAPHeader header = m.getSOAPHeader();
        for (Node n = question.getSOAPHeader().getFirstChild(); n != null; n = n.getNextSibling()) {
            header.appendChild(header.getOwnerDocument().importNode(n, true));
        }
        SOAPBodyElement body = m.getSOAPBody().addBodyElement(new QName(Echo.NS, "echoResponse", "e"));
        Saaj.text(body, "text", Saaj.texts(question, "text").get(0));
        for (String sum : Echo.sums(Saaj.files(question))) {
            Saaj.text(body, "sum", sum);
        }
        Saaj.attach(m, body, reply, Echo.make(Saaj.texts(question, "make")));
        return m;
    }
}
