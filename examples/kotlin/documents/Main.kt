import host.arguments

/**
 * Reads documents into tables and turns each into another document, as a processor of style sheets does: every document
 * gets tables of generous size, most of which it never uses. The last ones read stay in memory. The argument is how many
 * there are.
 */
fun main() {
    val count = arguments().firstOrNull()?.toInt() ?: 60
    val numbers = Numbers(23)
    val recent = arrayOfNulls<Document>(24)
    var nodes = 0L
    var characters = 0L
    var hash = 0
    for (number in 0 until count) {
        val document = Document()
        Reader(document).read(text(numbers, number))
        recent[number % recent.size] = document
        val output = StringBuilder()
        write(document, document.root, output)
        nodes += document.size
        characters += output.length
        hash = hash * 31 + output.toString().hashCode()
    }
    println("$count documents: $nodes nodes, $characters characters written, hash $hash")
    println("in memory: ${recent.sumOf { it?.size ?: 0 }} nodes, longest path ${recent.maxOf { it?.depth() ?: 0 }}")
}

/** Every element with its name in capitals and its children in reverse; numbers are doubled. */
private fun write(document: Document, node: Int, output: StringBuilder) {
    if (document.isText(node)) {
        val text = document.text(node)
        val number = text.toIntOrNull()
        output.append(if (number == null) text else (2 * number).toString())
        return
    }
    val name = document.name(node).uppercase()
    output.append('<').append(name).append('>')
    var child = document.lastChild(node)
    while (child >= 0) {
        write(document, child, output)
        child = document.previous(child)
    }
    output.append("</").append(name).append('>')
}

private val NAMES = listOf("score", "part", "measure", "note", "pitch", "step", "rest", "chord", "dot")

/** A document of a hundred to a thousand elements. */
private fun text(numbers: Numbers, number: Int): String {
    val text = StringBuilder()
    var left = 100 + numbers.below(900)
    fun element(depth: Int) {
        val name = NAMES[numbers.below(NAMES.size)]
        text.append('<').append(name).append('>')
        left--
        if (depth >= 7 || numbers.below(3) == 0) {
            if (numbers.below(2) == 0) text.append(numbers.below(1_000)) else text.append("la ").append(name).append(number)
        } else {
            repeat(1 + numbers.below(4)) { if (left > 0) element(depth + 1) }
        }
        text.append("</").append(name).append('>')
    }
    text.append("<score>")
    while (left > 0) element(1)
    text.append("</score>")
    return text.toString()
}

/** A generator of our own, so that every platform sees the same numbers. */
class Numbers(private var state: Int) {
    fun below(limit: Int): Int {
        state = state xor (state shl 13)
        state = state xor (state ushr 17)
        state = state xor (state shl 5)
        return (state and 0x7fff_ffff) % limit
    }
}
