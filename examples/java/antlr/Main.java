import java.util.ArrayList;
import java.util.List;

import org.antlr.v4.runtime.BaseErrorListener;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.CommonTokenStream;
import org.antlr.v4.runtime.RecognitionException;
import org.antlr.v4.runtime.Recognizer;
import org.teavm.interop.Export;

/** Drives the ANTLR runtime: a parser generated from Formula.g4 reads programs, which are then evaluated. */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        System.out.print(evaluate(String.join("\n",
                "# recursion, precedence, associativity",
                "fun fact(n) = if n < 2 then 1 else n * fact(n - 1);",
                "fun fib(n) = if n < 2 then n else fib(n - 1) + fib(n - 2);",
                "x = 2 + 3 * 4 ^ 2 ^ 1 - -5;",
                "print x; print fact(15); print fib(17); print (x + 1) % 7 == 0;")));
        System.out.println(errors("x = 1 +; print 2"));
        System.out.println(errors("print $ 3;"));
        try {
            evaluate("print nothing;");
        } catch (IllegalStateException e) {
            System.out.println(e.getMessage());
        }
        System.out.println("long program: " + evaluate(longProgram(3_000)).hashCode());
    }

    private static String evaluate(String text) {
        Interpreter interpreter = new Interpreter();
        interpreter.visit(parser(text).program());
        return interpreter.output();
    }

    private static List<String> errors(String text) {
        List<String> found = new ArrayList<>();
        BaseErrorListener listener = new BaseErrorListener() {
            @Override
            public void syntaxError(Recognizer<?, ?> recognizer, Object symbol, int line, int column, String message, RecognitionException e) {
                found.add(line + ":" + column + " " + message);
            }
        };
        FormulaParser parser = parser(text);
        parser.addErrorListener(listener);
        ((FormulaLexer) parser.getTokenStream().getTokenSource()).addErrorListener(listener);
        parser.program();
        return found;
    }

    private static FormulaParser parser(String text) {
        FormulaLexer lexer = new FormulaLexer(CharStreams.fromString(text));
        lexer.removeErrorListeners();
        FormulaParser parser = new FormulaParser(new CommonTokenStream(lexer));
        parser.removeErrorListeners();
        return parser;
    }

    private static String longProgram(int statements) {
        StringBuilder text = new StringBuilder("v0 = 1;\n");
        for (int i = 1; i < statements; i++) {
            text.append("v").append(i).append(" = (v").append(i - 1).append(" * ").append(i % 97 + 2)
                    .append(" + if v").append(i / 2).append(" < 1000 then 7 else ").append(i).append(") % 1000003;\n");
            if (i % 100 == 0) text.append("print v").append(i).append("; # every hundredth\n");
        }
        return text.toString();
    }
}
