// SPDX-License-Identifier: Apache-2.0
package fairway;

import jakarta.activation.DataHandler;
import jakarta.xml.soap.AttachmentPart;
import jakarta.xml.soap.MessageFactory;
import jakarta.xml.soap.SOAPElement;
import jakarta.xml.soap.SOAPException;
import jakarta.xml.soap.SOAPMessage;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import javax.xml.namespace.QName;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

/** Files in SAAJ messages: attachments that the body does not name (SwA), or names by xop:Include (MTOM). */
final class Saaj {
    private static final String XOP = "http://www.w3.org/2004/08/xop/include";
    private static final String ENCODING = System.getenv("OPTION");

    private Saaj() {}

    /** An empty message; SAAJ packs it as XOP when its Content-Type says so before it is saved. */
    static SOAPMessage message(String form) throws SOAPException {
        SOAPMessage m = MessageFactory.newInstance().createMessage();
        if (form.equals("mtom")) {
            m.getMimeHeaders().setHeader("Content-Type",
                    "multipart/related; type=\"application/xop+xml\"; start-info=\"text/xml\"");
        }
        return m;
    }

    static void attach(SOAPMessage m, SOAPElement body, String form, List<byte[]> files) throws SOAPException {
        for (int i = 0; i < files.size(); i++) {
            AttachmentPart part = m.createAttachmentPart(new DataHandler(files.get(i), "application/octet-stream"));
            part.setContentId("<file" + i + "@fairway.example>");
            if (ENCODING != null) {
                part.setMimeHeader("Content-Transfer-Encoding", ENCODING); // and so it is written
            }
            m.addAttachmentPart(part);
            if (form.equals("mtom")) {
                body.addChildElement("file", "e").addChildElement("Include", "xop", XOP)
                        .addAttribute(new QName("href"), "cid:file" + i + "@fairway.example");
            }
        }
    }

    /** The files of a message in order: by the includes in the body if there are any, else all attachments. */
    static List<byte[]> files(SOAPMessage m) throws SOAPException, IOException {
        List<AttachmentPart> parts = new ArrayList<>();
        NodeList includes = m.getSOAPBody().getElementsByTagNameNS(XOP, "Include");
        for (int i = 0; i < includes.getLength(); i++) {
            parts.add(m.getAttachment((SOAPElement) includes.item(i)));
        }
        if (parts.isEmpty()) {
            for (Iterator<AttachmentPart> i = m.getAttachments(); i.hasNext();) parts.add(i.next());
        }
        List<byte[]> out = new ArrayList<>();
        for (AttachmentPart part : parts) {
            // getRawContentBytes throws NegativeArraySizeException for an empty part, SAAJ 3.0.6.
            out.add(part.getRawContent().readAllBytes());
        }
        return out;
    }

    static void text(SOAPElement parent, String name, String value) throws SOAPException {
        parent.addChildElement(name, "e").addTextNode(value);
    }

    /** The texts of the body's elements of that name. */
    static List<String> texts(SOAPMessage m, String name) throws SOAPException {
        NodeList nodes = m.getSOAPBody().getElementsByTagNameNS(Echo.NS, name);
        List<String> out = new ArrayList<>();
        for (int i = 0; i < nodes.getLength(); i++) {
            out.add(((Element) nodes.item(i)).getTextContent());
        }
        return out;
    }
}
