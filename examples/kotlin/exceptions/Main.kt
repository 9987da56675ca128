fun main() {
    order()
    customExceptions()
    throughLambdas()
    fromTheRuntime()
    resources()
    deep(depth = 2_000)
    many(rounds = 200_000)
}
