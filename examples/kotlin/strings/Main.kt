fun main() {
    building()
    splitting()
    unicode()
    numbers()
    patterns()
    caesarAndPalindromes()
    levenshtein()
}
