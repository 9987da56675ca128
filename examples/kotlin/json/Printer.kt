/** Prints JSON on one line, or indented when [indent] is given. */
class Printer(private val indent: String? = null) {
    private val out = StringBuilder()

    fun print(value: Json): String {
        out.clear()
        write(value, 0)
        return out.toString()
    }

    private fun write(value: Json, level: Int) {
        when (value) {
            Json.Null -> out.append("null")
            is Json.Bool -> out.append(value.value)
            is Json.Number -> out.append(value.text)
            is Json.Text -> quote(value.value)
            is Json.Array -> block('[', ']', value.items, level) { write(it, level + 1) }
            is Json.Object -> block('{', '}', value.members.entries, level) { (name, member) ->
                quote(name)
                out.append(if (indent == null) ":" else ": ")
                write(member, level + 1)
            }
        }
    }

    private fun <T> block(open: Char, close: Char, items: Collection<T>, level: Int, item: (T) -> Unit) {
        out.append(open)
        var first = true
        for (each in items) {
            if (!first) out.append(',')
            first = false
            line(level + 1)
            item(each)
        }
        if (!first) line(level)
        out.append(close)
    }

    private fun line(level: Int) {
        if (indent == null) return
        out.append('\n')
        repeat(level) { out.append(indent) }
    }

    private fun quote(text: String) {
        out.append('"')
        for (c in text) {
            when {
                c == '"' || c == '\\' -> out.append('\\').append(c)
                c == '\n' -> out.append("\\n")
                c == '\t' -> out.append("\\t")
                c < ' ' -> out.append("\\u").append(c.code.toString(16).padStart(4, '0'))
                else -> out.append(c)
            }
        }
        out.append('"')
    }
}
