import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.runBlocking

/** One event loop in one thread, as on Wasm. */
fun runToEnd(block: suspend CoroutineScope.() -> Unit) = runBlocking(block = block)
