fun sequences() {
    val fibonacci = sequence {
        var a = 0L
        var b = 1L
        while (true) {
            yield(a)
            val next = a + b
            a = b
            b = next
        }
    }
    println("fibonacci: ${fibonacci.take(15).toList()}")
    println("even ones below a million million: ${fibonacci.takeWhile { it < 1_000_000_000_000 }.filter { it % 2 == 0L }.sum()}")

    val collatz = (1..20_000).asSequence()
        .map { start -> start to generateSequence(start.toLong()) { if (it == 1L) null else if (it % 2 == 0L) it / 2 else 3 * it + 1 }.count() }
        .maxBy { it.second }
    println("longest Collatz chain below 20000: $collatz")

    println("flattened: ${(1..5).asSequence().flatMap { n -> (1..n).asSequence().map { n * it } }.distinct().toList()}")
}

/** Builds the same index many times over: strings as keys, lists as values. */
fun wordCount(rounds: Int) {
    val text = "the quick brown fox jumps over the lazy dog while the cat sleeps and the dog dreams of the fox"
    var check = 0
    var index: Map<String, List<Int>> = emptyMap()
    repeat(rounds) { round ->
        val words = (0 until 20).flatMap { text.split(' ') }
        index = words.withIndex().groupBy({ it.value }, { it.index + round })
        check += index.values.sumOf { it.last() - it.first() }
    }
    println("index: ${index.mapValues { it.value.size }}, check $check")
}
