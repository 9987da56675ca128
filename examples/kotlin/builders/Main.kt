import host.arguments

/** Writes a long text in a string builder, and edits it in two ways that must agree; the argument is the number of lines. */
fun main() {
    val lines = arguments().firstOrNull()?.toInt() ?: 400
    val table = table(lines)
    println("table: ${table.length} characters, hash ${table.hashCode()}")

    val builder = StringBuilder(table)
    val buffer = GapBuffer(table)
    val edits = lines / 4
    edit(edits, Numbers(5), table.length) { at, remove, text ->
        builder.deleteRange(at, at + remove).insert(at, text)
    }
    edit(edits, Numbers(5), table.length) { at, remove, text ->
        buffer.moveTo(at)
        buffer.remove(remove)
        buffer.insert(text)
    }
    val edited = builder.toString()
    println("after $edits edits: ${edited.length} characters, hash ${edited.hashCode()}, agree: ${edited == buffer.text()}")

    val reversed = builder.reverse().toString()
    val parts = reversed.split(">|<")
    val joined = parts.joinToString(" ") { it.trim().uppercase() }
    println("reversed: hash ${reversed.hashCode()}, ${parts.size} parts, joined: hash ${joined.hashCode()}")
    println(joined.takeLast(60))
}

/** Rows with aligned columns. */
private fun table(lines: Int): String {
    val numbers = Numbers(3)
    val text = StringBuilder()
    for (line in 1..lines) {
        text.append(line.toString().padStart(8)).append(" <|> ")
        repeat(6) {
            text.append(WORDS[(numbers.next() and 0x7fff_ffff) % WORDS.size].padEnd(12, '.')).append(" <|> ")
        }
        text.append(numbers.next()).append('\n')
    }
    return text.toString()
}

private val WORDS = "allegro andante largo presto vivace adagio lento moderato".split(' ')

/** Edits at places near one another, now and then far away. */
private fun edit(count: Int, numbers: Numbers, length: Int, change: (Int, Int, String) -> Unit) {
    var at = length / 2
    repeat(count) {
        val random = numbers.next() and 0x7fff_ffff
        at = if (random % 50 == 0) random % (length / 2) else (at + random % 400 - 200).coerceIn(0, length / 2)
        change(at, random % 7, WORDS[random % WORDS.size].substring(random % 4))
    }
}

/** A generator of our own, so that every platform sees the same numbers. */
class Numbers(private var state: Int) {
    fun next(): Int {
        state = state xor (state shl 13)
        state = state xor (state ushr 17)
        state = state xor (state shl 5)
        return state
    }
}
