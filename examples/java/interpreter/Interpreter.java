import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and evaluates. Values are Long, Pair, Symbol (only t), Closure, Primitive, and null: the empty list, "no", and what
 * was never defined, nil among it.
 */
final class Interpreter {
    private final Map<String, Symbol> symbols = new HashMap<>();
    private final Symbol quote = symbol("quote");
    private final Symbol ifSymbol = symbol("if");
    private final Symbol lambda = symbol("lambda");
    private final Symbol define = symbol("define");
    private final Symbol set = symbol("set!");
    private final Symbol yes = symbol("t");

    /** The interpreter's own functions. */
    private interface Primitive {
        Object apply(List<Object> arguments);
    }

    private static final class Symbol {
        final String name;
        /** Of the global variable of this name. */
        Object value;

        Symbol(String name) {
            this.name = name;
        }

        @Override public String toString() {
            return name;
        }
    }

    private static final class Pair {
        final Object first;
        final Object rest;

        Pair(Object first, Object rest) {
            this.first = first;
            this.rest = rest;
        }

        @Override public String toString() {
            StringBuilder text = new StringBuilder("(").append(first);
            Object tail = rest;
            for (; tail instanceof Pair; tail = ((Pair) tail).rest) text.append(' ').append(((Pair) tail).first);
            return text.append(tail == null ? ")" : " . " + tail + ")").toString();
        }
    }

    private static final class Closure {
        final Object parameters;
        final Object body;
        final Environment scope;

        Closure(Object parameters, Object body, Environment scope) {
            this.parameters = parameters;
            this.body = body;
            this.scope = scope;
        }
    }

    /** A local variable and the environment around it. */
    private static final class Environment {
        final Symbol name;
        Object value;
        final Environment outer;

        Environment(Symbol name, Object value, Environment outer) {
            this.name = name;
            this.value = value;
            this.outer = outer;
        }

        /** The variable of this name that is nearest to `scope`; null if it is global. */
        static Environment find(Symbol name, Environment scope) {
            while (scope != null && scope.name != name) scope = scope.outer;
            return scope;
        }
    }

    Interpreter() {
        define("+", a -> number(a, 0) + number(a, 1));
        define("-", a -> number(a, 0) - number(a, 1));
        define("*", a -> number(a, 0) * number(a, 1));
        define("mod", a -> number(a, 0) % number(a, 1));
        define("<", a -> number(a, 0) < number(a, 1) ? yes : null);
        define("=", a -> number(a, 0) == number(a, 1) ? yes : null);
        define("null?", a -> a.get(0) == null ? yes : null);
        define("cons", a -> new Pair(a.get(0), a.get(1)));
        define("car", a -> ((Pair) a.get(0)).first);
        define("cdr", a -> ((Pair) a.get(0)).rest);
        yes.value = yes;
    }

    /** Evaluates every expression of a text and returns the last value. */
    Object run(String text) {
        List<String> tokens = new ArrayList<>();
        for (String token : text.replace("(", " ( ").replace(")", " ) ").split(" ")) if (!token.isEmpty()) tokens.add(token);
        Object value = null;
        for (int[] place = {0}; place[0] < tokens.size();) value = evaluate(read(tokens, place), null);
        return value;
    }

    private Object read(List<String> tokens, int[] place) {
        String token = tokens.get(place[0]++);
        if (token.equals("(")) return readRest(tokens, place);
        char first = token.charAt(0);
        return first >= '0' && first <= '9' ? (Object) Long.valueOf(token) : symbol(token);
    }

    private Object readRest(List<String> tokens, int[] place) {
        if (tokens.get(place[0]).equals(")")) {
            place[0]++;
            return null;
        }
        Object first = read(tokens, place);
        return new Pair(first, readRest(tokens, place));
    }

    private Symbol symbol(String name) {
        return symbols.computeIfAbsent(name, Symbol::new);
    }

    private void define(String name, Primitive primitive) {
        symbol(name).value = primitive;
    }

    private static long number(List<Object> arguments, int index) {
        return (Long) arguments.get(index);
    }

    private static Object nth(Object list, int index) {
        for (; index > 0; index--) list = ((Pair) list).rest;
        return ((Pair) list).first;
    }

    /** A call in tail position goes round the loop, not down the stack. */
    private Object evaluate(Object expression, Environment scope) {
        while (true) {
            if (expression instanceof Symbol) {
                Environment local = Environment.find((Symbol) expression, scope);
                return local != null ? local.value : ((Symbol) expression).value;
            }
            if (!(expression instanceof Pair)) return expression;
            Object head = ((Pair) expression).first;
            if (head == quote) return nth(expression, 1);
            if (head == lambda) return new Closure(nth(expression, 1), nth(expression, 2), scope);
            if (head == define || head == set) {
                Symbol name = (Symbol) nth(expression, 1);
                Object value = evaluate(nth(expression, 2), scope);
                Environment local = head == set ? Environment.find(name, scope) : null;
                if (local != null) local.value = value;
                else name.value = value;
                return value;
            }
            if (head == ifSymbol) {
                expression = nth(expression, evaluate(nth(expression, 1), scope) != null ? 2 : 3);
                continue;
            }
            Object function = evaluate(head, scope);
            if (function instanceof Primitive) return ((Primitive) function).apply(arguments((Pair) expression, scope));
            Closure closure = (Closure) function;
            Environment inner = closure.scope;
            Object parameters = closure.parameters;
            for (Object value : arguments((Pair) expression, scope)) {
                inner = new Environment((Symbol) ((Pair) parameters).first, value, inner);
                parameters = ((Pair) parameters).rest;
            }
            expression = closure.body;
            scope = inner;
        }
    }

    private List<Object> arguments(Pair call, Environment scope) {
        List<Object> values = new ArrayList<>(4);
        for (Object rest = call.rest; rest != null; rest = ((Pair) rest).rest) values.add(evaluate(((Pair) rest).first, scope));
        return values;
    }
}
