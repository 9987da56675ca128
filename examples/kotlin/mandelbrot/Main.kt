import host.arguments

/** Counts the steps that each point of a square of the plane takes to escape, and draws a small picture of them. */
fun main() {
    val size = arguments().firstOrNull()?.toInt() ?: 2_000
    picture(width = 64, height = 24)
    var inside = 0
    var steps = 0L
    for (row in 0 until size) {
        for (column in 0 until size) {
            val n = escape(3.0 * column / size - 2.25, 3.0 * row / size - 1.5, limit = 200)
            if (n == 200) inside++
            steps += n
        }
    }
    println("$size x $size points: $inside inside, $steps steps")
}

private fun escape(cx: Double, cy: Double, limit: Int): Int {
    var x = 0.0
    var y = 0.0
    var n = 0
    while (n < limit) {
        val xx = x * x
        val yy = y * y
        if (xx + yy > 4.0) break
        y = 2 * x * y + cy
        x = xx - yy + cx
        n++
    }
    return n
}

private fun picture(width: Int, height: Int) {
    val shades = " .:-=+*%@#"
    for (row in 0 until height) {
        println(
            buildString {
                for (column in 0 until width) {
                    val n = escape(3.0 * column / width - 2.25, 2.6 * row / height - 1.3, limit = 45)
                    append(shades[minOf(n / 5, 9)])
                }
            }.trimEnd(),
        )
    }
}
