import java.util.HashMap;
import java.util.Map;

/** Evaluates a parsed program of the formula language in whole numbers. */
final class Interpreter extends FormulaBaseVisitor<Long> {
    private final Map<String, FormulaParser.DefineContext> functions = new HashMap<>();
    private Map<String, Long> variables = new HashMap<>();
    private final StringBuilder output = new StringBuilder();

    String output() {
        return output.toString();
    }

    @Override
    public Long visitAssign(FormulaParser.AssignContext node) {
        return variables.put(node.NAME().getText(), visit(node.expression()));
    }

    @Override
    public Long visitDefine(FormulaParser.DefineContext node) {
        functions.put(node.NAME(0).getText(), node);
        return null;
    }

    @Override
    public Long visitPrint(FormulaParser.PrintContext node) {
        output.append(visit(node.expression())).append('\n');
        return null;
    }

    @Override
    public Long visitPower(FormulaParser.PowerContext node) {
        long base = visit(node.expression(0));
        long result = 1;
        for (long n = visit(node.expression(1)); n > 0; n--) result *= base;
        return result;
    }

    @Override
    public Long visitProduct(FormulaParser.ProductContext node) {
        long left = visit(node.expression(0));
        long right = visit(node.expression(1));
        switch (node.op.getText()) {
            case "*":
                return left * right;
            case "/":
                return left / right;
            default:
                return left % right;
        }
    }

    @Override
    public Long visitSum(FormulaParser.SumContext node) {
        long left = visit(node.expression(0));
        long right = visit(node.expression(1));
        return node.op.getText().equals("+") ? left + right : left - right;
    }

    @Override
    public Long visitCompare(FormulaParser.CompareContext node) {
        long left = visit(node.expression(0));
        long right = visit(node.expression(1));
        return (node.op.getText().equals("<") ? left < right : left == right) ? 1L : 0L;
    }

    @Override
    public Long visitChoice(FormulaParser.ChoiceContext node) {
        return visit(node.expression(visit(node.expression(0)) != 0 ? 1 : 2));
    }

    @Override
    public Long visitCall(FormulaParser.CallContext node) {
        FormulaParser.DefineContext function = functions.get(node.NAME().getText());
        if (function == null) throw new IllegalStateException("no function " + node.NAME().getText());
        Map<String, Long> callers = variables;
        Map<String, Long> own = new HashMap<>(callers);
        own.put(function.NAME(1).getText(), visit(node.expression()));
        variables = own;
        try {
            return visit(function.expression());
        } finally {
            variables = callers;
        }
    }

    @Override
    public Long visitNegate(FormulaParser.NegateContext node) {
        return -visit(node.expression());
    }

    @Override
    public Long visitGroup(FormulaParser.GroupContext node) {
        return visit(node.expression());
    }

    @Override
    public Long visitNumber(FormulaParser.NumberContext node) {
        return Long.parseLong(node.NUMBER().getText());
    }

    @Override
    public Long visitName(FormulaParser.NameContext node) {
        Long value = variables.get(node.NAME().getText());
        if (value == null) throw new IllegalStateException("no variable " + node.NAME().getText());
        return value;
    }
}
