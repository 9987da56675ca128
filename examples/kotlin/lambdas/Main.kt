import host.arguments

/** Functions as values: sequences, compositions, generators, streams. What they compute is small; how, is garbage. */
fun main() {
    val size = arguments().firstOrNull()?.toInt() ?: 20_000
    println("pipeline: ${pipeline(size)}")
    println("grouped: ${grouped(size)}")
    println("composed: ${composed(size)}")
    println("generated: ${generated(size)}")
    println("streams of primes: ${(0..size / 10_000).sumOf { primes().elementAt(100 + it) }}")
    println("folded: ${folded(size)}")
}

/** Every number goes through each step in a box of its own. */
private fun pipeline(size: Int): Long =
    (1..size).asSequence()
        .map { it * 31 % 1009 }
        .filter { it % 3 != 0 }
        .flatMap { sequenceOf(it, it + 1, it * 2) }
        .zipWithNext { a, b -> a - b }
        .chunked(4) { it.sum() }
        .mapIndexed { index, sum -> index.toLong() * sum }
        .sum()

/** The same with a list after each step. */
private fun grouped(size: Int): String =
    (1..size).map { it * 17 % 257 to it }
        .groupBy({ it.first % 10 }, { it.second })
        .mapValues { (_, numbers) -> numbers.map(Int::toLong).filter { it % 2 == 0L }.sum() }
        .toList().sortedBy { it.first }.joinToString { (digit, sum) -> "$digit=$sum" }

/** A closure over closures, made anew for each number. */
private fun composed(size: Int): Int {
    val steps = listOf<(Int) -> Int>({ it + 1 }, { it * 3 }, { it xor 0x55 }, { it and 0xffff })
    return (0 until size).fold(0) { sum, n ->
        val all = (0 until 4).map { steps[(n + it) % steps.size] }.reduce { f, g -> compose(f, g) }
        sum + all(n)
    }
}

private fun <A, B, C> compose(f: (A) -> B, g: (B) -> C): (A) -> C = { g(f(it)) }

/** Coroutines that give one number after another. */
private fun generated(size: Int): Long {
    fun collatz(start: Int) = sequence {
        var n = start.toLong()
        while (n != 1L) {
            yield(n)
            n = if (n % 2 == 0L) n / 2 else 3 * n + 1
        }
    }
    return (2..size / 50).asSequence().map { start -> collatz(start).count() + collatz(start).max() }.sum()
}

/** A list whose tail is computed when somebody asks: the sieve, each filter a closure over the prime that it removes. */
private class Stream(val head: Int, tail: () -> Stream) {
    val tail: Stream by lazy(LazyThreadSafetyMode.NONE, tail)

    fun without(prime: Int): Stream {
        var stream = this
        while (stream.head % prime == 0) stream = stream.tail
        return Stream(stream.head) { stream.tail.without(prime) }
    }
}

private fun primes(): Sequence<Int> {
    fun from(n: Int): Stream = Stream(n) { from(n + 1) }
    return generateSequence(from(2)) { it.tail.without(it.head) }.map { it.head }
}

/** A fold from the right builds one function of all numbers, a chain of closures, before it computes anything. */
private fun folded(size: Int): Long {
    var total = 0L
    for (block in (1..size).chunked(500)) {
        val chain = block.foldRight({ sum: Long -> sum }) { n, rest -> { sum -> rest(sum * 7 % 1_000_003 + n) } }
        total += chain(total)
    }
    return total
}
