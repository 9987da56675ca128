import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.IntUnaryOperator;
import java.util.logging.Level;
import java.util.logging.Logger;

import org.teavm.interop.Export;

public final class Main {
    private static final StringBuilder TRACE = new StringBuilder();

    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        for (int failing = 0; failing <= 4; failing++) System.out.println(failing + " -> " + nested(failing) + ": " + trace());
        System.out.println("finally wins: " + finallyWins() + ": " + trace());
        causes();
        fromTheRuntime();
        resources();
        throughLambdas();
        unwinding(1_000);
        many(200_000);
    }

    /** An exception that nobody catches: for a look at what the host says of it. */
    @Export(name = "fail")
    public static void fail(int depth) {
        if (depth > 0) fail(depth - 1);
        // Where nothing asks for the name of a class, TeaVM leaves the names out.
        if (depth < 0) System.out.println(new IllegalStateException("too deep"));
        System.out.println("about to fail");
        throw new IllegalStateException("nobody wants me", new OrderException(depth, new RuntimeException("bottom")));
    }

    /** What a logger is told: for a look at what the host prints. */
    @Export(name = "log")
    public static void log() {
        Logger logger = Logger.getLogger("exceptions");
        logger.fine("nobody asks for this");
        logger.info("three tries");
        logger.log(Level.WARNING, "{0} of {1} failed", new Object[] {"two", 3});
        logger.log(Level.SEVERE, "gave up", new IllegalStateException("too many"));
    }

    private static String trace() {
        String result = TRACE.toString();
        TRACE.setLength(0);
        return result;
    }

    private static String nested(int failing) {
        try {
            TRACE.append("outer ");
            try {
                TRACE.append("inner ");
                if (failing == 1) throw new IllegalArgumentException("one");
                if (failing == 2) throw new IllegalStateException("two");
                return "value";
            } catch (IllegalArgumentException e) {
                TRACE.append("caught ").append(e.getMessage()).append(' ');
                return "from catch";
            } finally {
                TRACE.append("inner-finally ");
                if (failing == 3) throw new UnsupportedOperationException("three");
            }
        } catch (RuntimeException e) {
            TRACE.append("outer-caught ").append(e.getMessage()).append(' ');
            return "from outer catch";
        } finally {
            TRACE.append("outer-finally");
        }
    }

    @SuppressWarnings("finally")
    private static int finallyWins() {
        for (int i = 0;; i++) {
            try {
                if (i == 2) return 1;
                TRACE.append(i);
                continue;
            } finally {
                TRACE.append('f');
                if (i == 2) return 2;
            }
        }
    }

    private static final class OrderException extends Exception {
        final int order;

        OrderException(int order, Throwable cause) {
            super("order " + order, cause);
            this.order = order;
        }
    }

    private static void causes() {
        try {
            try {
                throw new NumberFormatException("no number");
            } catch (NumberFormatException e) {
                throw new OrderException(7, e);
            }
        } catch (OrderException e) {
            System.out.println(e.order + ": " + e.getMessage() + ", caused by " + e.getCause().getMessage());
        }
    }

    /** Division by zero and negative array sizes are not among these: as TeaVM compiles them, they are traps. */
    private static void fromTheRuntime() {
        List<Integer> list = new ArrayList<>(List.of(1, 2, 3));
        Object text = "text";
        int[] array = new int[3];
        String nothing = list.isEmpty() ? "" : null;
        attempt("array index", () -> array[list.size()] = 1);
        attempt("negative index", () -> array[-list.get(0)] = 1);
        attempt("list index", () -> list.get(3));
        attempt("null", () -> nothing.length());
        attempt("cast", () -> System.out.println((Integer) text));
        attempt("number", () -> Integer.parseInt("12a"));
        attempt("modification", () -> {
            for (Integer n : list) list.add(n);
        });
        attempt("iterator", () -> {
            Iterator<Integer> i = List.<Integer>of().iterator();
            i.next();
        });
    }

    private static void attempt(String name, Runnable task) {
        try {
            task.run();
            System.out.println(name + ": nothing thrown");
        } catch (RuntimeException e) {
            System.out.println(name + ": " + kind(e));
        }
    }

    /** TeaVM does not know the names of all classes whose objects the runtime itself creates, hence no getClass().getName(). */
    private static String kind(RuntimeException e) {
        if (e instanceof ArrayIndexOutOfBoundsException) return "array index";
        if (e instanceof IndexOutOfBoundsException) return "index";
        if (e instanceof NullPointerException) return "null pointer";
        if (e instanceof ClassCastException) return "class cast";
        if (e instanceof NumberFormatException) return "number format";
        if (e instanceof ConcurrentModificationException) return "concurrent modification";
        if (e instanceof NoSuchElementException) return "no such element";
        return "another";
    }

    private static final class Resource implements AutoCloseable {
        private final String name;

        Resource(String name) {
            this.name = name;
            TRACE.append("open ").append(name).append(' ');
        }

        @Override
        public void close() {
            TRACE.append("close ").append(name).append(' ');
        }
    }

    private static void resources() {
        try (Resource a = new Resource("a"); Resource b = new Resource("b")) {
            throw new RuntimeException("work failed");
        } catch (RuntimeException e) {
            System.out.println(trace() + e.getMessage());
        }
    }

    private static void throughLambdas() {
        IntUnaryOperator picky = n -> {
            if (n == 5) throw new IllegalStateException("five");
            return n * n;
        };
        try {
            System.out.println(java.util.stream.IntStream.range(0, 10).map(picky).sum());
        } catch (IllegalStateException e) {
            System.out.println("stream stopped by " + e.getMessage());
        }
    }

    private static int unwound;

    private static void unwinding(int depth) {
        try {
            descend(depth);
        } catch (IllegalStateException e) {
            System.out.println("unwound " + unwound + " frames from the " + e.getMessage());
        }
    }

    private static void descend(int left) {
        try {
            if (left == 0) throw new IllegalStateException("bottom");
            descend(left - 1);
        } finally {
            unwound++;
        }
    }

    /** Throwing often: exceptions as control flow. */
    private static void many(int rounds) {
        long odd = 0;
        long even = 0;
        for (int i = 0; i < rounds; i++) {
            try {
                even += half(i);
            } catch (OrderException e) {
                odd += e.order;
            }
        }
        System.out.println("odd " + odd + ", even " + even);
    }

    private static int half(int n) throws OrderException {
        if (n % 2 != 0) throw new OrderException(n, null);
        return n / 2;
    }
}
