/** The planned events in a binary heap: whichever comes first is at index 0. */
class Agenda {
    private var heap = arrayOfNulls<Event>(64)
    private var size = 0

    /** Events planned so far. */
    var events = 0
        private set

    /** The most events that were planned at once. */
    var longest = 0
        private set

    fun add(event: Event) {
        event.number = events++
        if (size == heap.size) heap = heap.copyOf(2 * size)
        var place = size++
        longest = maxOf(longest, size)
        while (place > 0) {
            val parent = (place - 1) / 2
            val above = heap[parent]!!
            if (!event.isBefore(above)) break
            heap[place] = above
            place = parent
        }
        heap[place] = event
    }

    fun next(): Event? {
        if (size == 0) return null
        val first = heap[0]
        val last = heap[--size]!!
        heap[size] = null
        if (size > 0) sink(last)
        return first
    }

    private fun sink(event: Event) {
        var place = 0
        while (true) {
            var child = 2 * place + 1
            if (child >= size) break
            if (child + 1 < size && heap[child + 1]!!.isBefore(heap[child]!!)) child++
            val below = heap[child]!!
            if (!below.isBefore(event)) break
            heap[place] = below
            place = child
        }
        heap[place] = event
    }
}
