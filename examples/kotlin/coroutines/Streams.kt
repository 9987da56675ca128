import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.ReceiveChannel
import kotlinx.coroutines.channels.consumeEach
import kotlinx.coroutines.channels.produce
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.asFlow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.catch
import kotlinx.coroutines.flow.filter
import kotlinx.coroutines.flow.flatMapConcat
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.flowOf
import kotlinx.coroutines.flow.fold
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.onCompletion
import kotlinx.coroutines.flow.scan
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.flow.transform
import kotlinx.coroutines.flow.zip
import kotlinx.coroutines.launch

@OptIn(ExperimentalCoroutinesApi::class)
suspend fun channels() = coroutineScope {
    for (capacity in listOf(Channel.RENDEZVOUS, 1, 64, Channel.UNLIMITED)) {
        val channel = Channel<Int>(capacity)
        val producers = List(4) { id -> launch { for (i in 1..2_500) channel.send(id * 10_000 + i) } }
        launch {
            producers.forEach { it.join() }
            channel.close()
        }
        var count = 0
        var sum = 0L
        channel.consumeEach {
            count++
            sum += it
        }
        println("channel of capacity ${if (capacity == Int.MAX_VALUE) "unlimited" else "$capacity"}: $count received, sum $sum")
    }
    println("primes by a chain of coroutines: ${primes(25)}")
}

/** Every prime found adds a coroutine that filters its multiples. */
@OptIn(ExperimentalCoroutinesApi::class)
private suspend fun primes(count: Int): List<Int> {
    val found = mutableListOf<Int>()
    coroutineScope {
        val scope = CoroutineScope(coroutineContext + kotlinx.coroutines.Job(coroutineContext[kotlinx.coroutines.Job]))
        var source: ReceiveChannel<Int> = scope.produce {
            var n = 2
            while (true) send(n++)
        }
        repeat(count) {
            val prime = source.receive()
            found += prime
            val rest = source
            source = scope.produce { for (n in rest) if (n % prime != 0) send(n) }
        }
        scope.coroutineContext[kotlinx.coroutines.Job]!!.cancel()
    }
    return found
}

@OptIn(ExperimentalCoroutinesApi::class)
suspend fun flows() {
    val numbers = flow {
        for (i in 1..1_000_000) emit(i)
    }
    println("lazy: ${numbers.filter { it % 7 == 0 }.map { it * it }.take(5).toList()}")
    println("long: ${numbers.take(100_000).map { it % 1_000 }.fold(0L) { a, b -> a + b }}")
    println("zipped: ${flowOf("a", "b", "c").zip(numbers) { a, b -> a + b }.toList()}")
    println("scanned: ${(1..6).asFlow().scan(1) { a, b -> a * b }.toList()}")
    println("flattened: ${(1..3).asFlow().flatMapConcat { n -> flow { repeat(n) { emit(n) } } }.toList()}")
    println("buffered: ${numbers.take(5_000).buffer(16).map { it.toLong() }.fold(0L) { a, b -> a + b }}")
    val log = mutableListOf<String>()
    numbers.transform { if (it == 4) throw IllegalStateException("four") else emit("n$it") }
        .onCompletion { log += "completed with ${it?.message}" }
        .catch { emit("instead of ${it.message}") }
        .collect { log += it }
    println("errors: $log")
}
