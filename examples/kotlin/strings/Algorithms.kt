fun patterns() {
    val log = "2024-05-17 ERROR disk=93% host=alpha\n2024-05-18 INFO disk=41% host=beta\n2024-06-01 ERROR disk=99% host=gamma"
    val line = Regex("""(\d{4})-(\d\d)-(\d\d) (\w+) disk=(\d+)% host=(\w+)""")
    for (match in line.findAll(log)) {
        val (year, month, day, level, disk, host) = match.destructured
        println("$host: $level at $disk% on $day.$month.$year")
    }
    println("masked: ${Regex("[0-9]+").replace(log.lines()[0]) { "<${it.value.length}>" }}")
    println("split: ${"a1b22c333d".split(Regex("[0-9]+"))}, whole: ${Regex("[a-z]+").matches("abc")} ${Regex("[a-z]+").matches("ab1")}")
}

fun caesarAndPalindromes() {
    fun rotate(text: String, by: Int) = text.map {
        when (it) {
            in 'a'..'z' -> 'a' + (it - 'a' + by).mod(26)
            in 'A'..'Z' -> 'A' + (it - 'A' + by).mod(26)
            else -> it
        }
    }.joinToString("")

    var secret = "The Quick Brown Fox Jumps Over the Lazy Dog"
    repeat(1_000) { secret = rotate(secret, it) }
    println("rotated: $secret")
    val palindromes = (0..99_999).count { n -> n.toString().let { it == it.reversed() } }
    println("palindromes below 100000: $palindromes")
}

fun levenshtein() {
    val words = listOf("kitten", "sitting", "saturday", "sunday", "orchestra", "carthorse", "legato", "staccato")
    val nearest = words.associateWith { a -> words.filter { it != a }.minBy { b -> distance(a, b) } }
    println("nearest: $nearest")
    val a = List(900) { "abcde"[it * it % 5] }.joinToString("")
    val b = List(900) { "edcba"[it * 3 % 5] }.joinToString("")
    println("distance of two long strings: ${distance(a, b)}")
}

private fun distance(a: String, b: String): Int {
    var previous = IntArray(b.length + 1) { it }
    for (i in 1..a.length) {
        val row = IntArray(b.length + 1)
        row[0] = i
        for (j in 1..b.length) {
            val change = previous[j - 1] + if (a[i - 1] == b[j - 1]) 0 else 1
            row[j] = minOf(change, previous[j] + 1, row[j - 1] + 1)
        }
        previous = row
    }
    return previous[b.length]
}
