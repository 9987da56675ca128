fun lists() {
    val squares = List(10) { it * it }
    println("squares: $squares")
    println("even, reversed: ${squares.filter { it % 2 == 0 }.reversed()}")
    println("chunks: ${squares.chunked(3)}, windows: ${squares.windowed(4, step = 3).map { it.sum() }}")
    println("zipped: ${squares.zip("abcdefghij".toList()).take(3)}, folded: ${squares.fold(1L) { a, b -> (a * 31 + b) % 1_000_007 }}")
    val (small, large) = squares.partition { it < 20 }
    println("small: $small, large: $large")

    val deque = ArrayDeque<Int>()
    for (i in 0 until 200_000) {
        if (i % 3 == 2) deque.removeFirst() else if (i % 2 == 0) deque.addFirst(i) else deque.addLast(i)
    }
    println("deque: ${deque.size} left, first ${deque.first()}, last ${deque.last()}, sum ${deque.sumOf { it.toLong() }}")

    val mutable = MutableList(1_000) { it }
    val numbers = Numbers(1)
    repeat(20_000) {
        val taken = mutable.removeAt(numbers.below(mutable.size))
        mutable.add(numbers.below(mutable.size + 1), taken)
    }
    println("shuffled: ${mutable.take(8)}..., still all there: ${mutable.sorted() == List(1_000) { it }}")

    val views = mutable.subList(100, 200).asReversed()
    println("view: ${views.size} elements, first is element 199: ${views.first() == mutable[199]}")
}
