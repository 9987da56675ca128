import java.util.SplittableRandom;
import java.util.function.DoubleBinaryOperator;
import java.util.function.DoubleUnaryOperator;

/** Prints what StrictMath gives: a function's name, the bits of its arguments, the bits of its result. */
public class Vectors {
    private static final double[] SPECIAL = {
        0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 10.0, -10.0, 1e-300, -1e-300, 1e300, Double.MIN_VALUE,
        -Double.MIN_VALUE, Double.MIN_NORMAL, Double.MAX_VALUE, -Double.MAX_VALUE, Double.POSITIVE_INFINITY,
        Double.NEGATIVE_INFINITY, Double.NaN, Math.PI, -Math.PI, Math.PI / 2, Math.PI / 4, Math.E, 709.7, 710.5, -745.1,
        -746.0, 1e22, 100.0, 1000.0, 0x1p-28, 0x1p-54, 0.99999999999, -0.99999999999, 1.00000000001,
    };
    private static SplittableRandom random;
    private static int count;

    public static void main(String[] arguments) {
        count = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 40;
        unary("sin", StrictMath::sin);
        unary("cos", StrictMath::cos);
        unary("tan", StrictMath::tan);
        unary("asin", StrictMath::asin);
        unary("acos", StrictMath::acos);
        unary("atan", StrictMath::atan);
        unary("exp", StrictMath::exp);
        unary("expm1", StrictMath::expm1);
        unary("log", StrictMath::log);
        unary("log1p", StrictMath::log1p);
        unary("log10", StrictMath::log10);
        unary("cbrt", StrictMath::cbrt);
        unary("sinh", StrictMath::sinh);
        unary("cosh", StrictMath::cosh);
        unary("tanh", StrictMath::tanh);
        unary("sqrt", StrictMath::sqrt);
        unary("rint", StrictMath::rint);
        binary("atan2", StrictMath::atan2);
        binary("hypot", StrictMath::hypot);
        binary("pow", StrictMath::pow);
    }

    /** Small ones, large ones, and ones of any magnitude. */
    private static double argument(int index) {
        double sign = random.nextBoolean() ? 1 : -1;
        switch (index % 4) {
            case 0: return sign * random.nextDouble();
            case 1: return sign * random.nextDouble() * 20;
            case 2: return sign * Math.exp((random.nextDouble() - 0.5) * 40);
            default: return Double.longBitsToDouble(random.nextLong());
        }
    }

    private static void unary(String name, DoubleUnaryOperator function) {
        random = new SplittableRandom(name.hashCode());
        for (double x : SPECIAL) print(name, function.applyAsDouble(x), x);
        for (int i = 0; i < count; i++) {
            double x = argument(i);
            print(name, function.applyAsDouble(x), x);
        }
    }

    private static void binary(String name, DoubleBinaryOperator function) {
        random = new SplittableRandom(name.hashCode());
        for (int i = 0; i < SPECIAL.length; i++) {
            for (int j = i % 5; j < SPECIAL.length; j += 5) {
                print(name, function.applyAsDouble(SPECIAL[i], SPECIAL[j]), SPECIAL[i], SPECIAL[j]);
            }
        }
        for (int i = 0; i < 2 * count; i++) {
            double x = argument(i / 4), y = argument(i);
            if (name.equals("pow") && i % 8 < 6) x = Math.abs(x);
            print(name, function.applyAsDouble(x, y), x, y);
        }
    }

    private static void print(String name, double result, double... arguments) {
        StringBuilder line = new StringBuilder(name);
        for (double argument : arguments) line.append(' ').append(hex(argument));
        System.out.println(line.append(' ').append(hex(result)));
    }

    private static String hex(double value) {
        return Long.toHexString(Double.doubleToLongBits(value));
    }
}
