private val trace = StringBuilder()

private fun step(name: String) {
    trace.append(name).append(' ')
}

private fun showTrace(title: String) {
    println("$title: ${trace.trim()}")
    trace.clear()
}

/** Which parts of nested try, catch and finally run, and in which order. */
fun order() {
    for (failing in 0..4) {
        val result = try {
            step("outer")
            try {
                step("inner")
                if (failing == 1) throw IllegalArgumentException("one")
                if (failing == 2) throw IllegalStateException("two")
                step("unharmed")
                "value"
            } catch (e: IllegalArgumentException) {
                step("caught-${e.message}")
                if (failing == 1) "from catch" else "never"
            } finally {
                step("inner-finally")
                if (failing == 3) throw NoSuchElementException("from finally")
            }
        } catch (e: RuntimeException) {
            step("outer-caught-${e.message}")
            "from outer catch"
        } finally {
            step("outer-finally")
        }
        showTrace("$failing -> $result")
    }
    println("return in finally order: ${earlyReturn(true)} ${earlyReturn(false)}")
    showTrace("early")
    loopExits()
    showTrace("loop")
}

private fun earlyReturn(early: Boolean): String {
    try {
        if (early) return "early"
        step("late")
    } finally {
        step("finally")
    }
    return "late"
}

private fun loopExits() {
    for (i in 0..5) {
        try {
            if (i == 1) continue
            if (i == 4) break
            step("$i")
        } finally {
            step("f$i")
        }
    }
}
