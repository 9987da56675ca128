fun main() {
    lists()
    maps()
    sets()
    sorting()
    sequences()
    wordCount(rounds = 40)
}

/** A small generator of our own, so that every platform sees the same numbers. */
class Numbers(private var state: Int) {
    fun next(): Int {
        state = state * 1664525 + 1013904223
        return state ushr 8
    }

    fun below(limit: Int): Int = next() % limit
}
