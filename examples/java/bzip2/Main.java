import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;

import org.apache.commons.compress.compressors.bzip2.BZip2CompressorInputStream;
import org.apache.commons.compress.compressors.bzip2.BZip2CompressorOutputStream;
import org.teavm.interop.Export;

/** Drives Commons Compress: bzip2 there and back. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() throws IOException {
        sized(350_000);
    }

    /** An input of so many bytes. */
    @Export(name = "sized")
    public static void sized(int size) throws IOException {
        for (int blockSize : new int[] {1, 3}) {
            byte[] original = sample(size);
            byte[] packed = compress(original, blockSize);
            byte[] restored = new BZip2CompressorInputStream(new ByteArrayInputStream(packed)).readAllBytes();
            System.out.println("block size " + blockSize + ": " + original.length + " to " + packed.length + " bytes, hash "
                    + Arrays.hashCode(packed) + ", restored: " + Arrays.equals(original, restored));
        }
        byte[] damaged = compress(sample(10_000), 1);
        damaged[damaged.length / 2] ^= 16;
        try {
            new BZip2CompressorInputStream(new ByteArrayInputStream(damaged)).readAllBytes();
            System.out.println("damage went unnoticed");
        } catch (IOException | RuntimeException e) {
            System.out.println("damage is noticed");
        }
    }

    private static byte[] compress(byte[] data, int blockSize) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (BZip2CompressorOutputStream out = new BZip2CompressorOutputStream(bytes, blockSize)) {
            out.write(data);
        }
        return bytes.toByteArray();
    }

    /** Half of it repeats itself, half does not. */
    private static byte[] sample(int size) {
        Numbers random = new Numbers(8);
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) bytes[i] = (byte) (i % 512 < 256 ? "la si do re mi ".charAt(i % 15) : 'a' + random.nextInt(26));
        return bytes;
    }
}
