/** A recursive-descent parser of JSON as RFC 8259 has it. */
class Parser(private val text: String) {
    private var at = 0

    fun parse(): Json {
        val value = value()
        space()
        if (at < text.length) fail("nothing more expected")
        return value
    }

    private fun value(): Json {
        space()
        return when (peek()) {
            '{' -> members()
            '[' -> items()
            '"' -> Json.Text(string())
            't' -> word("true", Json.Bool(true))
            'f' -> word("false", Json.Bool(false))
            'n' -> word("null", Json.Null)
            else -> number()
        }
    }

    private fun members(): Json {
        val members = LinkedHashMap<String, Json>()
        expect('{')
        space()
        if (accept('}')) return Json.Object(members)
        while (true) {
            space()
            val name = string()
            space()
            expect(':')
            members[name] = value()
            space()
            if (accept('}')) return Json.Object(members)
            expect(',')
        }
    }

    private fun items(): Json {
        val items = ArrayList<Json>()
        expect('[')
        space()
        if (accept(']')) return Json.Array(items)
        while (true) {
            items += value()
            space()
            if (accept(']')) return Json.Array(items)
            expect(',')
        }
    }

    private fun string(): String {
        expect('"')
        val start = at
        while (at < text.length && text[at] != '"' && text[at] != '\\') at++
        // Most strings hold no escape and are cut out in one piece.
        if (peek() == '"') return text.substring(start, at++)
        val built = StringBuilder(text.substring(start, at))
        while (!accept('"')) {
            val c = next()
            when {
                c == '\\' -> built.append(escaped())
                c < ' ' -> fail("control character in a string")
                else -> built.append(c)
            }
        }
        return built.toString()
    }

    private fun escaped(): Char = when (val c = next()) {
        '"', '\\', '/' -> c
        'b' -> '\b'
        'f' -> '\u000C'
        'n' -> '\n'
        'r' -> '\r'
        't' -> '\t'
        'u' -> {
            var code = 0
            repeat(4) {
                val digit = next().digitToIntOrNull(16) ?: fail("hexadecimal digit expected")
                code = code * 16 + digit
            }
            code.toChar()
        }
        else -> fail("unknown escape")
    }

    private fun number(): Json {
        val start = at
        accept('-')
        if (!accept('0')) digits()
        if (accept('.')) digits()
        if (accept('e') || accept('E')) {
            if (!accept('+')) accept('-')
            digits()
        }
        return Json.Number(text.substring(start, at))
    }

    private fun digits() {
        val start = at
        while (at < text.length && text[at] in '0'..'9') at++
        if (at == start) fail("digit expected")
    }

    private fun word(word: String, value: Json): Json {
        if (!text.startsWith(word, at)) fail("'$word' expected")
        at += word.length
        return value
    }

    private fun space() {
        while (at < text.length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) at++
    }

    private fun peek(): Char = if (at < text.length) text[at] else fail("unexpected end")

    private fun next(): Char = peek().also { at++ }

    private fun accept(c: Char): Boolean = (at < text.length && text[at] == c).also { if (it) at++ }

    private fun expect(c: Char) {
        if (!accept(c)) fail("'$c' expected")
    }

    private fun fail(message: String): Nothing = throw JsonException(message, at)
}
