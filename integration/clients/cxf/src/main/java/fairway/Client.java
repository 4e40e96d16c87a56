// SPDX-License-Identifier: Apache-2.0
package fairway;

import jakarta.activation.DataHandler;
import jakarta.xml.ws.BindingProvider;
import jakarta.xml.ws.Service;
import jakarta.xml.ws.WebServiceException;
import jakarta.xml.ws.WebServiceFeature;
import jakarta.xml.ws.handler.MessageContext;
import jakarta.xml.ws.soap.MTOMFeature;
import jakarta.xml.ws.soap.SOAPBinding;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import javax.xml.namespace.QName;
import org.apache.cxf.binding.soap.SoapFault;
import org.apache.cxf.frontend.ClientProxy;
import org.apache.cxf.headers.Header;
import org.apache.cxf.interceptor.Interceptor;
import org.apache.cxf.message.Message;
import org.apache.cxf.transport.common.gzip.GZIPOutInterceptor;
import org.apache.cxf.transport.http.HTTPConduit;
import org.apache.cxf.transports.http.configuration.HTTPClientPolicy;
import org.w3c.dom.Element;

/** The echo client: a CXF JAX-WS proxy without a WSDL. */
public final class Client {
    private static final QName PORT = new QName(Echo.NS, "EchoPort");
    private static final String OPTION = Objects.requireNonNullElse(System.getenv("OPTION"), "");

    public static void main(String[] args) {
        Echo.main(args, Client::call);
    }

    private static Echo.Answer call(String url, String client, String service, Echo.Question q) throws Exception {
        Service proxy = Service.create(new QName(Echo.NS, "EchoService"));
        proxy.addPort(PORT,
                OPTION.equals("soap12") ? SOAPBinding.SOAP12HTTP_BINDING : SOAPBinding.SOAP11HTTP_BINDING, url);
        EchoPort port = proxy.getPort(PORT, EchoPort.class,
                q.form().equals("mtom") ? new WebServiceFeature[] {mtom()} : new WebServiceFeature[0]);
        org.apache.cxf.endpoint.Client under = ClientProxy.getClient(port);
        under.getOutInterceptors().addAll(interceptors());
        transport(((HTTPConduit) under.getConduit()).getClient());
        Map<String, Object> out = ((BindingProvider) port).getRequestContext();
        List<Header> headers = new ArrayList<>();
        for (Element block : Blocks.of(client, service, q.id())) {
            headers.add(new Header(new QName(block.getNamespaceURI(), block.getLocalName()), block));
        }
        out.put(Header.HEADER_LIST, headers);

        EchoPort.Request request = new EchoPort.Request();
        request.text = q.text();
        request.reply = q.reply();
        request.make = q.make();
        List<DataHandler> files = Files.wrap(q.files());
        if (q.form().equals("swa")) {
            out.put(MessageContext.OUTBOUND_MESSAGE_ATTACHMENTS, Files.attachments(files));
        } else {
            request.file = files;
        }
        EchoPort.Response response;
        try {
            response = port.echo(request);
        } catch (WebServiceException e) {
            if (e.getCause() instanceof SoapFault f) throw new Exception(f.getFaultCode() + ": " + f.getMessage());
            throw e;
        }

        Map<String, Object> in = ((BindingProvider) port).getResponseContext();
        return new Echo.Answer(id(in), response.text, response.sum,
                Files.received(response.file, in.get(MessageContext.INBOUND_MESSAGE_ATTACHMENTS)));
    }

    private static MTOMFeature mtom() {
        return switch (OPTION) {
            case "threshold0" -> new MTOMFeature(true, 0);
            case "threshold64" -> new MTOMFeature(true, 64);
            default -> new MTOMFeature();
        };
    }

    private static void transport(HTTPClientPolicy policy) {
        switch (OPTION) {
            case "chunked" -> {
                policy.setAllowChunking(true);
                policy.setChunkingThreshold(0);
            }
            case "length" -> policy.setAllowChunking(false);
            case "http2" -> policy.setVersion("2");
            default -> { }
        }
    }

    private static List<Interceptor<? extends Message>> interceptors() {
        if (!OPTION.equals("gzip")) return List.of();
        GZIPOutInterceptor gzip = new GZIPOutInterceptor(0);
        gzip.setForce(true);
        return List.of(gzip);
    }

    @SuppressWarnings("unchecked")
    private static String id(Map<String, Object> context) {
        for (Header h : (List<Header>) context.get(Header.HEADER_LIST)) {
            if (h.getName().equals(new QName(Echo.XROAD, "id"))) {
                return ((Element) h.getObject()).getTextContent();
            }
        }
        return null;
    }
}
