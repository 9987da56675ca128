import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.launch
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.Semaphore
import kotlinx.coroutines.sync.withLock
import kotlinx.coroutines.sync.withPermit
import kotlinx.coroutines.yield

/** Delays end in the order of their lengths, whatever the order of their beginnings. */
suspend fun timing() = coroutineScope {
    val order = mutableListOf<Int>()
    listOf(60, 20, 100, 40, 80).map { ms ->
        launch {
            delay(ms.toLong())
            order += ms
        }
    }.forEach { it.join() }
    println("delays: $order")
}

suspend fun sharedState() = coroutineScope {
    val mutex = Mutex()
    var counter = 0
    List(100) {
        launch {
            repeat(100) {
                mutex.withLock {
                    val seen = counter
                    yield()
                    counter = seen + 1
                }
            }
        }
    }.forEach { it.join() }
    println("counter: $counter")

    val permits = Semaphore(3)
    var inside = 0
    var most = 0
    List(20) {
        launch {
            permits.withPermit {
                most = maxOf(most, ++inside)
                yield()
                inside--
            }
        }
    }.forEach { it.join() }
    println("at most $most at a time")

    val state = MutableStateFlow(0)
    val watcher = async { state.first { it >= 10 } }
    while (!watcher.isCompleted) {
        state.value++
        yield()
    }
    println("state reached: ${watcher.await() >= 10}")
}

/** Many coroutines alive at once, each suspended several times: continuations are what fills the heap. */
suspend fun load() = coroutineScope {
    val results = List(20_000) { n ->
        async {
            var x = n.toLong()
            repeat(5) {
                yield()
                x = (x * 31 + 7) % 1_000_003
            }
            x
        }
    }.awaitAll()
    println("load: ${results.size} coroutines, sum ${results.sum()}")
}
