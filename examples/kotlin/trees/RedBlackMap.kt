/**
 * A persistent map: `plus` copies the path from the root to the new key and shares the rest, so old versions stay
 * valid. Balanced by the rule that a red node has no red child and every path has as many black nodes.
 */
class RedBlackMap<K : Comparable<K>, V> private constructor(private val root: Tree<K, V>?) : Iterable<Pair<K, V>> {
    constructor() : this(null)

    private class Tree<K, V>(val red: Boolean, val left: Tree<K, V>?, val key: K, val value: V, val right: Tree<K, V>?)

    operator fun get(key: K): V? {
        var node = root
        while (node != null) {
            val order = key.compareTo(node.key)
            if (order == 0) return node.value
            node = if (order < 0) node.left else node.right
        }
        return null
    }

    operator fun plus(entry: Pair<K, V>): RedBlackMap<K, V> {
        val grown = insert(root, entry.first, entry.second)
        return RedBlackMap(Tree(false, grown.left, grown.key, grown.value, grown.right))
    }

    private fun insert(node: Tree<K, V>?, key: K, value: V): Tree<K, V> {
        if (node == null) return Tree(true, null, key, value, null)
        val order = key.compareTo(node.key)
        return when {
            order < 0 -> balance(node.red, insert(node.left, key, value), node.key, node.value, node.right)
            order > 0 -> balance(node.red, node.left, node.key, node.value, insert(node.right, key, value))
            else -> Tree(node.red, node.left, key, value, node.right)
        }
    }

    /** The four ways in which a black node can have a red child with a red child all become one shape. */
    private fun balance(red: Boolean, l: Tree<K, V>?, key: K, value: V, r: Tree<K, V>?): Tree<K, V> {
        if (!red) {
            if (l != null && l.red) {
                val ll = l.left
                val lr = l.right
                if (ll != null && ll.red)
                    return Tree(true, black(ll), l.key, l.value, Tree(false, lr, key, value, r))
                if (lr != null && lr.red)
                    return Tree(true, Tree(false, ll, l.key, l.value, lr.left), lr.key, lr.value, Tree(false, lr.right, key, value, r))
            }
            if (r != null && r.red) {
                val rl = r.left
                val rr = r.right
                if (rl != null && rl.red)
                    return Tree(true, Tree(false, l, key, value, rl.left), rl.key, rl.value, Tree(false, rl.right, r.key, r.value, rr))
                if (rr != null && rr.red)
                    return Tree(true, Tree(false, l, key, value, rl), r.key, r.value, black(rr))
            }
        }
        return Tree(red, l, key, value, r)
    }

    private fun black(t: Tree<K, V>) = Tree(false, t.left, t.key, t.value, t.right)

    fun height(): Int = height(root)

    private fun height(node: Tree<K, V>?): Int = if (node == null) 0 else 1 + maxOf(height(node.left), height(node.right))

    override fun iterator(): Iterator<Pair<K, V>> = iterator { walk(root) }

    private suspend fun SequenceScope<Pair<K, V>>.walk(node: Tree<K, V>?) {
        if (node == null) return
        walk(node.left)
        yield(node.key to node.value)
        walk(node.right)
    }
}

fun redBlackMap(keys: Int) {
    var map = RedBlackMap<Int, String>()
    // Multiplying by an odd number visits every key of a power of two exactly once, in scattered order.
    for (i in 0 until keys) map += scatter(i) to "v$i"
    var hits = 0
    for (i in 0 until keys) if (map[scatter(i)] == "v$i") hits++
    val ordered = map.asSequence().zipWithNext().all { (a, b) -> a.first < b.first }
    println("red-black map: $keys keys, $hits found, ordered: $ordered, height ${map.height()}")
}

/** Keeps old versions alive: what they share must not be collected, and what they do not share must be. */
fun persistentHistory(versions: Int) {
    val history = ArrayDeque<RedBlackMap<Int, Int>>()
    var current = RedBlackMap<Int, Int>()
    for (version in 1..versions) {
        current += (scatter(version) and 1023) to version
        history.addLast(current)
        if (history.size > 500) history.removeFirst()
    }
    val oldest = history.first().sumOf { it.second.toLong() }
    val newest = history.last().sumOf { it.second.toLong() }
    println("history: ${history.size} versions kept, sum of the oldest $oldest, of the newest $newest")
}

private fun scatter(i: Int): Int = (i * 0x9E3779B1.toInt()) ushr 1
