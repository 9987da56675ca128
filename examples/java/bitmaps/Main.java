import org.roaringbitmap.IntIterator;
import org.roaringbitmap.RoaringBitmap;
import org.teavm.interop.Export;

/** Drives RoaringBitmap: sets of integers, packed by density. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        Numbers random = new Numbers(9);
        RoaringBitmap dense = new RoaringBitmap();
        RoaringBitmap sparse = new RoaringBitmap();
        dense.add(100_000L, 900_000L);
        for (int i = 0; i < 200_000; i++) {
            sparse.add(random.nextInt(2_000_000));
            dense.remove(random.nextInt(1_000_000));
        }
        show("dense", dense);
        show("sparse", sparse);
        show("and", RoaringBitmap.and(dense, sparse));
        show("or", RoaringBitmap.or(dense, sparse));
        show("xor", RoaringBitmap.xor(dense, sparse));
        show("without", RoaringBitmap.andNot(dense, sparse));
        dense.runOptimize();
        show("packed", dense);
        System.out.println(dense.contains(500_000) + " " + sparse.rank(1_000_000) + " " + sparse.select(50_000) + " " + sparse.nextValue(1_234_567));
    }

    private static void show(String name, RoaringBitmap set) {
        long sum = 0;
        IntIterator values = set.getIntIterator();
        while (values.hasNext()) sum += values.next();
        System.out.println(name + ": " + set.getCardinality() + " from " + set.first() + " to " + set.last() + ", sum " + sum);
    }
}
