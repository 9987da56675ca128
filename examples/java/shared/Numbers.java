/** A generator of our own: TeaVM's java.util.Random makes other numbers than the JVM's. */
public final class Numbers {
    private long state;

    public Numbers(long seed) {
        state = seed * 0x9E3779B97F4A7C15L + 1;
    }

    public long nextLong() {
        state ^= state << 13;
        state ^= state >>> 7;
        state ^= state << 17;
        return state * 0x2545F4914F6CDD1DL;
    }

    public int nextInt() {
        return (int) (nextLong() >>> 32);
    }

    public int nextInt(int limit) {
        return (int) ((nextLong() >>> 33) % limit);
    }

    public boolean nextBoolean() {
        return nextLong() < 0;
    }

    public float nextFloat() {
        return (nextLong() >>> 40) / (float) (1 << 24);
    }

    public void nextBytes(byte[] bytes) {
        for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) (nextLong() >>> 56);
    }
}
