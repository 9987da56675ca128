data class Point(val x: Int, val y: Int)

fun maps() {
    val numbers = Numbers(2)
    // A linked map keeps the order of insertion on every platform.
    val visits = LinkedHashMap<Point, Int>()
    repeat(200_000) {
        val place = Point(numbers.below(200), numbers.below(200))
        visits[place] = (visits[place] ?: 0) + 1
    }
    val busiest = visits.entries.maxWith(compareBy({ it.value }, { -it.key.x }, { -it.key.y }))
    println("places: ${visits.size}, visits: ${visits.values.sum()}, first: ${visits.keys.first()}, busiest: $busiest")

    val removed = visits.keys.filter { (it.x + it.y) % 2 == 0 }
    removed.forEach { visits.remove(it) }
    println("after removal: ${visits.size}, removed ${removed.size}, one is gone: ${removed.first() !in visits}")

    val byLength = listOf("fig", "kiwi", "plum", "date", "apple", "grape", "nut").groupBy { it.length }
    println("by length: $byLength")
    println("associated: ${byLength.mapValues { (_, words) -> words.joinToString("+") }.toList().associate { (k, v) -> v to k }}")

    val counters = hashMapOf<String, Long>()
    for (i in 0 until 100_000) counters["key${numbers.below(5_000)}"] = i.toLong() + (counters["key${i % 5_000}"] ?: 0L) % 1_000
    println("counters: ${counters.size}, sum ${counters.values.sum()}")
}

fun sets() {
    val twos = (0..60 step 2).toSet()
    val threes = (0..60 step 3).toSet()
    println("both: ${twos intersect threes}")
    println("either: ${(twos union threes).size}, only twos: ${(twos - threes).size}")
    val points = HashSet<Point>()
    for (i in 0 until 50_000) points += Point(i % 300, i % 77)
    println("distinct points: ${points.size}, contains (10, 10): ${Point(10, 10) in points}")
}
