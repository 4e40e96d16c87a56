// SPDX-License-Identifier: Apache-2.0
package fairway;

import jakarta.activation.DataHandler;
import jakarta.annotation.Resource;
import jakarta.jws.WebService;
import jakarta.xml.ws.Endpoint;
import jakarta.xml.ws.WebServiceContext;
import jakarta.xml.ws.handler.MessageContext;
import java.util.List;
import java.util.Map;
import org.apache.cxf.headers.Header;
import org.apache.cxf.message.Message;
import org.apache.cxf.phase.PhaseInterceptorChain;

/** The echo service: a CXF JAX-WS endpoint, MTOM switched on for the answers that want it. */
@WebService(endpointInterface = "fairway.EchoPort", targetNamespace = Echo.NS)
public final class Service implements EchoPort {
    @Resource
    private WebServiceContext call;

    public static void main(String[] args) {
        Endpoint.publish("http://127.0.0.1:" + args[0] + "/echo", new Service());
    }

    @Override
    @SuppressWarnings("unchecked")
    public Response echo(Request request) {
        MessageContext context = call.getMessageContext();
        ((List<Header>) context.get(Header.HEADER_LIST)).forEach(h -> h.setDirection(Header.Direction.DIRECTION_INOUT));
        Response response = new Response();
        response.text = request.text;
        response.sum = Echo.sums(Files.received(request.file, context.get(MessageContext.INBOUND_MESSAGE_ATTACHMENTS)));
        List<DataHandler> files = Files.wrap(Echo.make(request.make));
        if (request.reply.equals("swa")) {
            // CXF takes additions to the map it holds, and forgets a map that is put in its place.
            ((Map<String, DataHandler>) context.get(MessageContext.OUTBOUND_MESSAGE_ATTACHMENTS))
                    .putAll(Files.attachments(files));
        } else {
            response.file = files;
        }
        PhaseInterceptorChain.getCurrentMessage().getExchange().put(Message.MTOM_ENABLED, request.reply.equals("mtom"));
        return response;
    }
}
