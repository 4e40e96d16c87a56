// SPDX-License-Identifier: Apache-2.0
package fairway;

import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * The vocabulary of the echo exchange: what is asked, what is answered, how a client judges the
 * answer. The stacks only put it on the wire.
 */
public final class Echo {
    public static final String NS = "urn:fairway:echo";
    public static final String XROAD = "http://x-road.eu/xsd/xroad.xsd";
    public static final String IDENTIFIERS = "http://x-road.eu/xsd/identifiers";

    /** Form is "plain", "swa" or "mtom", and so is reply; make lists the files wanted, "size:seed". */
    public record Question(String form, String id, String text, List<byte[]> files,
            String reply, List<String> make) {}

    /** Sums are the SHA-256 of the files that the service received, in order. */
    public record Answer(String id, String text, List<String> sums, List<byte[]> files) {}

    /** Caller sends a question to url with the header blocks for client and service. */
    public interface Caller {
        Answer call(String url, String client, String service, Question question) throws Exception;
    }

    private Echo() {}

    /** Bytes of an attachment: xorshift32 from the seed, the low octet of every step. */
    public static byte[] bytes(int size, int seed) {
        byte[] out = new byte[size];
        for (int i = 0, x = seed; i < size; i++) {
            x ^= x << 13;
            x ^= x >>> 17;
            x ^= x << 5;
            out[i] = (byte) x;
        }
        return out;
    }

    /** The files that a list of "size:seed" describes. */
    public static List<byte[]> make(List<String> specs) {
        return specs.stream().map(s -> s.split(":"))
                .map(p -> bytes(Integer.parseInt(p[0]), Integer.parseInt(p[1]))).toList();
    }

    public static List<String> sums(List<byte[]> files) {
        try {
            List<String> out = new ArrayList<>();
            for (byte[] file : files) {
                out.add(HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(file)));
            }
            return out;
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Runs the cases of the command line, URL CLIENT SERVICE SIZES CASE..., one JSON line each. */
    public static void main(String[] args, Caller caller) {
        String[] sizes = args[3].split(",");
        for (int i = 4; i < args.length; i++) {
            String form = args[i].split("-")[0];
            boolean sends = args[i].matches(".*-(request|both)");
            boolean receives = args[i].matches(".*-(response|both)");
            List<String> out = new ArrayList<>();
            List<String> in = new ArrayList<>();
            for (int n = 0; n < sizes.length; n++) {
                if (sends) out.add(sizes[n] + ":" + (n + 1));
                if (receives) in.add(sizes[n] + ":" + (n + 101));
            }
            Question q = new Question(form, "id-" + args[i], "väylä & <tee> " + args[i],
                    make(out), receives ? form : "plain", in);
            String error = "";
            try {
                error = verdict(q, caller.call(args[0], args[1], args[2], q));
            } catch (Throwable e) {
                for (Throwable t = e; t != null; t = t.getCause()) error += (error.isEmpty() ? "" : ": ") + t;
            }
            System.out.printf("{\"case\":\"%s\",\"ok\":%b,\"error\":\"%s\"}%n",
                    args[i], error.isEmpty(), error.replaceAll("[\\\\\"\\p{Cntrl}]", " "));
        }
        System.exit(0);
    }

    private static String verdict(Question q, Answer a) {
        if (!q.id().equals(a.id())) return "the answer's id is " + a.id();
        if (!q.text().equals(a.text())) return "the answer's text is " + a.text();
        if (!sums(q.files()).equals(a.sums())) return "the service received " + a.sums();
        if (!sums(make(q.make())).equals(sums(a.files()))) return "the client received " + sums(a.files());
        return "";
    }
}
