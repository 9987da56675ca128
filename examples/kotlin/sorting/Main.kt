import host.arguments

/** Sorts the same records in five ways, of numbers and of references; the argument is how many there are. */
fun main() {
    val size = arguments().firstOrNull()?.toInt() ?: 20_000
    val numbers = Numbers(17)
    val keys = IntArray(size) { numbers.next() }
    val records = Array(size) { Record(keys[it], it) }

    val radix = keys.copyOf().also { radixSort(it) }
    val shell = keys.copyOf().also { shellSort(it) }
    val heap = keys.copyOf().also { heapSort(it) }
    val merged = mergeSort(records)
    val packed = LongArray(size) { keys[it].toLong() shl 32 or it.toLong() }.also { it.sort() }

    println("$size records: hash ${radix.contentHashCode()}, median ${radix[size / 2]}")
    println("numbers agree: ${radix.contentEquals(shell)} ${radix.contentEquals(heap)}")
    println("records agree: ${merged.indices.all { merged[it].key == radix[it] && merged[it].place == packed[it].toInt() }}")
}

class Record(val key: Int, val place: Int)

/** A generator of our own, so that every platform sees the same numbers. */
class Numbers(private var state: Int) {
    fun next(): Int {
        state = state xor (state shl 13)
        state = state xor (state ushr 17)
        state = state xor (state shl 5)
        return state
    }
}
