import host.arguments
import kotlin.random.Random

/** Makes up a text line by line, takes it apart again and counts its words: strings that live for a moment. */
fun main() {
    val lines = arguments().firstOrNull()?.toInt() ?: 3_000
    val author = Author(Random(7))
    val index = Index()
    repeat(lines) { number -> index.read(number, author.line()) }
    index.report()
}

/** Writes sentences in a vocabulary of invented words, of which the first are the most frequent. */
class Author(private val random: Random) {
    private val vocabulary = List(2_000) { word() }

    private fun word(): String {
        val word = StringBuilder()
        repeat(1 + random.nextInt(4)) {
            word.append(CONSONANTS[random.nextInt(CONSONANTS.length)]).append(VOWELS[random.nextInt(VOWELS.length)])
        }
        return word.toString()
    }

    fun line(): String {
        val words = List(6 + random.nextInt(10)) {
            // The smaller of two numbers: small ones are more frequent.
            val word = vocabulary[minOf(random.nextInt(vocabulary.size), random.nextInt(vocabulary.size))]
            if (random.nextInt(12) == 0) word.replaceFirstChar { it.uppercaseChar() } else word
        }
        return words.joinToString(" ", postfix = ".") { if (random.nextInt(9) == 0) "$it," else it }
    }

    private companion object {
        const val CONSONANTS = "bcdfghklmnprstvwz"
        const val VOWELS = "aeiouäöü"
    }
}

class Index {
    private val counts = HashMap<String, Int>()
    private val lastLines = HashMap<String, ArrayDeque<Int>>()
    private val pairs = HashMap<String, Int>()
    private var letters = 0L
    private var palindromes = 0

    fun read(number: Int, line: String) {
        val words = line.split(' ').map { it.trimEnd(',', '.').lowercase() }
        for (word in words) {
            counts[word] = (counts[word] ?: 0) + 1
            letters += word.length
            if (word.length > 2 && word == word.reversed()) palindromes++
            val places = lastLines.getOrPut(word) { ArrayDeque() }
            places.addLast(number)
            if (places.size > 8) places.removeFirst()
        }
        for ((a, b) in words.zipWithNext()) {
            val pair = "${a.take(2)}-${b.take(2)}"
            pairs[pair] = (pairs[pair] ?: 0) + 1
        }
    }

    fun report() {
        println("${counts.values.sum()} words, ${counts.size} different, $letters letters, $palindromes palindromes")
        for ((word, count) in frequent(counts)) println("$word: $count times, at last in lines ${lastLines[word]?.joinToString()}")
        println(frequent(pairs).joinToString { (pair, count) -> "$pair $count" })
        println("once: ${counts.filterValues { it == 1 }.keys.sorted().take(12).joinToString(" ")}")
    }

    private fun frequent(counts: Map<String, Int>) =
        counts.entries.sortedWith(compareByDescending<Map.Entry<String, Int>> { it.value }.thenBy { it.key })
            .take(5).map { it.key to it.value }
}
