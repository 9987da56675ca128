fun main() = runToEnd {
    interleaving()
    structure()
    failures()
    channels()
    flows()
    timing()
    sharedState()
    load()
}
