import java.util.Arrays;

import org.teavm.interop.Export;

/** Loops over arrays of every element type, and the bulk operations on them. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sieve(5_000_000);
        matrix(300);
        life(256, 150);
        bulk();
        knapsack(200, 20_000);
        histogram();
    }

    private static void sieve(int limit) {
        boolean[] composite = new boolean[limit + 1];
        int count = 0;
        for (int i = 2; i <= limit; i++) {
            if (composite[i]) continue;
            count++;
            for (long j = (long) i * i; j <= limit; j += i) composite[(int) j] = true;
        }
        System.out.println("sieve: " + count + " primes up to " + limit);
    }

    private static void matrix(int size) {
        double[][] a = new double[size][size];
        double[][] b = new double[size][size];
        double[][] c = new double[size][size];
        for (int i = 0; i < size; i++) {
            for (int j = 0; j < size; j++) {
                a[i][j] = (i * 31 + j * 17) % 101 - 50;
                b[i][j] = (i * 13 + j * 7) % 103 - 51;
            }
        }
        for (int i = 0; i < size; i++) {
            for (int k = 0; k < size; k++) {
                double factor = a[i][k];
                for (int j = 0; j < size; j++) c[i][j] += factor * b[k][j];
            }
        }
        double trace = 0;
        for (int i = 0; i < size; i++) trace += c[i][i];
        System.out.println("matrix: trace " + (long) trace);
    }

    private static void life(int size, int generations) {
        Numbers random = new Numbers(4);
        byte[][] board = new byte[size][size];
        for (byte[] row : board) for (int x = 0; x < size; x++) row[x] = (byte) (random.nextInt(4) == 0 ? 1 : 0);
        int mask = size - 1;
        for (int g = 0; g < generations; g++) {
            byte[][] next = new byte[size][size];
            for (int y = 0; y < size; y++) {
                byte[] above = board[(y - 1) & mask];
                byte[] here = board[y];
                byte[] below = board[(y + 1) & mask];
                for (int x = 0; x < size; x++) {
                    int l = (x - 1) & mask;
                    int r = (x + 1) & mask;
                    int n = above[l] + above[x] + above[r] + here[l] + here[r] + below[l] + below[x] + below[r];
                    next[y][x] = (byte) (n == 3 || n == 2 && here[x] == 1 ? 1 : 0);
                }
            }
            board = next;
        }
        int alive = 0;
        for (byte[] row : board) for (byte cell : row) alive += cell;
        System.out.println("life: " + alive + " cells alive after " + generations + " generations");
    }

    private static void bulk() {
        char[] letters = new char[1 << 20];
        Arrays.fill(letters, 'x');
        for (int i = 0; i < 60; i++) {
            letters[i * 1000] = (char) ('a' + i % 26);
            // Source and target overlap, once in each direction.
            System.arraycopy(letters, 0, letters, 3, letters.length - 3);
            System.arraycopy(letters, 2, letters, 0, letters.length - 2);
        }
        System.out.println("bulk: hash " + Arrays.hashCode(letters));

        Object[] objects = new Object[10_000];
        for (int i = 0; i < objects.length; i += 3) objects[i] = i;
        Object[] grown = Arrays.copyOf(objects, 20_000);
        System.arraycopy(objects, 0, grown, 10_000, 10_000);
        System.out.println("objects: " + Arrays.asList(grown).indexOf(9_999) + " " + Arrays.asList(grown).lastIndexOf(9_999));
        try {
            Object[] strings = new String[1];
            strings[0] = "fits";
            System.arraycopy(objects, 0, grown, 15_000, 10_000);
            System.out.println("copied too far");
        } catch (IndexOutOfBoundsException e) {
            System.out.println("copying too far is refused");
        }
        long[] longs = new long[300];
        for (int i = 2, j = 1; i < longs.length; i++, j++) longs[i] = longs[j] * 6364136223846793005L + i;
        System.out.println("longs: " + longs[299] + " " + Arrays.equals(longs, longs.clone()));
    }

    private static void knapsack(int items, int capacity) {
        int[] best = new int[capacity + 1];
        for (int item = 1; item <= items; item++) {
            int weight = 10 + item * 37 % 211;
            int value = 5 + item * 53 % 307;
            for (int c = capacity; c >= weight; c--) best[c] = Math.max(best[c], best[c - weight] + value);
        }
        System.out.println("knapsack: " + best[capacity]);
    }

    private static void histogram() {
        Numbers random = new Numbers(5);
        short[] counts = new short[64];
        float[] samples = new float[300_000];
        for (int i = 0; i < samples.length; i++) samples[i] = random.nextFloat() * random.nextFloat();
        for (float sample : samples) counts[(int) (sample * counts.length)]++;
        System.out.println("histogram: " + Arrays.toString(Arrays.copyOf(counts, 8)));
    }
}
