fun main() {
    sieve(limit = 3_000_000)
    sorting(size = 300_000)
    fft(size = 1 shl 16)
    convolution(width = 400, height = 300, rounds = 8)
    life(width = 320, height = 240, generations = 120)
    jagged(rows = 1_500)
    bulk()
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

fun sieve(limit: Int) {
    val composite = BooleanArray(limit + 1)
    var i = 2
    while (i * i <= limit) {
        if (!composite[i]) for (j in i * i..limit step i) composite[j] = true
        i++
    }
    var count = 0
    var last = 0
    for (n in 2..limit) if (!composite[n]) {
        count++
        last = n
    }
    println("sieve: $count primes up to $limit, the last is $last")
}
