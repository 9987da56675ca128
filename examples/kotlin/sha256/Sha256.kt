/** SHA-256 as FIPS 180-4 describes it. */
class Sha256 {
    private val state = INITIAL.copyOf()
    private val w = IntArray(64)

    fun hash(message: ByteArray): ByteArray {
        // The message, a single 1 bit, zeros up to a whole block, and the length in bits.
        val padded = message.copyOf((message.size + 8) / 64 * 64 + 64)
        padded[message.size] = 0x80.toByte()
        val bits = message.size * 8L
        for (i in 0 until 8) padded[padded.size - 1 - i] = (bits ushr (8 * i)).toByte()
        for (block in padded.indices step 64) compress(padded, block)
        return ByteArray(32) { (state[it / 4] ushr (24 - it % 4 * 8)).toByte() }
    }

    private fun compress(bytes: ByteArray, start: Int) {
        val w = w
        for (i in 0 until 16) {
            val at = start + 4 * i
            w[i] = (bytes[at].toInt() shl 24) or
                ((bytes[at + 1].toInt() and 255) shl 16) or
                ((bytes[at + 2].toInt() and 255) shl 8) or
                (bytes[at + 3].toInt() and 255)
        }
        for (i in 16 until 64) {
            val x = w[i - 15]
            val y = w[i - 2]
            val s0 = x.rotateRight(7) xor x.rotateRight(18) xor (x ushr 3)
            val s1 = y.rotateRight(17) xor y.rotateRight(19) xor (y ushr 10)
            w[i] = w[i - 16] + s0 + w[i - 7] + s1
        }
        var a = state[0]
        var b = state[1]
        var c = state[2]
        var d = state[3]
        var e = state[4]
        var f = state[5]
        var g = state[6]
        var h = state[7]
        for (i in 0 until 64) {
            val s1 = e.rotateRight(6) xor e.rotateRight(11) xor e.rotateRight(25)
            val t1 = h + s1 + ((e and f) xor (e.inv() and g)) + K[i] + w[i]
            val s0 = a.rotateRight(2) xor a.rotateRight(13) xor a.rotateRight(22)
            val t2 = s0 + ((a and b) xor (a and c) xor (b and c))
            h = g
            g = f
            f = e
            e = d + t1
            d = c
            c = b
            b = a
            a = t1 + t2
        }
        state[0] += a
        state[1] += b
        state[2] += c
        state[3] += d
        state[4] += e
        state[5] += f
        state[6] += g
        state[7] += h
    }

    private companion object {
        /** The first bits of the fractions of roots of primes; computing them saves two tables of magic numbers. */
        private val PRIMES = generateSequence(2) { it + 1 }.filter { n -> (2 until n).none { n % it == 0 } }.take(64).toList()
        private val INITIAL = IntArray(8) { fractionOfRoot(PRIMES[it], 2) }
        private val K = IntArray(64) { fractionOfRoot(PRIMES[it], 3) }

        /** 32 bits of the fraction of a square or cube root, by bisection in whole numbers. */
        private fun fractionOfRoot(prime: Int, degree: Int): Int {
            var low = 0L
            var high = 32L shl 32
            while (high - low > 1) {
                val middle = (low + high) / 2
                if (powerIsAtMost(middle, degree, prime)) low = middle else high = middle
            }
            return low.toInt()
        }

        /** Whether (root / 2^32)^degree <= limit, with digits of 16 bits because the power needs more than a Long. */
        private fun powerIsAtMost(root: Long, degree: Int, limit: Int): Boolean {
            val digits = List(3) { (root ushr (16 * it)) and 0xFFFF }
            var power = listOf(1L)
            repeat(degree) {
                val product = LongArray(power.size + 3)
                for (i in power.indices) {
                    var carry = 0L
                    for (j in digits.indices) {
                        val sum = product[i + j] + power[i] * digits[j] + carry
                        product[i + j] = sum and 0xFFFF
                        carry = sum ushr 16
                    }
                    product[i + 3] += carry
                }
                power = product.toList()
            }
            // 32 bits of fraction per factor are two digits each.
            val whole = power.drop(2 * degree)
            var value = 0L
            for (digit in whole.reversed()) value = value * 65536 + digit
            return value < limit
        }
    }
}
