/** Three sorts with three patterns of access: swaps within, a heap's jumps, and a second array to merge into. */
fun sorting(size: Int) {
    val numbers = Numbers(42)
    val original = IntArray(size) { numbers.next() }
    val quick = original.copyOf().also { quickSort(it, 0, it.size - 1) }
    val heap = original.copyOf().also { heapSort(it) }
    val merged = original.copyOf().also { mergeSort(it) }
    val library = original.sortedArray()
    println("sorts agree: ${quick.contentEquals(library)} ${heap.contentEquals(library)} ${merged.contentEquals(library)}")
    println("first ${library.first()}, median ${library[size / 2]}, last ${library.last()}, hash ${library.contentHashCode()}")
}

private fun quickSort(a: IntArray, from: Int, to: Int) {
    var low = from
    var high = to
    while (low < high) {
        val pivot = a[(low + high) ushr 1]
        var i = low
        var j = high
        while (i <= j) {
            while (a[i] < pivot) i++
            while (a[j] > pivot) j--
            if (i <= j) {
                val t = a[i]
                a[i++] = a[j]
                a[j--] = t
            }
        }
        // Recursing into the smaller part bounds the depth by the logarithm of the size.
        if (j - low < high - i) {
            quickSort(a, low, j)
            low = i
        } else {
            quickSort(a, i, high)
            high = j
        }
    }
}

private fun heapSort(a: IntArray) {
    for (i in a.size / 2 - 1 downTo 0) sink(a, i, a.size)
    for (end in a.size - 1 downTo 1) {
        val t = a[0]
        a[0] = a[end]
        a[end] = t
        sink(a, 0, end)
    }
}

private fun sink(a: IntArray, start: Int, size: Int) {
    var i = start
    val value = a[i]
    while (2 * i + 1 < size) {
        var child = 2 * i + 1
        if (child + 1 < size && a[child + 1] > a[child]) child++
        if (a[child] <= value) break
        a[i] = a[child]
        i = child
    }
    a[i] = value
}

private fun mergeSort(a: IntArray) {
    var source = a
    var target = IntArray(a.size)
    var width = 1
    while (width < a.size) {
        for (start in a.indices step 2 * width) {
            val middle = minOf(start + width, a.size)
            val end = minOf(start + 2 * width, a.size)
            var i = start
            var j = middle
            for (k in start until end) target[k] = if (i < middle && (j >= end || source[i] <= source[j])) source[i++] else source[j++]
        }
        val t = source
        source = target
        target = t
        width *= 2
    }
    if (source !== a) source.copyInto(a)
}
