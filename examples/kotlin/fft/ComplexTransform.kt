import kotlin.math.PI
import kotlin.math.cos
import kotlin.math.roundToLong
import kotlin.math.sin

/** The transform of complex numbers, in place; rounding at the end makes the sums exact. */
class ComplexTransform(private val length: Int) {
    private val places = reversal(length)
    private val cosines = DoubleArray(length / 2) { cos(2 * PI * it / length) }
    private val sines = DoubleArray(length / 2) { sin(2 * PI * it / length) }

    /** The sums of products of digits, without carries. */
    fun squared(digits: IntArray): LongArray {
        val re = DoubleArray(length)
        val im = DoubleArray(length)
        for (i in digits.indices) re[i] = digits[i].toDouble()
        transform(re, im, -1.0)
        for (i in 0 until length) {
            val square = re[i] * re[i] - im[i] * im[i]
            im[i] = 2 * re[i] * im[i]
            re[i] = square
        }
        transform(re, im, 1.0)
        return LongArray(length) { (re[it] / length).roundToLong() }
    }

    private fun transform(re: DoubleArray, im: DoubleArray, direction: Double) {
        for (i in 0 until length) {
            val j = places[i]
            if (i < j) {
                re[i] = re[j].also { re[j] = re[i] }
                im[i] = im[j].also { im[j] = im[i] }
            }
        }
        var half = 1
        while (half < length) {
            val stride = length / (2 * half)
            for (start in 0 until length step 2 * half) {
                for (k in 0 until half) {
                    val c = cosines[k * stride]
                    val s = direction * sines[k * stride]
                    val a = start + k
                    val b = a + half
                    val x = re[b] * c - im[b] * s
                    val y = re[b] * s + im[b] * c
                    re[b] = re[a] - x
                    im[b] = im[a] - y
                    re[a] += x
                    im[a] += y
                }
            }
            half *= 2
        }
    }
}
