// SPDX-License-Identifier: Apache-2.0
package fairway;

import jakarta.activation.DataHandler;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.cxf.attachment.ByteDataSource;

/** Files as JAX-WS handles them. */
final class Files {
    private Files() {}

    static List<DataHandler> wrap(List<byte[]> files) {
        return files.stream().map(f -> new DataHandler(new ByteDataSource(f, "application/octet-stream"))).toList();
    }

    /** Attachments by Content-ID: SwA, where the body does not name them. */
    static Map<String, DataHandler> attachments(List<DataHandler> files) {
        Map<String, DataHandler> out = new LinkedHashMap<>();
        files.forEach(file -> out.put("file" + out.size() + "@fairway.example", file));
        return out;
    }

    /** The files that the body names, or else all attachments. */
    @SuppressWarnings("unchecked")
    static List<byte[]> received(List<DataHandler> named, Object attachments) {
        return (named.isEmpty() ? ((Map<String, DataHandler>) attachments).values() : named).stream()
                .map(Files::bytes).toList();
    }

    private static byte[] bytes(DataHandler handler) {
        try {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            handler.writeTo(out);
            return out.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
