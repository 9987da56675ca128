/** Reads formulas: sums of products of whole numbers, x and formulas in parentheses. */
final class Parser {
    private final String text;
    private int place;

    Parser(String text) {
        this.text = text;
    }

    Expression parse() {
        Expression result = sum();
        if (peek() != '\0') throw new IllegalArgumentException("'" + peek() + "' at " + place + " of " + text);
        return result;
    }

    private Expression sum() {
        Expression result = product();
        while (peek() == '+' || peek() == '-') result = Expression.binary(take(), result, product());
        return result;
    }

    private Expression product() {
        Expression result = factor();
        while (peek() == '*' || peek() == '/') result = Expression.binary(take(), result, factor());
        return result;
    }

    private Expression factor() {
        char first = peek();
        if (first == '(') {
            take();
            Expression result = sum();
            if (take() != ')') throw new IllegalArgumentException("')' is missing before " + place + " of " + text);
            return result;
        }
        if (first == 'x') {
            take();
            return Expression.X;
        }
        int start = place;
        while (place < text.length() && text.charAt(place) >= '0' && text.charAt(place) <= '9') place++;
        return Expression.number(Long.parseLong(text.substring(start, place)));
    }

    /** The next character that is no space, or 0. */
    private char peek() {
        while (place < text.length() && text.charAt(place) == ' ') place++;
        return place < text.length() ? text.charAt(place) : '\0';
    }

    private char take() {
        char next = peek();
        place++;
        return next;
    }
}
