import org.teavm.interop.Export;

/** Formulas are parsed, differentiated, simplified and evaluated: trees that are made, walked once and dropped. */
public final class Main {
    private static final double[] PLACES = {-1.5, -0.5, 0.25, 1.0, 2.0};

    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sized(400);
    }

    /** The work for so many formulas. */
    @Export(name = "sized")
    public static void sized(int formulas) {
        fixed("x*x*x - 2*x + 7");
        fixed("(x + 1) * (x - 1) / (x*x + 1)");
        fixed("0*x + 1*x + x/1 - (x - 0)");
        Numbers random = new Numbers(3);
        long nodes = 0;
        long simpler = 0;
        long letters = 0;
        double checksum = 0;
        for (int i = 0; i < formulas; i++) {
            StringBuilder text = new StringBuilder();
            write(text, random, 5);
            Expression expression = new Parser(text.toString()).parse();
            // Twice, for the second derivative is where simplification pays.
            Expression first = expression.derivative();
            Expression second = first.simplified().derivative();
            Expression simple = second.simplified();
            nodes += second.size();
            simpler += simple.size();
            for (double place : PLACES) checksum = (checksum + bounded(simple.at(place))) % 1e6;
            if (i % 16 == 0) letters += checkedText(simple).length();
        }
        System.out.println(formulas + " formulas: second derivatives of " + nodes + " nodes, simplified " + simpler
                + " nodes, a sixteenth of them in " + letters + " letters, checksum " + (long) (checksum * 1000));
    }

    private static void fixed(String text) {
        Expression expression = new Parser(text).parse();
        System.out.println("d/dx " + expression.simplified() + " = " + expression.derivative().simplified());
    }

    /** A formula as text, of which parsing makes the same formula. */
    private static String checkedText(Expression expression) {
        String text = expression.toString();
        if (!new Parser(text).parse().simplified().toString().equals(text))
            throw new IllegalStateException("printing and parsing change " + text);
        return text;
    }

    private static double bounded(double value) {
        return value > -1e6 && value < 1e6 ? value : 1;
    }

    /** Writes a random formula of this depth at most. */
    private static void write(StringBuilder text, Numbers random, int depth) {
        int kind = depth == 0 ? random.nextInt(2) : random.nextInt(8);
        if (kind == 0) {
            text.append(random.nextInt(4));
        } else if (kind == 1) {
            text.append('x');
        } else {
            text.append('(');
            write(text, random, depth - 1);
            text.append(' ').append("+-*/+*".charAt(kind - 2)).append(' ');
            write(text, random, depth - 1);
            text.append(')');
        }
    }
}
