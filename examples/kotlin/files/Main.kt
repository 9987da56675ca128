/** Needs a directory from its host; lists it and counts the words of its text files. */
fun main() {
    println("LEGATO_GREETING is ${environment("LEGATO_GREETING") ?: "not set"}")
    val directory = givenDirectory()
    if (directory == null) {
        println("No directory was given.")
        return
    }
    for (name in directory.list().sorted()) {
        val bytes = directory.read(name)
        val text = bytes.decodeToString()
        val words = text.split(' ', '\n').filter { it.isNotEmpty() }
        println("$name: ${bytes.size} bytes, ${text.lines().size - 1} lines, ${words.size} words, longest '${words.maxByOrNull { it.length } ?: ""}'")
    }
    try {
        directory.read("no-such-file")
    } catch (e: NoSuchElementException) {
        println("expected: ${e.message}")
    }
}
