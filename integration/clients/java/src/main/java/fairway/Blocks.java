// SPDX-License-Identifier: Apache-2.0
package fairway;

import java.util.ArrayList;
import java.util.List;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import org.w3c.dom.Document;
import org.w3c.dom.Element;

/** The X-Road header blocks of a request, as DOM elements. */
public final class Blocks {
    private static final String[] CLIENT = {"xRoadInstance", "memberClass", "memberCode", "subsystemCode"};
    private static final String[] SERVICE = {"xRoadInstance", "memberClass", "memberCode", "subsystemCode",
        "serviceCode", "serviceVersion"};

    private Blocks() {}

    /** Client and service are written with slashes: DEV/GOV/1111/app, DEV/GOV/0000/registry/echo/v1. */
    public static List<Element> of(String client, String service, String id) throws ParserConfigurationException {
        Document doc = DocumentBuilderFactory.newDefaultNSInstance().newDocumentBuilder().newDocument();
        List<Element> out = new ArrayList<>();
        out.add(identifier(doc, "client", "SUBSYSTEM", CLIENT, client));
        out.add(identifier(doc, "service", "SERVICE", SERVICE, service));
        out.add(text(doc, Echo.XROAD, "xrd:userId", "EE1234567890"));
        out.add(text(doc, Echo.XROAD, "xrd:id", id));
        out.add(text(doc, Echo.XROAD, "xrd:protocolVersion", "4.0"));
        return out;
    }

    private static Element identifier(Document doc, String name, String type, String[] fields, String value) {
        Element e = doc.createElementNS(Echo.XROAD, "xrd:" + name);
        e.setAttributeNS(Echo.IDENTIFIERS, "id:objectType", type);
        String[] segments = value.split("/");
        for (int i = 0; i < fields.length; i++) {
            e.appendChild(text(doc, Echo.IDENTIFIERS, "id:" + fields[i], segments[i]));
        }
        return e;
    }

    private static Element text(Document doc, String namespace, String name, String value) {
        Element e = doc.createElementNS(namespace, name);
        e.setTextContent(value);
        return e;
    }
}
