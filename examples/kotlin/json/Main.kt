import host.arguments

fun main() {
    val records = arguments().firstOrNull()?.toInt() ?: 4_000
    samples()
    errors()
    roundTrips(records, rounds = 6)
}

private fun samples() {
    val text = """{ "empty": {}, "list": [1, -2.5e+3, true, null, "\u00e9\ud83c\udfb5\n"], "a\"b": [[], [[]]] }"""
    val value = Parser(text).parse()
    println(value)
    println(Printer().print(value))
    println(Printer("  ").print(value))
}

private fun errors() {
    for (text in listOf("", "{", "[1,]", "{\"a\" 1}", "\"open", "tru", "01", "1.", "\"\\x\"", "[1] 2", "{\"a\":1,}", "\"\\u12g4\"")) {
        try {
            println("$text: ${Parser(text).parse()}")
        } catch (e: JsonException) {
            println("$text: ${e.message}")
        }
    }
}

private fun roundTrips(records: Int, rounds: Int) {
    var characters = 0L
    var equal = 0
    var hash = 0
    for (round in 1..rounds) {
        val document = Generator(round).document(records)
        val text = Printer(if (round % 2 == 0) "  " else null).print(document)
        val back = Parser(text).parse()
        if (back == document) equal++
        characters += text.length
        hash = hash * 31 + Printer().print(back).hashCode()
    }
    println("$rounds documents of $records records, $characters characters, $equal equal after the round trip, hash $hash")
}
