/** Rows of every length up to [rows], as Pascal's triangle: arrays of references and many sizes at once. */
fun jagged(rows: Int) {
    val triangle = arrayOfNulls<IntArray>(rows)
    for (n in 0 until rows) {
        val above = if (n > 0) triangle[n - 1]!! else IntArray(0)
        triangle[n] = IntArray(n + 1) { k -> if (k == 0 || k == n) 1 else (above[k - 1] + above[k]) % 1_000_003 }
    }
    println("pascal: ${triangle.sumOf { row -> row!!.sumOf { it.toLong() } }} in ${triangle.sumOf { it!!.size }} entries")
}

/** The operations that an engine may do for a whole array at once: fill, copy with overlap, compare, grow. */
fun bulk() {
    val bytes = ByteArray(1 shl 20)
    var check = 0L
    for (round in 1..40) {
        bytes.fill(round.toByte(), fromIndex = round * 1_000, toIndex = round * 20_000)
        bytes.copyInto(bytes, destinationOffset = 5, startIndex = 0, endIndex = bytes.size - 5)
        bytes.copyInto(bytes, destinationOffset = 0, startIndex = 3, endIndex = bytes.size)
        check += bytes[round * 10_000] + bytes[round * 21_000 + 1]
    }
    println("bulk: check $check, hash ${bytes.contentHashCode()}, same as its copy: ${bytes.contentEquals(bytes.copyOf())}")

    var grown = LongArray(1) { 1 }
    while (grown.size < 1 shl 18) {
        val size = grown.size
        grown = grown.copyOf(2 * size)
        for (i in size until 2 * size) grown[i] = grown[i - size] * 3 + i
    }
    println("grown: ${grown.size} longs, last ${grown.last()}, slice ${grown.sliceArray(5..8).toList()}")

    val references = arrayOfNulls<String>(50_000)
    for (i in references.indices step 7) references[i] = "r$i"
    references.copyInto(references, 10, 0, 40_000)
    println("references: ${references.count { it != null }} strings, ${references[17]}, reversed ${references.reversedArray().first { it != null }}")
}
