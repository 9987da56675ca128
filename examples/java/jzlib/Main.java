import java.util.Arrays;

import com.jcraft.jzlib.Deflater;
import com.jcraft.jzlib.Inflater;
import com.jcraft.jzlib.JZlib;
import org.teavm.interop.Export;

/** Drives JZlib: compresses data of several kinds at several levels and restores it. */
public final class Main {
    private static final int SIZE = 400_000;

    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sized(SIZE);
    }

    /** Three inputs of so many bytes. */
    @Export(name = "sized")
    public static void sized(int size) {
        byte[][] inputs = {text(size), noise(size), new byte[size]};
        String[] names = {"text", "noise", "zeros"};
        for (int i = 0; i < inputs.length; i++) {
            for (int level : new int[] {1, 6, 9}) {
                byte[] packed = compress(inputs[i], level);
                boolean same = Arrays.equals(inputs[i], decompress(packed, inputs[i].length));
                System.out.println(names[i] + " at level " + level + ": " + packed.length + " bytes, hash "
                        + Arrays.hashCode(packed) + ", restored: " + same);
            }
        }
        byte[] broken = compress(inputs[0], 6);
        broken[broken.length / 2] ^= 1;
        System.out.println("damage is noticed: " + (decompress(broken, size) == null));
    }

    private static byte[] text(int size) {
        String[] words = "the wind in the willows sings a song of reeds and rivers to nobody in particular".split(" ");
        Numbers random = new Numbers(6);
        StringBuilder text = new StringBuilder();
        while (text.length() < size) text.append(words[random.nextInt(words.length)]).append(' ');
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) bytes[i] = (byte) text.charAt(i);
        return bytes;
    }

    private static byte[] noise(int size) {
        byte[] bytes = new byte[size];
        new Numbers(7).nextBytes(bytes);
        return bytes;
    }

    private static byte[] compress(byte[] input, int level) {
        Deflater deflater = new Deflater();
        deflater.init(level);
        byte[] output = new byte[input.length + input.length / 100 + 100];
        deflater.setInput(input);
        deflater.setOutput(output);
        if (deflater.deflate(JZlib.Z_FINISH) != JZlib.Z_STREAM_END) throw new IllegalStateException(deflater.getMessage());
        byte[] packed = Arrays.copyOf(output, (int) deflater.getTotalOut());
        deflater.end();
        return packed;
    }

    /** The data, or null if the stream is damaged. */
    private static byte[] decompress(byte[] packed, int size) {
        Inflater inflater = new Inflater();
        inflater.init();
        byte[] output = new byte[size];
        inflater.setInput(packed);
        inflater.setOutput(output);
        int status = inflater.inflate(JZlib.Z_FINISH);
        inflater.end();
        return status == JZlib.Z_STREAM_END ? output : null;
    }
}
