import host.arguments
import kotlin.random.Random
import kotlin.time.TimeMark
import kotlin.time.TimeSource

/**
 * A cache of the most recently used values that is always full: most of the heap stays alive, and every miss makes an old
 * object refer to a new one. Arguments: megabytes that live (about), requests, and `gaps` for how evenly it went.
 */
fun main() {
    val start = TimeSource.Monotonic.markNow()
    val arguments = arguments()
    val capacity = ENTRIES_PER_MEGABYTE * (arguments.getOrNull(0)?.toInt() ?: 2)
    val requests = arguments.getOrNull(1)?.toInt() ?: 100_000

    val random = Random(11)
    val cache = Cache(capacity)
    for (key in 0 until capacity) cache.answer(Request(key, key))

    // One key in five is not in the cache.
    val keys = capacity / 4 * 5
    val gaps = Gaps(start, requests / BATCH + 1)
    var sum = 0L
    for (number in 0 until requests) {
        if (number % BATCH == 0) gaps.mark()
        sum = sum * 31 + cache.answer(Request(random.nextInt(keys), number)).checksum
    }
    println("$requests requests to a cache of $capacity: ${cache.hits} hits, ${cache.misses} misses, checksum $sum")
    println("from the newest: ${cache.newest(5).joinToString()}")
    if (arguments.getOrNull(2) == "gaps") println(gaps)
}

/** An entry, its value and its place in the index take about 200 bytes. */
private const val ENTRIES_PER_MEGABYTE = 5_000

/** Requests between two looks at the clock. */
private const val BATCH = 16

class Request(val key: Int, val number: Int)

class Answer(val request: Request, val checksum: Long)

/**
 * A hash index whose entries are linked in order of their last use. The index never grows: a request takes the same time
 * with any number before it, so that gaps between requests are the garbage collector's.
 */
class Cache(private val capacity: Int) {
    private class Entry(val key: Int, val value: LongArray) {
        var newer: Entry? = null
        var older: Entry? = null
        /** The next of the same bucket. */
        var next: Entry? = null
    }

    private val buckets = arrayOfNulls<Entry>(capacity.takeHighestOneBit() * 2)
    private var newest: Entry? = null
    private var oldest: Entry? = null
    private var size = 0
    var hits = 0
        private set
    var misses = 0
        private set

    fun answer(request: Request): Answer {
        var entry = find(request.key)
        if (entry != null) {
            hits++
            unlink(entry)
        } else {
            misses++
            if (size == capacity) evict()
            entry = Entry(request.key, LongArray(16) { (request.key.toLong() shl it) + request.number })
            val bucket = bucket(request.key)
            entry.next = buckets[bucket]
            buckets[bucket] = entry
            size++
        }
        pushNewest(entry)
        return Answer(request, entry.value[request.number and 15])
    }

    fun newest(count: Int): List<Int> = generateSequence(newest) { it.older }.take(count).map { it.key }.toList()

    private fun bucket(key: Int): Int = (key * 0x9E3779B1.toInt()).let { it xor (it ushr 15) } and (buckets.size - 1)

    private fun find(key: Int): Entry? {
        var entry = buckets[bucket(key)]
        while (entry != null && entry.key != key) entry = entry.next
        return entry
    }

    private fun evict() {
        val entry = oldest ?: return
        unlink(entry)
        val bucket = bucket(entry.key)
        var before = buckets[bucket]
        if (before === entry) {
            buckets[bucket] = entry.next
        } else {
            while (before?.next !== entry) before = before?.next
            before?.next = entry.next
        }
        size--
    }

    private fun unlink(entry: Entry) {
        val newer = entry.newer
        val older = entry.older
        if (newer == null) newest = older else newer.older = older
        if (older == null) oldest = newer else older.newer = newer
    }

    private fun pushNewest(entry: Entry) {
        entry.newer = null
        entry.older = newest
        newest?.newer = entry
        newest = entry
        if (oldest == null) oldest = entry
    }
}

/** Times between marks, in nanoseconds, and the time from `start` to the first. Takes all its memory at once. */
class Gaps(private val start: TimeMark, marks: Int) {
    private val gaps = LongArray(marks)
    private var first = 0L
    private var count = -1
    private var last = 0L

    fun mark() {
        val now = start.elapsedNow().inWholeNanoseconds
        if (count >= 0) gaps[count] = now - last else first = now
        count++
        last = now
    }

    override fun toString(): String {
        if (count < 1) return "gaps: 0"
        gaps.sort(0, count)
        fun at(part: Double) = gaps[((count - 1) * part).toInt()]
        return "gaps: $count first=$first p50=${at(0.5)} p99=${at(0.99)} p99.9=${at(0.999)} p99.99=${at(0.9999)} max=${gaps[count - 1]} ns"
    }
}
