import host.arguments

fun main() {
    arguments().firstOrNull()?.let { fail(it) }
    order()
    customExceptions()
    throughLambdas()
    fromTheRuntime()
    resources()
    deep(depth = 2_000)
    many(rounds = 200_000)
}
