/** The way back: a table of sequences by code, and a stack, for a sequence is found with its last byte first. */
final class Expander {
    private final char[] prefixes = new char[Compressor.CODES];
    private final byte[] suffixes = new byte[Compressor.CODES];
    private final byte[] stack = new byte[Compressor.CODES];
    private int next = Compressor.FIRST_CODE;
    private int bits;
    private int bitCount;
    private int place;

    void expand(Main.Buffer in, Main.Buffer out) {
        int before = get(in, next);
        int first = before;
        out.add((byte) first);
        while (true) {
            // The compressor is one sequence ahead.
            int code = get(in, Math.min(next + 1, Compressor.CODES));
            if (code == Compressor.END) return;
            int depth = 0;
            int part = code;
            if (code >= next) {
                // The sequence that is just being made: the one before, and its own first byte.
                stack[depth++] = (byte) first;
                part = before;
            }
            while (part >= Compressor.FIRST_CODE) {
                stack[depth++] = suffixes[part];
                part = prefixes[part];
            }
            first = part;
            out.add((byte) first);
            while (depth > 0) out.add(stack[--depth]);
            if (next < Compressor.CODES) {
                prefixes[next] = (char) before;
                suffixes[next] = (byte) first;
                next++;
            }
            before = code;
        }
    }

    private int get(Main.Buffer in, int next) {
        int width = Compressor.width(next);
        while (bitCount < width) {
            bits |= (in.bytes[place++] & 255) << bitCount;
            bitCount += 8;
        }
        int code = bits & (1 << width) - 1;
        bits >>>= width;
        bitCount -= width;
        return code;
    }
}
