/** Sorts by the lower half of the bits, then by the upper: sequential reads, writes all over the other array. */
fun radixSort(a: IntArray) {
    val other = IntArray(a.size)
    val counts = IntArray(DIGITS + 1)
    scatter(a, other, counts, shift = 0, flip = 0)
    // Negative numbers come first: their highest bit counts the other way round.
    scatter(other, a, counts, shift = 16, flip = DIGITS / 2)
}

private const val DIGITS = 1 shl 16

private fun scatter(from: IntArray, to: IntArray, counts: IntArray, shift: Int, flip: Int) {
    counts.fill(0)
    for (value in from) counts[(value ushr shift and DIGITS - 1 xor flip) + 1]++
    for (i in 1..DIGITS) counts[i] += counts[i - 1]
    for (value in from) to[counts[value ushr shift and DIGITS - 1 xor flip]++] = value
}

/** Insertion with gaps that become smaller: two accesses at a distance. */
fun shellSort(a: IntArray) {
    var gap = 1
    while (gap < a.size / 9) gap = 3 * gap + 1
    while (gap > 0) {
        for (i in gap until a.size) {
            val value = a[i]
            var j = i
            while (j >= gap && a[j - gap] > value) {
                a[j] = a[j - gap]
                j -= gap
            }
            a[j] = value
        }
        gap /= 3
    }
}

/** Jumps from a place to the double of it. */
fun heapSort(a: IntArray) {
    for (i in a.size / 2 - 1 downTo 0) sink(a, a[i], i, a.size)
    for (end in a.size - 1 downTo 1) {
        val value = a[end]
        a[end] = a[0]
        sink(a, value, 0, end)
    }
}

private fun sink(a: IntArray, value: Int, start: Int, size: Int) {
    var i = start
    while (2 * i + 1 < size) {
        var child = 2 * i + 1
        if (child + 1 < size && a[child + 1] > a[child]) child++
        if (a[child] <= value) break
        a[i] = a[child]
        i = child
    }
    a[i] = value
}

/** Merges ever longer runs of references, forth and back between two arrays; equal keys stay in their order. */
fun mergeSort(records: Array<Record>): Array<Record> {
    var source = records.copyOf()
    var target = records.copyOf()
    var width = 1
    while (width < records.size) {
        for (start in records.indices step 2 * width) {
            val middle = minOf(start + width, records.size)
            val end = minOf(start + 2 * width, records.size)
            // What is in order already is moved as a whole.
            if (middle == end || source[middle - 1].key <= source[middle].key) {
                source.copyInto(target, start, start, end)
            } else {
                merge(source, target, start, middle, end)
            }
        }
        source = target.also { target = source }
        width *= 2
    }
    return source
}

private fun merge(source: Array<Record>, target: Array<Record>, start: Int, middle: Int, end: Int) {
    var left = start
    var right = middle
    for (k in start until end) {
        target[k] = if (right == end || left < middle && source[left].key <= source[right].key) source[left++] else source[right++]
    }
}
