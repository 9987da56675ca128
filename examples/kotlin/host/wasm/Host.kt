// What the examples ask of the system, in terms of WASI preview 1.
@file:OptIn(UnsafeWasmMemoryApi::class, ExperimentalWasmInterop::class)

package host

import kotlin.wasm.ExperimentalWasmInterop
import kotlin.wasm.WasmImport
import kotlin.wasm.unsafe.MemoryAllocator
import kotlin.wasm.unsafe.Pointer
import kotlin.wasm.unsafe.UnsafeWasmMemoryApi
import kotlin.wasm.unsafe.withScopedMemoryAllocator

@WasmImport("wasi_snapshot_preview1", "args_sizes_get")
private external fun argsSizesGet(count: Int, bytes: Int): Int

@WasmImport("wasi_snapshot_preview1", "args_get")
private external fun argsGet(pointers: Int, bytes: Int): Int

/** The command line without the program's own name. */
fun arguments(): List<String> = stringTable(::argsSizesGet, ::argsGet).drop(1)

/** Arguments and environment have the same form: a table of pointers into a buffer of zero-terminated strings. */
internal fun stringTable(sizes: (Int, Int) -> Int, get: (Int, Int) -> Int): List<String> =
    withScopedMemoryAllocator { memory ->
        val countAddress = memory.allocate(4)
        val bytesAddress = memory.allocate(4)
        check(sizes(countAddress.int, bytesAddress.int))
        val count = countAddress.loadInt()
        val pointers = memory.allocate(maxOf(4 * count, 4))
        val bytes = memory.allocate(maxOf(bytesAddress.loadInt(), 1))
        check(get(pointers.int, bytes.int))
        List(count) { zeroTerminated(Pointer((pointers + 4 * it).loadInt().toUInt())) }
    }

internal fun check(errno: Int) {
    if (errno != 0) throw IllegalStateException("WASI error $errno")
}

internal val Pointer.int: Int get() = address.toInt()

internal fun zeroTerminated(start: Pointer): String {
    var length = 0
    while ((start + length).loadByte() != 0.toByte()) length++
    return utf8(start, length)
}

internal fun utf8(start: Pointer, length: Int): String =
    ByteArray(length) { (start + it).loadByte() }.decodeToString()

internal fun MemoryAllocator.bytesOf(text: String): Pair<Pointer, Int> {
    val bytes = text.encodeToByteArray()
    val address = allocate(maxOf(bytes.size, 1))
    for (i in bytes.indices) (address + i).storeByte(bytes[i])
    return address to bytes.size
}
