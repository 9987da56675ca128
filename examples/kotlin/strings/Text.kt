fun building() {
    val text = buildString {
        for (i in 1..20_000) {
            append(i).append(if (i % 2 == 0) ", " else "; ")
            if (i % 5_000 == 0) append('\n')
        }
    }
    println("built: ${text.length} characters, ${text.lines().size} lines, hash ${text.hashCode()}")
    println("start: ${text.take(20)} end: ${text.trimEnd().takeLast(20)}")

    // Joining one character at a time is slow on purpose: it makes garbage of every length.
    var grown = ""
    for (i in 0 until 2_000) grown += 'a' + i % 26
    println("grown: ${grown.length} ${grown.substring(1_990)} ${grown.hashCode()}")

    val builder = StringBuilder("middle")
    builder.insert(0, "<").append(">").reverse()
    builder[0] = '['
    println("builder: $builder, padded: '${"7".padStart(3, '0')}' '${"left".padEnd(8, '.')}'")
    println("""
        |margins
        |  are trimmed
    """.trimMargin())
}

fun splitting() {
    val line = "name=Ada; born=1815; field=mathematics; note=; name=again"
    val fields = line.split("; ").map { it.substringBefore('=') to it.substringAfter('=') }
    println("fields: $fields")
    println("replaced: ${line.replace("name", "NAME").replace(';', ',')}")
    println("trimmed: '${"  \t both ends \n".trim()}', indices: ${line.indexOf("born")} ${line.lastIndexOf("name")} ${line.indexOf("none")}")
    println("prefix: ${line.startsWith("name")}, common: '${"interview".commonPrefixWith("internet")}', compare: ${"apple".compareTo("apricot") < 0}")
    var pieces = 0
    val csv = List(2_000) { "$it,${it * it},x${it % 7}" }.joinToString("\n")
    for (row in csv.lineSequence()) pieces += row.split(',').sumOf { it.length }
    println("csv: ${csv.length} characters, $pieces in the cells")
}

fun unicode() {
    val text = "Grüße, Καλημέρα, Привет, 你好, שלום, 🎻🎺 e\u0301"
    val bytes = text.encodeToByteArray()
    println("$text: ${text.length} UTF-16 units, ${bytes.size} bytes, back again: ${bytes.decodeToString() == text}")
    println("upper: ${text.uppercase()}")
    println("lower: ${text.lowercase()}")
    println("surrogates: ${text.count { it.isSurrogate() }}, letters: ${text.count { it.isLetter() }}, digits: ${"a1٣७".count { it.isDigit() }}")
    println("points: ${codePoints(text).takeLast(5).map { it.toString(16) }}")
    // An invalid byte becomes the replacement character.
    println("broken: ${byteArrayOf(72, -1, 105).decodeToString()}")
}

private fun codePoints(text: String): List<Int> = buildList {
    var i = 0
    while (i < text.length) {
        val high = text[i++]
        if (high.isHighSurrogate() && i < text.length && text[i].isLowSurrogate()) {
            add(0x10000 + ((high.code - 0xD800) shl 10) + (text[i++].code - 0xDC00))
        } else {
            add(high.code)
        }
    }
}
