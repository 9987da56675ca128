import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.TreeMap;
import java.util.function.BinaryOperator;
import java.util.function.Function;
import java.util.function.Predicate;

import org.teavm.interop.Export;

/** Lazy flows of boxed values through iterators, and lists that are sorted, grouped and merged: collections at work. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sized(4_000);
    }

    /** The work for so many orders. */
    @Export(name = "sized")
    public static void sized(int count) {
        Numbers random = new Numbers(12);
        List<Order> orders = new ArrayList<>();
        for (int i = 0; i < count; i++) orders.add(new Order(i, random.nextInt(97), 1 + random.nextInt(500), random.nextInt(24)));

        List<Order> sorted = new ArrayList<>(orders);
        sorted.sort(Comparator.<Order, Integer>comparing(o -> o.amount).reversed().thenComparing(o -> o.customer)
                .thenComparing(o -> o.number));
        System.out.println("largest: " + Flow.of(sorted).first(4).map(Order::toString).reduce("", (a, b) -> a + " " + b).trim());

        TreeMap<Integer, List<Order>> hours = new TreeMap<>();
        for (Order order : orders) hours.computeIfAbsent(order.hour, hour -> new ArrayList<>()).add(order);
        TreeMap<Integer, Long> sums = new TreeMap<>();
        hours.forEach((hour, list) -> sums.put(hour, Flow.of(list).map(o -> (long) o.amount).reduce(0L, Long::sum)));
        System.out.println("by hour: " + sums);

        long checksum = 0;
        for (int round = 0; round < 10; round++) {
            Integer divisor = 2 + round;
            Flow<Long> even = Flow.of(orders).filter(o -> o.amount % divisor == 0).map(o -> (long) o.amount * o.customer);
            Flow<Long> odd = Flow.of(orders).filter(o -> o.amount % divisor != 0).map(o -> (long) o.amount + o.customer);
            checksum = checksum * 31 + even.zip(odd, (a, b) -> a - b).reduce(0L, (a, b) -> (a * 7 + b) % 1_000_003);
        }
        System.out.println("rounds: " + checksum);

        List<Integer> shuffled = Flow.of(orders).map(o -> o.amount * 1000 + o.customer).toList();
        List<Integer> merged = mergeSort(shuffled, Comparator.naturalOrder());
        List<Integer> library = new ArrayList<>(shuffled);
        library.sort(null);
        System.out.println("sorted alike: " + merged.equals(library) + ", middle " + merged.get(merged.size() / 2));
    }

    private static <T> List<T> mergeSort(List<T> list, Comparator<T> order) {
        if (list.size() <= 1) return list;
        int middle = list.size() / 2;
        Iterator<T> left = mergeSort(list.subList(0, middle), order).iterator();
        Iterator<T> right = mergeSort(list.subList(middle, list.size()), order).iterator();
        List<T> result = new ArrayList<>();
        T a = left.next();
        T b = right.next();
        while (a != null || b != null) {
            if (b == null || (a != null && order.compare(a, b) <= 0)) {
                result.add(a);
                a = left.hasNext() ? left.next() : null;
            } else {
                result.add(b);
                b = right.hasNext() ? right.next() : null;
            }
        }
        return result;
    }

    private static final class Order {
        final Integer number;
        final Integer customer;
        final Integer amount;
        final Integer hour;

        Order(Integer number, Integer customer, Integer amount, Integer hour) {
            this.number = number;
            this.customer = customer;
            this.amount = amount;
            this.hour = hour;
        }

        @Override public String toString() {
            return "#" + number + "=" + amount;
        }
    }

    /** Values that come one at a time; each step is an iterator over the one before. */
    private static final class Flow<T> {
        private final Iterator<T> source;

        private Flow(Iterator<T> source) {
            this.source = source;
        }

        static <T> Flow<T> of(Iterable<T> values) {
            return new Flow<>(values.iterator());
        }

        <R> Flow<R> map(Function<T, R> change) {
            return new Flow<>(new Iterator<R>() {
                @Override public boolean hasNext() {
                    return source.hasNext();
                }

                @Override public R next() {
                    return change.apply(source.next());
                }
            });
        }

        Flow<T> filter(Predicate<T> wanted) {
            return new Flow<>(new Iterator<T>() {
                private T ahead;

                @Override public boolean hasNext() {
                    while (ahead == null && source.hasNext()) {
                        T value = source.next();
                        if (wanted.test(value)) ahead = value;
                    }
                    return ahead != null;
                }

                @Override public T next() {
                    hasNext();
                    T value = ahead;
                    ahead = null;
                    return value;
                }
            });
        }

        Flow<T> first(int count) {
            List<T> result = new ArrayList<>();
            while (result.size() < count && source.hasNext()) result.add(source.next());
            return of(result);
        }

        Flow<T> zip(Flow<T> other, BinaryOperator<T> combine) {
            List<T> result = new ArrayList<>();
            while (source.hasNext() && other.source.hasNext()) result.add(combine.apply(source.next(), other.source.next()));
            return of(result);
        }

        T reduce(T start, BinaryOperator<T> combine) {
            T result = start;
            while (source.hasNext()) result = combine.apply(result, source.next());
            return result;
        }

        List<T> toList() {
            List<T> result = new ArrayList<>();
            source.forEachRemaining(result::add);
            return result;
        }
    }
}
