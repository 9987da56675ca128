/** A formula in x. Immutable: every operation makes a new tree, which shares what has not changed. */
abstract class Expression {
    static final Expression X = new Variable();

    abstract double at(double x);

    abstract Expression derivative();

    abstract Expression simplified();

    abstract int size();

    boolean is(double value) {
        return false;
    }

    static Expression number(double value) {
        return new Constant(value);
    }

    static Expression binary(char operator, Expression a, Expression b) {
        return new Binary(operator, a, b);
    }

    private static final class Constant extends Expression {
        private final double value;

        Constant(double value) {
            this.value = value;
        }

        @Override double at(double x) {
            return value;
        }

        @Override Expression derivative() {
            return number(0);
        }

        @Override Expression simplified() {
            return this;
        }

        @Override int size() {
            return 1;
        }

        @Override boolean is(double other) {
            return value == other;
        }

        /** Whole numbers only, so that every platform prints the same. */
        @Override public String toString() {
            return value < 0 ? "(0 - " + (long) -value + ")" : Long.toString((long) value);
        }
    }

    private static final class Variable extends Expression {
        @Override double at(double x) {
            return x;
        }

        @Override Expression derivative() {
            return number(1);
        }

        @Override Expression simplified() {
            return this;
        }

        @Override int size() {
            return 1;
        }

        @Override public String toString() {
            return "x";
        }
    }

    private static final class Binary extends Expression {
        private final char operator;
        private final Expression a;
        private final Expression b;

        Binary(char operator, Expression a, Expression b) {
            this.operator = operator;
            this.a = a;
            this.b = b;
        }

        @Override double at(double x) {
            return apply(a.at(x), b.at(x));
        }

        private double apply(double left, double right) {
            switch (operator) {
                case '+': return left + right;
                case '-': return left - right;
                case '*': return left * right;
                default: return left / right;
            }
        }

        @Override Expression derivative() {
            Expression da = a.derivative();
            Expression db = b.derivative();
            switch (operator) {
                case '+':
                case '-': return binary(operator, da, db);
                case '*': return binary('+', binary('*', da, b), binary('*', a, db));
                default: return binary('/', binary('-', binary('*', da, b), binary('*', a, db)), binary('*', b, b));
            }
        }

        @Override Expression simplified() {
            Expression left = a.simplified();
            Expression right = b.simplified();
            if (left instanceof Constant && right instanceof Constant) {
                double value = apply(((Constant) left).value, ((Constant) right).value);
                // What is no small whole number stays a formula; 0/0 and the like do, too.
                if (value > -1e6 && value < 1e6 && value == (long) value) return number(value);
            }
            if (left.is(0) && operator == '+') return right;
            if (right.is(0) && (operator == '+' || operator == '-')) return left;
            if (operator == '*' && (left.is(0) || right.is(0))) return number(0);
            if (operator == '/' && left.is(0) && !right.is(0)) return number(0);
            if (operator == '*' && left.is(1)) return right;
            if ((operator == '*' || operator == '/') && right.is(1)) return left;
            return left == a && right == b ? this : binary(operator, left, right);
        }

        @Override int size() {
            return 1 + a.size() + b.size();
        }

        @Override public String toString() {
            return "(" + a + " " + operator + " " + b + ")";
        }
    }
}
