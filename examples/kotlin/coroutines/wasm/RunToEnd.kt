import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.launch

/**
 * Wasm has no runBlocking: nothing may block. What is launched here runs after `main` has returned, when the
 * library's event loop takes over until nothing is left to do.
 */
fun runToEnd(block: suspend CoroutineScope.() -> Unit) {
    CoroutineScope(Dispatchers.Default).launch(block = block)
}
