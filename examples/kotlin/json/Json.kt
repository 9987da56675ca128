sealed interface Json {
    data object Null : Json
    data class Bool(val value: Boolean) : Json
    /** Numbers stay text: what is read is what is written, digit for digit. */
    data class Number(val text: String) : Json
    data class Text(val value: String) : Json
    data class Array(val items: List<Json>) : Json
    data class Object(val members: Map<String, Json>) : Json
}

class JsonException(message: String, val position: Int) : Exception("$message at $position")
