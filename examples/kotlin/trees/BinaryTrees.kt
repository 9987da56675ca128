/** Many short-lived trees beside one that lives through it all: the classical load of an allocator. */
fun binaryTrees(maxDepth: Int) {
    val longLived = bottomUp(maxDepth)
    for (depth in 4..maxDepth step 4) {
        val rounds = 1 shl (maxDepth - depth + 4)
        var nodes = 0L
        repeat(rounds) { nodes += bottomUp(depth).count() }
        println("$rounds trees of depth $depth: $nodes nodes")
    }
    println("the long-lived tree of depth $maxDepth: ${longLived.count()} nodes")
}

private class Node(val left: Node?, val right: Node?) {
    fun count(): Int = 1 + (left?.count() ?: 0) + (right?.count() ?: 0)
}

private fun bottomUp(depth: Int): Node =
    if (depth == 0) Node(null, null) else Node(bottomUp(depth - 1), bottomUp(depth - 1))
