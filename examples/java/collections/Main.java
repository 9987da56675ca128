import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.teavm.interop.Export;

public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        lists();
        maps();
        queues();
        sorting();
        streams();
    }

    private static void lists() {
        List<Integer> list = new ArrayList<>();
        for (int i = 0; i < 10_000; i++) list.add(i * 7 % 1000);
        list.removeIf(n -> n % 3 == 0);
        list.replaceAll(n -> n + 1);
        System.out.println("list: " + list.size() + " elements, starts with " + list.subList(0, 8));
        System.out.println("indices: " + list.indexOf(501) + " " + list.lastIndexOf(501) + " " + list.contains(1000));
    }

    private static void maps() {
        Numbers random = new Numbers(1);
        Map<String, Integer> counts = new HashMap<>();
        for (int i = 0; i < 200_000; i++) counts.merge("key" + random.nextInt(20_000), 1, Integer::sum);
        int most = counts.values().stream().max(Comparator.naturalOrder()).get();
        System.out.println("hash map: " + counts.size() + " keys, the most frequent " + most + " times");

        TreeMap<Integer, String> tree = new TreeMap<>();
        for (int i = 0; i < 50_000; i++) tree.put(random.nextInt(1_000_000), "v" + i);
        System.out.println("tree map: " + tree.size() + " keys from " + tree.firstKey() + " to " + tree.lastKey());
        System.out.println("near 500000: " + tree.floorKey(500_000) + " and " + tree.ceilingEntry(500_000));
        System.out.println("between: " + tree.subMap(100_000, 200_000).size());

        // Forgets what was not used for the longest time.
        Map<Integer, Integer> recent = new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<Integer, Integer> eldest) {
                return size() > 5;
            }
        };
        for (int i = 0; i < 100; i++) {
            recent.put(i, i * i);
            recent.get(96);
        }
        System.out.println("recent: " + recent);
    }

    private static void queues() {
        Numbers random = new Numbers(2);
        PriorityQueue<Long> queue = new PriorityQueue<>(Comparator.reverseOrder());
        ArrayDeque<Long> window = new ArrayDeque<>();
        long sum = 0;
        for (int i = 0; i < 100_000; i++) {
            queue.add((long) random.nextInt());
            if (i % 3 == 2) {
                window.addLast(queue.poll());
                if (window.size() > 100) sum += window.removeFirst();
            }
        }
        System.out.println("queues: " + queue.size() + " wait, " + window.size() + " in the window, sum " + sum);
    }

    private static final class City {
        final String name;
        final int people;

        City(String name, int people) {
            this.name = name;
            this.people = people;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof City && ((City) other).name.equals(name) && ((City) other).people == people;
        }

        @Override
        public int hashCode() {
            return 31 * name.hashCode() + people;
        }
    }

    private static void sorting() {
        Numbers random = new Numbers(3);
        List<City> cities = new ArrayList<>();
        for (int i = 0; i < 50_000; i++) cities.add(new City("city" + random.nextInt(500), random.nextInt(1000)));
        Set<City> distinct = new HashSet<>(cities);
        cities.sort(Comparator.comparing((City c) -> c.name).thenComparing(c -> -c.people));
        System.out.println("cities: " + distinct.size() + " distinct, first " + cities.get(0).name + " with " + cities.get(0).people);

        Integer[] boxed = new Integer[100_000];
        int[] plain = new int[boxed.length];
        for (int i = 0; i < boxed.length; i++) boxed[i] = plain[i] = random.nextInt();
        Arrays.sort(boxed);
        Arrays.sort(plain);
        boolean same = IntStream.range(0, plain.length).allMatch(i -> boxed[i] == plain[i]);
        System.out.println("sorted alike: " + same + ", found at " + Arrays.binarySearch(plain, plain[777]));
    }

    private static void streams() {
        Map<Integer, List<String>> byLength = Arrays.stream("the quick brown fox jumps over the lazy dog".split(" "))
                .distinct().sorted().collect(Collectors.groupingBy(String::length, TreeMap::new, Collectors.toList()));
        System.out.println("by length: " + byLength);
        long pythagorean = IntStream.rangeClosed(1, 300).boxed()
                .flatMap(a -> IntStream.rangeClosed(a, 300).mapToObj(b -> new int[] {a, b}))
                .filter(t -> {
                    int c = (int) Math.sqrt(t[0] * t[0] + t[1] * t[1]);
                    return c * c == t[0] * t[0] + t[1] * t[1];
                }).count();
        System.out.println("Pythagorean pairs up to 300: " + pythagorean);
    }
}
