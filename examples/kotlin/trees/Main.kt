import host.arguments

fun main() {
    val depth = arguments().firstOrNull()?.toInt() ?: 16
    binaryTrees(depth)
    redBlackMap(keys = 6_000 * depth)
    persistentHistory(versions = 1_000 * depth)
}
