/** The transform of remainders modulo a prime that has roots of unity of every power of two up to 2^23. */
class PrimeTransform(private val length: Int) {
    private val places = reversal(length)
    private val roots = powers(power(GENERATOR, (PRIME - 1) / length))
    private val inverseRoots = powers(power(power(GENERATOR, (PRIME - 1) / length), PRIME - 2))

    /** The sums of products of digits, without carries; they must be smaller than the prime. */
    fun squared(digits: IntArray): LongArray {
        val values = LongArray(length)
        for (i in digits.indices) values[i] = digits[i].toLong()
        transform(values, roots)
        for (i in 0 until length) values[i] = values[i] * values[i] % PRIME
        transform(values, inverseRoots)
        val scale = power(length.toLong(), PRIME - 2)
        for (i in 0 until length) values[i] = values[i] * scale % PRIME
        return values
    }

    private fun powers(root: Long): LongArray {
        val powers = LongArray(length / 2)
        var value = 1L
        for (i in powers.indices) {
            powers[i] = value
            value = value * root % PRIME
        }
        return powers
    }

    private fun transform(values: LongArray, roots: LongArray) {
        for (i in 0 until length) {
            val j = places[i]
            if (i < j) values[i] = values[j].also { values[j] = values[i] }
        }
        var half = 1
        while (half < length) {
            val stride = length / (2 * half)
            for (start in 0 until length step 2 * half) {
                for (k in 0 until half) {
                    val a = start + k
                    val b = a + half
                    val x = values[b] * roots[k * stride] % PRIME
                    val y = values[a]
                    values[a] = if (x + y >= PRIME) x + y - PRIME else x + y
                    values[b] = if (y >= x) y - x else y - x + PRIME
                }
            }
            half *= 2
        }
    }

    private companion object {
        const val PRIME = 998_244_353L
        const val GENERATOR = 3L

        fun power(base: Long, exponent: Long): Long {
            var result = 1L
            var square = base
            var rest = exponent
            while (rest > 0) {
                if (rest and 1 == 1L) result = result * square % PRIME
                square = square * square % PRIME
                rest = rest shr 1
            }
            return result
        }
    }
}
