/** Makes documents of any size; the same seed makes the same document everywhere. */
class Generator(private var state: Int) {
    private fun below(limit: Int): Int {
        state = state * 1103515245 + 12345
        return (state ushr 8) % limit
    }

    fun document(records: Int): Json = Json.Object(
        linkedMapOf(
            "version" to Json.Number("1"),
            "records" to Json.Array(List(records) { record(it) }),
        ),
    )

    private fun record(id: Int): Json = Json.Object(
        linkedMapOf(
            "id" to Json.Number(id.toString()),
            "name" to Json.Text(word() + " " + word()),
            "active" to Json.Bool(below(2) == 0),
            "score" to Json.Number("${below(1000)}.${below(1000)}e${below(9) - 4}"),
            "tags" to Json.Array(List(below(4)) { Json.Text(word()) }),
            "note" to if (below(3) == 0) Json.Null else Json.Text("line \"${word()}\"\n\tback\\slash é 🎵 \u0001"),
            "nested" to nested(below(5)),
        ),
    )

    private fun nested(depth: Int): Json =
        if (depth == 0) Json.Array(emptyList()) else Json.Object(linkedMapOf(word() to nested(depth - 1), "depth" to Json.Number("$depth")))

    private fun word(): String = buildString {
        repeat(3 + below(6)) { append("aeioukmnrstl"[below(12)]) }
    }
}
