/** An exception that crosses frames of the standard library on its way from a lambda to its handler. */
fun throughLambdas() {
    val reached = mutableListOf<Int>()
    try {
        listOf(5, 3, 0, 7).map { 15 / positive(it) }.forEach { reached += it }
    } catch (e: IllegalStateException) {
        println("map stopped: ${e.message}, reached $reached")
    }
    try {
        sequenceOf(5, 3, 0, 7).map { 15 / positive(it) }.forEach { reached += it }
    } catch (e: IllegalStateException) {
        println("sequence stopped: ${e.message}, reached $reached")
    }
    try {
        (1..100).sortedWith { a, b -> if (a == 50 || b == 50) throw IllegalStateException("refuses to compare") else b - a }
    } catch (e: IllegalStateException) {
        println("sort stopped: ${e.message}")
    }
    val results = listOf("1", "x", "3", "").map { text -> runCatching { text.toInt() } }
    println("results: ${results.map { it.getOrNull() }}, failures: ${results.count { it.isFailure }}")
    println("recovered: ${results.map { it.recover { -1 }.getOrThrow() }}")
    val lazyValue by lazy { if (reached.size > 1) throw IllegalStateException("not ready") else 1 }
    repeat(2) {
        println("lazy: ${runCatching { lazyValue }.fold({ "value $it" }, { "failed with ${it.message}" })}")
        reached.clear()
    }
}

private fun positive(n: Int): Int = if (n > 0) n else throw IllegalStateException("$n is not positive")

fun fromTheRuntime() {
    val nothing: Any? = if ("a".length == 1) null else 1
    val list = listOf(1, 2, 3)
    val attempts = listOf<Pair<String, () -> Any?>>(
        "index of a list" to { list[list.size] },
        "index of an array" to { IntArray(3)[list.sum()] },
        "empty" to { emptyList<Int>().first() },
        "cast" to { (list as Any) as String },
        "null" to { nothing!! },
        "number" to { "12a".toInt() },
        "division" to { list.size / (list.size - 3) },
        "map" to { mapOf(1 to 2).getValue(3) },
        "iterator" to { list.iterator().run { repeat(4) { next() } } },
        "error" to { error("own") },
        "todo" to { TODO("later") },
        "check" to { check(list.isEmpty()) },
    )
    for ((name, attempt) in attempts) {
        // Messages and some class names differ between platforms; the kind of failure does not.
        val kind = try {
            attempt()
            "nothing thrown"
        } catch (e: IndexOutOfBoundsException) {
            "index"
        } catch (e: NoSuchElementException) {
            "no such element"
        } catch (e: ClassCastException) {
            "class cast"
        } catch (e: NullPointerException) {
            "null pointer"
        } catch (e: NumberFormatException) {
            "number format"
        } catch (e: ArithmeticException) {
            "arithmetic"
        } catch (e: IllegalStateException) {
            "illegal state"
        } catch (e: NotImplementedError) {
            "not implemented"
        }
        println("$name: $kind")
    }
}
