/**
 * A tree in tables: a node is an index, and each of its properties stands in an array of its own. The arrays are as large
 * as the largest document may need, and a document is never copied.
 */
class Document {
    private val parents = IntArray(NODES)
    private val lastChildren = IntArray(NODES)
    private val siblings = IntArray(NODES)
    /** Index of the name of an element; of a text, -1. */
    private val names = ShortArray(NODES)
    private val starts = IntArray(NODES)
    private val lengths = IntArray(NODES)
    private val characters = CharArray(CHARACTERS)
    private val usedNames = arrayOfNulls<String>(NAMES)
    private var characterCount = 0
    private var nameCount = 0

    /** Nodes so far. */
    var size = 0
        private set

    val root: Int get() = 0

    fun element(parent: Int, name: String): Int = node(parent).also { names[it] = nameIndex(name).toShort() }

    fun text(parent: Int, source: String, start: Int, end: Int): Int {
        val node = node(parent)
        names[node] = -1
        starts[node] = characterCount
        lengths[node] = end - start
        for (i in start until end) characters[characterCount++] = source[i]
        return node
    }

    /** Nodes have a number that is one higher than their index in the tables, so that 0 is none. */
    private fun node(parent: Int): Int {
        val node = size++
        parents[node] = parent + 1
        if (parent >= 0) {
            siblings[node] = lastChildren[parent]
            lastChildren[parent] = node + 1
        }
        return node
    }

    private fun nameIndex(name: String): Int {
        for (i in 0 until nameCount) if (usedNames[i] == name) return i
        usedNames[nameCount] = name
        return nameCount++
    }

    fun isText(node: Int): Boolean = names[node] < 0
    fun name(node: Int): String = usedNames[names[node].toInt()]!!
    fun text(node: Int): String = characters.concatToString(starts[node], starts[node] + lengths[node])
    fun parent(node: Int): Int = parents[node] - 1
    fun lastChild(node: Int): Int = lastChildren[node] - 1
    fun previous(node: Int): Int = siblings[node] - 1

    fun depth(): Int = (0 until size).maxOf { node ->
        var depth = 0
        var above = node
        while (above >= 0) {
            depth++
            above = parent(above)
        }
        depth
    }

    private companion object {
        const val NODES = 1 shl 13
        const val CHARACTERS = 1 shl 16
        const val NAMES = 1 shl 11
    }
}
