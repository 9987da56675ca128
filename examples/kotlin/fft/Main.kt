import host.arguments

/**
 * Squares a large number again and again by convolution of its digits, in two ways: by the Fourier transform of complex
 * numbers, which lie in two arrays of doubles, and by that of remainders of a prime, which lie in one of longs.
 * The argument is the number of digits at the end, a power of two.
 */
fun main() {
    val digits = arguments().firstOrNull()?.toInt() ?: 8_192
    var number = intArrayOf(3)
    var agree = true
    while (2 * number.size <= digits) {
        val length = (2 * number.size).takeHighestOneBit()
        val sums = ComplexTransform(length).squared(number)
        agree = agree && sums.contentEquals(PrimeTransform(length).squared(number))
        // A few digits are changed, or powers of three would have ever the same zeros at the end.
        number = carried(sums)
        number[0] = 1 + number.size % 9
        number[number.size - 1] = 7
    }
    println("${number.size} digits, their sum ${number.sum()}, hash ${number.contentHashCode()}")
    println("both transforms agree: $agree")
}

/** Decimal digits from sums of products; the lowest comes first. */
private fun carried(sums: LongArray): IntArray {
    val digits = IntArray(sums.size)
    var carry = 0L
    for (i in sums.indices) {
        carry += sums[i]
        digits[i] = (carry % 10).toInt()
        carry /= 10
    }
    return digits
}

/** The place of every element whose index has its bits in reverse. */
internal fun reversal(length: Int): IntArray {
    val places = IntArray(length)
    for (i in 1 until length) places[i] = places[i shr 1] shr 1 or (if (i and 1 == 1) length shr 1 else 0)
    return places
}
