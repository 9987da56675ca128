import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.WeakHashMap;
import org.teavm.interop.Export;

/** Weak references, their queue, a weak map and interned strings: what dies, what lives, and who is told of it. */
public final class Main {
    private static final int COUNT = 1000;

    /**
     * The last objects of many that were made for nothing. They live long enough to be promoted, so that full
     * collections come, too, where System.gc() does nothing: what dies after its promotion is found by these alone.
     */
    private static final Object[][] recent = new Object[4096][];

    private static int next;

    @Export(name = "run")
    public static void run() {
        references();
        queue();
        map();
        canonical();
        interned();
    }

    /** A reference to an object that is called by its number. */
    private static final class Named extends WeakReference<Object> {
        final int number;

        Named(int number, Object object, ReferenceQueue<Object> queue) {
            super(object, queue);
            this.number = number;
        }
    }

    /** Asks for a collection, and makes so many objects in case that nobody listens. */
    private static void collect(int objects) {
        System.gc();
        for (int i = 0; i < objects; i++) {
            recent[next++ % recent.length] = new Object[100];
        }
    }

    /**
     * Waits until the queue tells of a death; says whether the reference, which leads to the same object, is cleared
     * by then. It is not asked before: an object that is asked for while a collection is under way outlives that.
     */
    private static boolean dies(WeakReference<?> reference, ReferenceQueue<Object> queue) {
        for (int round = 0; round < 2000 && queue.poll() == null; round++) {
            collect(2000);
            // The host tells the queue where the program calls it.
            System.currentTimeMillis();
        }
        return reference.get() == null;
    }

    /** References to one object, which nobody holds: the first with the queue, the second without. */
    private static List<WeakReference<Object>> loose(ReferenceQueue<Object> queue) {
        Object object = new Object();
        return List.of(new WeakReference<>(object, queue), new WeakReference<>(object));
    }

    private static void references() {
        Object kept = new Object();
        WeakReference<Object> weak = new WeakReference<>(kept);
        WeakReference<Object> cleared = new WeakReference<>(kept);
        WeakReference<Object> toNull = new WeakReference<>(null);
        ReferenceQueue<Object> queue = new ReferenceQueue<>();
        List<WeakReference<Object>> loose = loose(queue);
        cleared.clear();
        System.out.println("a loose object dies: " + dies(loose.get(1), queue));
        System.out.println("one that is held lives: " + (weak.get() == kept));
        System.out.println("a cleared reference: " + cleared.get() + ", one to null: " + toNull.get());
    }

    /** Each third object is held. */
    private static List<Object> register(List<Named> references, ReferenceQueue<Object> queue) {
        List<Object> held = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            Object object = new int[] {i};
            if (i % 3 == 0) held.add(object);
            references.add(new Named(i, object, queue));
        }
        return held;
    }

    private static void queue() {
        ReferenceQueue<Object> queue = new ReferenceQueue<>();
        List<Named> references = new ArrayList<>();
        System.out.println("the queue is empty: " + (queue.poll() == null));
        List<Object> held = register(references, queue);
        Set<Integer> told = new TreeSet<>();
        for (int round = 0; round < 2000 && told.size() < COUNT - held.size(); round++) {
            collect(2000);
            // The host tells the queue where the program calls it.
            System.currentTimeMillis();
            for (Named dead = (Named) queue.poll(); dead != null; dead = (Named) queue.poll()) {
                if (references.get(dead.number).get() != null) System.out.println("told of a living object");
                if (!told.add(dead.number)) System.out.println("told twice of " + dead.number);
            }
        }
        int sum = 0;
        for (int number : told) sum += number;
        System.out.println("told of " + told.size() + " deaths, of numbers that make " + sum);
        int living = 0;
        for (Named reference : references) {
            if (reference.get() != null) living += ((int[]) reference.get())[0];
        }
        System.out.println("held: " + held.size() + ", numbers that make " + living);
    }

    private static List<Object> fill(Map<Object, String> map) {
        List<Object> keys = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            Object key = new StringBuilder().append("key ").append(i);
            map.put(key, "value " + i);
            if (i % 4 == 0) keys.add(key);
        }
        return keys;
    }

    private static void map() {
        Map<Object, String> map = new WeakHashMap<>();
        List<Object> keys = fill(map);
        for (int round = 0; round < 2000 && map.size() > keys.size(); round++) {
            collect(2000);
            System.currentTimeMillis();
        }
        System.out.println("entries of a weak map: " + map.size());
        boolean right = true;
        for (int i = 0; i < keys.size(); i++) {
            right &= ("value " + 4 * i).equals(map.get(keys.get(i)));
        }
        System.out.println("with their values: " + right);
    }

    /** A cache of values that are the same object as long as anybody holds them. */
    private static final class Cache {
        private final Map<Integer, WeakReference<int[]>> known = new java.util.HashMap<>();
        int made;

        int[] get(int number) {
            WeakReference<int[]> reference = known.get(number);
            int[] value = reference != null ? reference.get() : null;
            if (value == null) {
                value = new int[] {number};
                known.put(number, new WeakReference<>(value));
                made++;
            }
            return value;
        }
    }

    private static void canonical() {
        Cache cache = new Cache();
        int[] seven = cache.get(7);
        ReferenceQueue<Object> queue = new ReferenceQueue<>();
        WeakReference<Object> eight = new WeakReference<>(cache.get(8), queue);
        boolean died = dies(eight, queue);
        System.out.println("the cache lets go: " + died + ", and remembers: " + (cache.get(7) == seven));
        System.out.println("made anew: " + cache.get(8)[0] + ", " + cache.made + " in all");
    }

    private static void interned() {
        StringBuilder text = new StringBuilder("long-");
        String kept = text.append("lived").toString().intern();
        boolean same = true;
        for (int round = 0; round < 30; round++) {
            for (int i = 0; i < 500; i++) {
                String one = ("string " + i).intern();
                String other = new StringBuilder("string ").append(i).toString();
                same &= one == other.intern() && one.equals(other);
            }
            collect(5000);
        }
        System.out.println("equal strings are interned as one: " + same);
        System.out.println("one that is held stays: " + (kept == ("long-" + text.substring(5)).intern()));
    }
}
