private class Resource(val name: String, private val log: MutableList<String>) : AutoCloseable {
    init {
        log += "open $name"
    }

    override fun close() {
        log += "close $name"
        if (name == "faulty") throw IllegalStateException("cannot close")
    }
}

fun resources() {
    val log = mutableListOf<String>()
    try {
        Resource("a", log).use {
            Resource("faulty", log).use {
                throw UnsupportedOperationException("work failed")
            }
        }
    } catch (e: UnsupportedOperationException) {
        println("$log, ${e.message}, suppressed ${e.suppressedExceptions.map { it.message }}")
    }
}

/** Unwinds many frames, each with its own finally. */
fun deep(depth: Int) {
    var unwound = 0
    fun descend(left: Int) {
        try {
            if (left == 0) throw IllegalStateException("bottom")
            descend(left - 1)
        } finally {
            unwound++
        }
    }
    try {
        descend(depth)
    } catch (e: IllegalStateException) {
        println("unwound $unwound frames from the ${e.message}")
    }
}

private class Odd(val number: Int) : Exception()

/** Throwing often: exceptions as control flow. */
fun many(rounds: Int) {
    var odd = 0L
    var even = 0L
    for (i in 0 until rounds) {
        try {
            even += half(i)
        } catch (e: Odd) {
            odd += e.number
        }
    }
    println("odd $odd, even $even")
}

private fun half(n: Int): Int = if (n % 2 == 0) n / 2 else throw Odd(n)
