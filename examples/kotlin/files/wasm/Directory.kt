// Directories by way of WASI preview 1: the host opens some before the program starts and hands out their numbers.
@file:OptIn(UnsafeWasmMemoryApi::class, ExperimentalWasmInterop::class)

import host.bytesOf
import host.check
import host.int
import host.stringTable
import host.utf8
import kotlin.wasm.ExperimentalWasmInterop
import kotlin.wasm.WasmImport
import kotlin.wasm.unsafe.UnsafeWasmMemoryApi
import kotlin.wasm.unsafe.withScopedMemoryAllocator

@WasmImport("wasi_snapshot_preview1", "environ_sizes_get")
private external fun environSizesGet(count: Int, bytes: Int): Int

@WasmImport("wasi_snapshot_preview1", "environ_get")
private external fun environGet(pointers: Int, bytes: Int): Int

@WasmImport("wasi_snapshot_preview1", "fd_prestat_get")
private external fun fdPrestatGet(fd: Int, prestat: Int): Int

@WasmImport("wasi_snapshot_preview1", "path_open")
private external fun pathOpen(
    dirFd: Int, lookup: Int, path: Int, pathLength: Int, openFlags: Int,
    rights: Long, inheritedRights: Long, fdFlags: Int, fd: Int,
): Int

@WasmImport("wasi_snapshot_preview1", "fd_read")
private external fun fdRead(fd: Int, vectors: Int, count: Int, read: Int): Int

@WasmImport("wasi_snapshot_preview1", "fd_readdir")
private external fun fdReaddir(fd: Int, buffer: Int, size: Int, cookie: Long, used: Int): Int

@WasmImport("wasi_snapshot_preview1", "fd_close")
private external fun fdClose(fd: Int): Int

private const val FIRST_PREOPEN = 3
private const val OPEN_DIRECTORY = 2
private const val RIGHT_READ = 1L shl 1
private const val RIGHT_READDIR = 1L shl 14

fun environment(name: String): String? =
    stringTable(::environSizesGet, ::environGet).firstOrNull { it.startsWith("$name=") }?.substringAfter('=')

/** The first directory that the host has given, or null. */
fun givenDirectory(): Directory? = withScopedMemoryAllocator { memory ->
    if (fdPrestatGet(FIRST_PREOPEN, memory.allocate(8).int) == 0) Directory(FIRST_PREOPEN) else null
}

class Directory(private val fd: Int) {
    /** The names of the entries, without those of the directory itself and its parent. */
    fun list(): List<String> {
        val own = open(".", OPEN_DIRECTORY, RIGHT_READDIR)
        try {
            return withScopedMemoryAllocator { memory ->
                val size = 64 * 1024
                val buffer = memory.allocate(size)
                val used = memory.allocate(4)
                check(fdReaddir(own, buffer.int, size, 0, used.int))
                val end = used.loadInt()
                buildList {
                    var at = 0
                    // An entry is a cookie, an inode, the length of the name and the kind of file, then the name.
                    while (at + 24 <= end) {
                        val length = (buffer + at + 16).loadInt()
                        add(utf8(buffer + at + 24, length))
                        at += 24 + length
                    }
                } - listOf(".", "..")
            }
        } finally {
            check(fdClose(own))
        }
    }

    fun read(name: String): ByteArray {
        val file = open(name, 0, RIGHT_READ)
        try {
            return withScopedMemoryAllocator { memory ->
                val size = 4096
                val buffer = memory.allocate(size)
                val vector = memory.allocate(8)
                val read = memory.allocate(4)
                vector.storeInt(buffer.int)
                (vector + 4).storeInt(size)
                var bytes = ByteArray(0)
                while (true) {
                    check(fdRead(file, vector.int, 1, read.int))
                    val count = read.loadInt()
                    if (count == 0) break
                    bytes += ByteArray(count) { (buffer + it).loadByte() }
                }
                bytes
            }
        } finally {
            check(fdClose(file))
        }
    }

    private fun open(name: String, flags: Int, rights: Long): Int = withScopedMemoryAllocator { memory ->
        val (path, length) = memory.bytesOf(name)
        val opened = memory.allocate(4)
        val errno = pathOpen(fd, 1, path.int, length, flags, rights, 0, 0, opened.int)
        if (errno != 0) throw NoSuchElementException("cannot open $name")
        opened.loadInt()
    }
}
