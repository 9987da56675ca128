import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Deferred
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.joinAll
import kotlinx.coroutines.launch
import kotlinx.coroutines.supervisorScope
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.coroutines.yield

suspend fun interleaving() = coroutineScope {
    val log = StringBuilder()
    val jobs = listOf("a", "b", "c").map { name ->
        launch {
            for (i in 1..3) {
                log.append(name).append(i).append(' ')
                yield()
            }
        }
    }
    jobs.joinAll()
    println("interleaved: ${log.trim()}")
}

/** A scope returns only when all its children are done, however deep they are. */
suspend fun structure() {
    var leaves = 0
    suspend fun spread(depth: Int): Unit = coroutineScope {
        if (depth == 0) {
            yield()
            leaves++
        } else {
            repeat(3) { launch { spread(depth - 1) } }
        }
    }
    spread(7)
    println("leaves: $leaves")

    suspend fun sum(range: IntRange): Long = coroutineScope {
        if (range.last - range.first < 16) {
            range.sumOf { it.toLong() }
        } else {
            val middle = (range.first + range.last) / 2
            val left = async { sum(range.first..middle) }
            val right = async { sum(middle + 1..range.last) }
            left.await() + right.await()
        }
    }
    println("sum by halves: ${sum(1..20_000)}")
}

private class Failure(message: String) : Exception(message)

suspend fun failures() {
    val log = mutableListOf<String>()
    try {
        coroutineScope {
            launch {
                try {
                    delay(100_000)
                } catch (e: CancellationException) {
                    log += "sibling cancelled"
                    throw e
                } finally {
                    log += "cleaned up"
                }
            }
            launch {
                yield()
                throw Failure("one failed")
            }
        }
    } catch (e: Failure) {
        log += "caught ${e.message}"
    }
    println("failure: $log")

    val outcomes = supervisorScope {
        val tasks: List<Deferred<Int>> = (1..6).map { n -> async { if (n % 3 == 0) throw Failure("task $n") else n * n } }
        tasks.map { task -> runCatching { task.await() }.fold({ "$it" }, { "${it.message}" }) }
    }
    println("supervised: $outcomes")

    val job = CoroutineScope(kotlin.coroutines.coroutineContext).launch {
        var steps = 0
        try {
            while (true) {
                yield()
                steps++
            }
        } finally {
            log += "endless one stopped: ${steps > 0}"
        }
    }
    repeat(5) { yield() }
    job.cancel()
    job.join()
    println("cancelled: ${job.isCancelled}, ${log.last()}")
    println("timeout: ${withTimeoutOrNull(5) { delay(60_000); "late" }} ${withTimeoutOrNull(60_000) { "in time" }}")
    println("all: ${coroutineScope { (1..5).map { async { it * 10 } }.awaitAll() }}")
}
