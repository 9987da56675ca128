import host.arguments

/** Hashes a buffer again and again, each time with the last hash at its start. */
fun main() {
    println(hex(Sha256().hash("abc".encodeToByteArray())))
    println(hex(Sha256().hash(ByteArray(0))))
    val rounds = arguments().firstOrNull()?.toInt() ?: 1_200
    val buffer = ByteArray(64 * 1024) { (it * 7).toByte() }
    repeat(rounds) { Sha256().hash(buffer).copyInto(buffer) }
    println("after $rounds rounds over 64 KiB: ${hex(Sha256().hash(buffer))}")
}

private fun hex(bytes: ByteArray): String =
    bytes.joinToString("") { (it.toInt() and 255).toString(16).padStart(2, '0') }
