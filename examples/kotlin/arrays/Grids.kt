/** Blurs an image of bytes with a 5 by 5 kernel, again and again. */
fun convolution(width: Int, height: Int, rounds: Int) {
    val kernel = intArrayOf(1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1)
    var image = ByteArray(width * height) { ((it % width) xor (it / width)).toByte() }
    repeat(rounds) {
        val blurred = image.copyOf()
        for (y in 2 until height - 2) {
            for (x in 2 until width - 2) {
                var sum = 0
                for (dy in 0..4) {
                    val row = (y + dy - 2) * width + x - 2
                    for (dx in 0..4) sum += kernel[dy * 5 + dx] * (image[row + dx].toInt() and 255)
                }
                blurred[y * width + x] = (sum shr 8).toByte()
            }
        }
        image = blurred
    }
    println("convolution: hash ${image.contentHashCode()}, centre ${image[(height / 2) * width + width / 2]}")
}

/** Conway's game on an array of arrays, which wraps around at the edges. */
fun life(width: Int, height: Int, generations: Int) {
    val numbers = Numbers(7)
    var board = Array(height) { BooleanArray(width) { numbers.next() and 3 == 0 } }
    repeat(generations) {
        val old = board
        board = Array(height) { y ->
            val above = old[(y + height - 1) % height]
            val here = old[y]
            val below = old[(y + 1) % height]
            BooleanArray(width) { x ->
                val left = (x + width - 1) % width
                val right = (x + 1) % width
                var neighbours = 0
                if (above[left]) neighbours++
                if (above[x]) neighbours++
                if (above[right]) neighbours++
                if (here[left]) neighbours++
                if (here[right]) neighbours++
                if (below[left]) neighbours++
                if (below[x]) neighbours++
                if (below[right]) neighbours++
                neighbours == 3 || here[x] && neighbours == 2
            }
        }
    }
    println("life: ${board.sumOf { row -> row.count { it } }} cells alive after $generations generations")
}
