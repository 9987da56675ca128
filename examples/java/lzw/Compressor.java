/** Lempel, Ziv and Welch: sequences that came before become one code each, of 9 to 16 bits. */
final class Compressor {
    static final int FIRST_CODE = 257;
    static final int END = 256;
    static final int CODES = 1 << 16;

    /** A prime that leaves the hash table a twentieth empty. */
    private static final int SLOTS = 69_001;

    /** A sequence: the code of all but its last byte, and that byte; 0 in an empty slot. */
    private final int[] keys = new int[SLOTS];
    private final char[] codes = new char[SLOTS];
    private int next = FIRST_CODE;
    private int bits;
    private int bitCount;
    private Main.Buffer out;

    void compress(Main.Buffer in, Main.Buffer to) {
        out = to;
        int code = in.bytes[0] & 255;
        for (int i = 1; i < in.size; i++) {
            int last = in.bytes[i] & 255;
            int key = (last << 16 | code) + 1;
            int slot = find(key, last, code);
            if (keys[slot] == key) {
                code = codes[slot];
                continue;
            }
            put(code);
            if (next < CODES) {
                keys[slot] = key;
                codes[slot] = (char) next++;
            }
            code = last;
        }
        put(code);
        put(END);
        while (bitCount > 0) flush();
    }

    /** Where a sequence stands, or the empty slot where it would. */
    private int find(int key, int last, int code) {
        int slot = (last << 8 ^ code) % SLOTS;
        int step = slot == 0 ? 1 : SLOTS - slot;
        while (keys[slot] != 0 && keys[slot] != key) {
            slot -= step;
            if (slot < 0) slot += SLOTS;
        }
        return slot;
    }

    /** As many bits as the largest code so far needs. */
    static int width(int next) {
        return Math.max(9, 32 - Integer.numberOfLeadingZeros(Math.min(next, CODES - 1)));
    }

    private void put(int code) {
        bits |= code << bitCount;
        bitCount += width(next);
        while (bitCount >= 8) flush();
    }

    private void flush() {
        out.add((byte) bits);
        bits >>>= 8;
        bitCount -= 8;
    }
}
