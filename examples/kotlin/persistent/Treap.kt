/**
 * An immutable map in a treap: a search tree by key, a heap by a priority that is a hash of the key. The shape depends on
 * the keys alone, and every operation copies the paths that it walks.
 */
class Treap<V> private constructor(private val root: Node<V>?) {
    private class Node<V>(val key: Int, val value: V, val left: Node<V>?, val right: Node<V>?) {
        val size: Int = 1 + (left?.size ?: 0) + (right?.size ?: 0)

        fun with(left: Node<V>?, right: Node<V>?) = Node(key, value, left, right)
        fun isAbove(other: Node<V>) = priority(key) > priority(other.key)
    }

    /** The nodes below a key, the node of the key, the nodes above. */
    private class Parts<V>(val low: Node<V>?, val middle: Node<V>?, val high: Node<V>?)

    val size: Int get() = root?.size ?: 0
    val depth: Int get() = depth(root)

    fun with(key: Int, value: V): Treap<V> {
        val parts = parts(root, key)
        return Treap(join(join(parts.low, Node(key, value, null, null)), parts.high))
    }

    fun without(key: Int): Treap<V> {
        val parts = parts(root, key)
        return if (parts.middle == null) this else Treap(join(parts.low, parts.high))
    }

    /** The keys below `key`, and the others. */
    fun split(key: Int): Pair<Treap<V>, Treap<V>> {
        val parts = parts(root, key)
        val middle = parts.middle?.with(null, null)
        return Treap(parts.low) to Treap(if (middle == null) parts.high else join(middle, parts.high))
    }

    /** All keys of both; a key of both has this map's value. */
    fun union(other: Treap<V>): Treap<V> = Treap(union(root, other.root))

    fun <W> mapValues(change: (V) -> W): Treap<W> = Treap(mapped(root, change))

    fun forEach(action: (Int, V) -> Unit) = visit(root, action)

    fun first(count: Int): List<V> {
        val values = ArrayList<V>()
        visit(root) { _, value -> if (values.size < count) values += value }
        return values
    }

    companion object {
        fun <V> empty(): Treap<V> = Treap(null)

        private fun priority(key: Int): Int {
            val mixed = (key xor (key ushr 16)) * 0x45d9f3b
            return (mixed xor (mixed ushr 15)) * 0x2c1b3c6d
        }

        private fun <V> parts(node: Node<V>?, key: Int): Parts<V> {
            if (node == null) return Parts(null, null, null)
            if (key == node.key) return Parts(node.left, node, node.right)
            return if (key < node.key) {
                val parts = parts(node.left, key)
                Parts(parts.low, parts.middle, node.with(parts.high, node.right))
            } else {
                val parts = parts(node.right, key)
                Parts(node.with(node.left, parts.low), parts.middle, parts.high)
            }
        }

        /** Both trees in one, where every key of `low` is below every key of `high`. */
        private fun <V> join(low: Node<V>?, high: Node<V>?): Node<V>? = when {
            low == null -> high
            high == null -> low
            low.isAbove(high) -> low.with(low.left, join(low.right, high))
            else -> high.with(join(low, high.left), high.right)
        }

        private fun <V> union(ours: Node<V>?, theirs: Node<V>?): Node<V>? = when {
            ours === theirs || theirs == null -> ours
            ours == null -> theirs
            ours.isAbove(theirs) || ours.key == theirs.key -> {
                val parts = parts(theirs, ours.key)
                ours.with(union(ours.left, parts.low), union(ours.right, parts.high))
            }
            else -> {
                val parts = parts(ours, theirs.key)
                val node = parts.middle ?: theirs
                node.with(union(parts.low, theirs.left), union(parts.high, theirs.right))
            }
        }

        private fun <V, W> mapped(node: Node<V>?, change: (V) -> W): Node<W>? =
            node?.let { Node(it.key, change(it.value), mapped(it.left, change), mapped(it.right, change)) }

        private fun <V> visit(node: Node<V>?, action: (Int, V) -> Unit) {
            if (node == null) return
            visit(node.left, action)
            action(node.key, node.value)
            visit(node.right, action)
        }

        private fun <V> depth(node: Node<V>?): Int = if (node == null) 0 else 1 + maxOf(depth(node.left), depth(node.right))
    }
}
