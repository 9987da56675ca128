open class BankException(message: String, cause: Throwable? = null) : Exception(message, cause)
class InsufficientFunds(val missing: Int) : BankException("$missing missing")
class AccountLocked(val owner: String) : BankException("the account of $owner is locked")

private class Account(val owner: String, var balance: Int, val locked: Boolean = false) {
    fun withdraw(amount: Int) {
        require(amount > 0) { "amount must be positive, not $amount" }
        if (locked) throw AccountLocked(owner)
        if (amount > balance) throw InsufficientFunds(amount - balance)
        balance -= amount
    }
}

private fun transfer(from: Account, to: Account, amount: Int) {
    val before = from.balance
    try {
        from.withdraw(amount)
        if (to.locked) throw AccountLocked(to.owner)
        to.balance += amount
    } catch (e: BankException) {
        from.balance = before
        throw BankException("transfer of $amount failed", e)
    }
}

fun customExceptions() {
    val ada = Account("Ada", 100)
    val bob = Account("Bob", 20)
    val eve = Account("Eve", 500, locked = true)
    for ((from, to, amount) in listOf(Triple(ada, bob, 30), Triple(bob, ada, 80), Triple(ada, eve, 10), Triple(eve, ada, 1), Triple(ada, bob, -5))) {
        val outcome = try {
            transfer(from, to, amount)
            "done"
        } catch (e: BankException) {
            val reason = when (val cause = e.cause) {
                is InsufficientFunds -> "short of ${cause.missing}"
                is AccountLocked -> "locked: ${cause.owner}"
                else -> "unknown"
            }
            "${e.message} ($reason)"
        } catch (e: IllegalArgumentException) {
            "refused: ${e.message}"
        }
        println("${from.owner} to ${to.owner}: $outcome; balances ${ada.balance} ${bob.balance} ${eve.balance}")
    }
    val failure = BankException("main", InsufficientFunds(1)).apply { addSuppressed(AccountLocked("Zoe")) }
    println("cause: ${failure.cause?.message}, suppressed: ${failure.suppressedExceptions.map { it.message }}")
}
