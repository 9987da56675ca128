import host.arguments
import kotlin.random.Random

/** Maps that are never changed: an edit makes a new version that shares what it can, and old versions come to an end. */
fun main() {
    val edits = arguments().firstOrNull()?.toInt() ?: 30_000
    editor(edits)
    branches(edits / 100)
}

/** One edit after another; the last hundred versions can be gone back to. */
private fun editor(edits: Int) {
    val random = Random(5)
    val history = ArrayDeque<Treap<String>>()
    var document = Treap.empty<String>()
    var undone = 0
    for (edit in 0 until edits) {
        history.addLast(document)
        if (history.size > 100) history.removeFirst()
        val line = random.nextInt(4_000)
        document = when (random.nextInt(16)) {
            0 -> document.without(line)
            1 -> {
                repeat(random.nextInt(minOf(history.size, 12))) { history.removeLast() }
                undone++
                history.last()
            }
            else -> document.with(line, "edit $edit")
        }
    }
    println("document: ${document.size} lines after $edits edits, $undone times undone, depth ${document.depth}")
    println("first: ${document.first(3)}, oldest kept: ${history.first().size} lines")
}

/** Two branches of one map are edited and merged, again and again. */
private fun branches(rounds: Int) {
    val random = Random(6)
    var trunk = Treap.empty<Int>()
    for (key in 0 until 2_000) trunk = trunk.with(key * 3, key)
    repeat(rounds) { round ->
        val ours = (0 until 20).fold(trunk) { map, _ -> map.with(random.nextInt(8_000), round) }
        val theirs = (0 until 20).fold(trunk) { map, _ -> map.without(random.nextInt(8_000)) }
        // What either side has, and of keys on both sides our value; then every tenth round a wide cut.
        trunk = ours.union(theirs)
        if (round % 10 == 9) {
            val (low, rest) = trunk.split(random.nextInt(4_000))
            val (_, high) = rest.split(4_500)
            trunk = low.union(high).mapValues { it + 1 }
        }
    }
    var sum = 0L
    trunk.forEach { key, value -> sum = sum * 31 + key * 7L + value }
    println("trunk: ${trunk.size} keys after $rounds merges, depth ${trunk.depth}, checksum $sum")
}
