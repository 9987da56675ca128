/** An editor's text: an array with a wide gap where the cursor is. Characters move from one side of it to the other. */
class GapBuffer(text: String) {
    private var characters = CharArray(2 * text.length + 1_024)
    private var gapStart = text.length
    private var gapEnd = characters.size

    init {
        for (i in text.indices) characters[i] = text[i]
    }

    fun moveTo(place: Int) {
        if (place < gapStart) {
            val count = gapStart - place
            characters.copyInto(characters, gapEnd - count, place, gapStart)
            gapStart -= count
            gapEnd -= count
        } else {
            val count = place - gapStart
            characters.copyInto(characters, gapStart, gapEnd, gapEnd + count)
            gapStart += count
            gapEnd += count
        }
    }

    /** Removes so many characters behind the cursor. */
    fun remove(count: Int) {
        gapEnd += count
    }

    fun insert(text: String) {
        if (gapEnd - gapStart < text.length) widen()
        for (character in text) characters[gapStart++] = character
    }

    private fun widen() {
        val wider = characters.copyOf(2 * characters.size)
        val newEnd = wider.size - (characters.size - gapEnd)
        characters.copyInto(wider, newEnd, gapEnd, characters.size)
        gapEnd = newEnd
        characters = wider
    }

    fun text(): String =
        characters.concatToString(0, gapStart) + characters.concatToString(gapEnd, characters.size)
}
