import org.teavm.interop.Export;

/** Compresses files of many sizes as Unix's compress did: with tables and buffers that fit the largest of them. */
public final class Main {
    /** Bytes of the largest file. */
    private static final int LARGEST = 512 << 10;

    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sized(20);
    }

    /** The work for so many files. The last results are kept, each in the buffer that it was written to. */
    @Export(name = "sized")
    public static void sized(int files) {
        Numbers random = new Numbers(14);
        Buffer[] kept = new Buffer[10];
        long before = 0;
        long after = 0;
        int hash = 0;
        boolean same = true;
        for (int i = 0; i < files; i++) {
            Buffer file = file(random);
            Buffer packed = new Buffer(LARGEST);
            new Compressor().compress(file, packed);
            Buffer restored = new Buffer(LARGEST);
            new Expander().expand(packed, restored);
            same &= file.equals(restored);
            kept[i % kept.length] = packed;
            before += file.size;
            after += packed.size;
            hash = 31 * hash + packed.hashCode();
        }
        long held = 0;
        for (Buffer buffer : kept) held += buffer == null ? 0 : buffer.size;
        System.out.println(files + " files: " + before + " to " + after + " bytes, hash " + hash + ", restored: " + same);
        System.out.println("kept: " + held + " bytes");
    }

    /** Words for the most part; small files are the most frequent. */
    private static Buffer file(Numbers random) {
        String[] words = "do re mi fa sol la ti piano forte crescendo ritardando a due con sordino".split(" ");
        Buffer file = new Buffer(LARGEST);
        int size = LARGEST / 2 >> random.nextInt(6);
        size = size / 2 + random.nextInt(size / 2);
        while (file.size < size) {
            String word = words[random.nextInt(words.length)];
            for (int i = 0; i < word.length(); i++) file.add((byte) word.charAt(i));
            file.add((byte) (random.nextInt(8) == 0 ? '0' + random.nextInt(10) : ' '));
        }
        return file;
    }

    /** Bytes in an array that is never replaced. */
    static final class Buffer {
        final byte[] bytes;
        int size;

        Buffer(int capacity) {
            bytes = new byte[capacity];
        }

        void add(byte value) {
            bytes[size++] = value;
        }

        @Override public boolean equals(Object other) {
            if (!(other instanceof Buffer) || ((Buffer) other).size != size) return false;
            byte[] others = ((Buffer) other).bytes;
            for (int i = 0; i < size; i++) if (bytes[i] != others[i]) return false;
            return true;
        }

        @Override public int hashCode() {
            int hash = 1;
            for (int i = 0; i < size; i++) hash = 31 * hash + bytes[i];
            return hash;
        }
    }
}
