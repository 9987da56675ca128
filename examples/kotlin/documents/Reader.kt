/** Reads elements and text, without attributes. */
class Reader(private val document: Document) {
    private var place = 0

    fun read(source: String) {
        place = 0
        element(source, -1)
    }

    private fun element(source: String, parent: Int) {
        val end = source.indexOf('>', place)
        val node = document.element(parent, source.substring(place + 1, end))
        place = end + 1
        while (!source.startsWith("</", place)) {
            if (source[place] == '<') {
                element(source, node)
            } else {
                val next = source.indexOf('<', place)
                document.text(node, source, place, next)
                place = next
            }
        }
        place = source.indexOf('>', place) + 1
    }
}
