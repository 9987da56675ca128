private class Broken(message: String, cause: Throwable?) : Exception(message, cause)

private class Mute : Exception() {
    override val message: String get() = throw IllegalStateException("not even this")
}

private class Tap(val name: String) : AutoCloseable {
    override fun close() = throw IllegalStateException("$name cannot be closed")
}

/** Exceptions that nobody catches: for a look at what the host says of them. */
fun fail(how: String) {
    when (how) {
        "causes" -> throw (1..20).fold(null as Broken?) { cause, level -> Broken("level $level", cause) }!!
        "suppressed" -> Tap("hot").use { Tap("cold").use { throw Broken("a leak", null) } }
        "mute" -> throw Mute()
        else -> throw IllegalArgumentException(how)
    }
}
