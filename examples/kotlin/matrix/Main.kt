import host.arguments

/** Multiplies square matrices in two layouts: an array of rows, and one flat array. Whole numbers keep it exact. */
fun main() {
    val size = arguments().firstOrNull()?.toInt() ?: 360
    val rows = product(
        Array(size) { i -> DoubleArray(size) { j -> element(i, j) } },
        Array(size) { i -> DoubleArray(size) { j -> element(j, i + 1) } },
    )
    val flat = product(
        DoubleArray(size * size) { element(it / size, it % size) },
        DoubleArray(size * size) { element(it % size, it / size + 1) },
        size,
    )
    val same = rows.indices.all { i -> rows[i].indices.all { j -> rows[i][j] == flat[i * size + j] } }
    println("$size x $size: trace ${rows.indices.sumOf { rows[it][it].toLong() }}, sum ${flat.sumOf { it.toLong() }}, layouts agree: $same")
}

private fun element(i: Int, j: Int): Double = ((i * 31 + j * 17) % 101 - 50).toDouble()

private fun product(a: Array<DoubleArray>, b: Array<DoubleArray>): Array<DoubleArray> {
    val columns = Array(b[0].size) { j -> DoubleArray(b.size) { i -> b[i][j] } }
    return Array(a.size) { i ->
        val row = a[i]
        DoubleArray(columns.size) { j ->
            val column = columns[j]
            var sum = 0.0
            for (k in row.indices) sum += row[k] * column[k]
            sum
        }
    }
}

private fun product(a: DoubleArray, b: DoubleArray, size: Int): DoubleArray {
    val c = DoubleArray(size * size)
    for (i in 0 until size) {
        for (k in 0 until size) {
            val factor = a[i * size + k]
            for (j in 0 until size) c[i * size + j] += factor * b[k * size + j]
        }
    }
    return c
}
