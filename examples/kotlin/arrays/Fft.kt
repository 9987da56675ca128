import kotlin.math.PI
import kotlin.math.abs
import kotlin.math.cos
import kotlin.math.sin

/** Transforms a signal forth and back; only rounding errors may remain. */
fun fft(size: Int) {
    val re = DoubleArray(size) { ((it * 37) % 101 - 50).toDouble() }
    val im = DoubleArray(size)
    val original = re.copyOf()
    repeat(3) {
        transform(re, im, inverse = false)
        transform(re, im, inverse = true)
    }
    val error = re.indices.maxOf { abs(re[it] - original[it]) + abs(im[it]) }
    println("fft: restored ${error < 1e-6}")

    // A pure wave has its whole energy in one place.
    val wave = DoubleArray(1024) { cos(2 * PI * 100 * it / 1024) }
    val rest = DoubleArray(1024)
    transform(wave, rest, inverse = false)
    println("fft: peaks at ${wave.indices.filter { wave[it] > 1 }}")
}

private fun transform(re: DoubleArray, im: DoubleArray, inverse: Boolean) {
    val n = re.size
    var j = 0
    for (i in 1 until n) {
        var bit = n shr 1
        while (j and bit != 0) {
            j = j xor bit
            bit = bit shr 1
        }
        j = j xor bit
        if (i < j) {
            re[i] = re[j].also { re[j] = re[i] }
            im[i] = im[j].also { im[j] = im[i] }
        }
    }
    var length = 2
    while (length <= n) {
        val half = length / 2
        val angle = (if (inverse) 2 else -2) * PI / length
        val cosines = DoubleArray(half) { cos(angle * it) }
        val sines = DoubleArray(half) { sin(angle * it) }
        for (start in 0 until n step length) {
            for (k in 0 until half) {
                val a = start + k
                val b = a + half
                val x = re[b] * cosines[k] - im[b] * sines[k]
                val y = re[b] * sines[k] + im[b] * cosines[k]
                re[b] = re[a] - x
                im[b] = im[a] - y
                re[a] += x
                im[a] += y
            }
        }
        length *= 2
    }
    if (inverse) for (i in 0 until n) {
        re[i] /= n.toDouble()
        im[i] /= n.toDouble()
    }
}
