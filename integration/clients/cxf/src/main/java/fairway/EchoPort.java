// SPDX-License-Identifier: Apache-2.0
package fairway;

import jakarta.activation.DataHandler;
import jakarta.jws.WebMethod;
import jakarta.jws.WebParam;
import jakarta.jws.WebResult;
import jakarta.jws.WebService;
import jakarta.jws.soap.SOAPBinding;
import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlMimeType;
import jakarta.xml.bind.annotation.XmlType;
import java.util.ArrayList;
import java.util.List;

/** The echo service as JAX-WS sees it: document/literal, files as MTOM sends them. */
@WebService(name = "Echo", targetNamespace = Echo.NS)
@SOAPBinding(parameterStyle = SOAPBinding.ParameterStyle.BARE)
public interface EchoPort {
    @WebMethod
    @WebResult(name = "echoResponse", targetNamespace = Echo.NS)
    Response echo(@WebParam(name = "echo", targetNamespace = Echo.NS) Request request);

    @XmlAccessorType(XmlAccessType.FIELD)
    @XmlType(propOrder = {"text", "reply", "make", "file"})
    class Request {
        public String text;
        public String reply;
        public List<String> make = new ArrayList<>();
        @XmlMimeType("application/octet-stream")
        public List<DataHandler> file = new ArrayList<>();
    }

    @XmlAccessorType(XmlAccessType.FIELD)
    @XmlType(propOrder = {"text", "sum", "file"})
    class Response {
        public String text;
        public List<String> sum = new ArrayList<>();
        @XmlMimeType("application/octet-stream")
        public List<DataHandler> file = new ArrayList<>();
    }
}
