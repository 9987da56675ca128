fun numbers() {
    println("ints: ${Int.MAX_VALUE} ${Int.MIN_VALUE} ${Long.MIN_VALUE} ${ULong.MAX_VALUE} ${(-1).toUInt()} ${(-5).mod(3)}")
    println("radix: ${255.toString(2)} ${255.toString(16)} ${"zz".toInt(36)} ${"-7f".toInt(16)} ${12345.toString(36)}")
    println("parsed: ${"42".toInt()} ${"-9000000000".toLong()} ${"4x2".toIntOrNull()} ${"".toIntOrNull()} ${"99999999999".toIntOrNull()}")
    println("doubles: ${0.1 + 0.2} ${1.0 / 3} ${-2.5} ${0.0} ${1e6} ${123456.789} ${0.5f}")
    println("fixed: ${fixed(3.14159265, 4)} ${fixed(-0.005, 2)} ${fixed(2.0 / 3, 9)} ${fixed(1234567.891, 1)}")
    println("special: ${0.0 / 0.0} ${1.0 / 0} ${-1.0 / 0} ${"1e3".toDouble()} ${"-.5".toDouble()} ${"1.5x".toDoubleOrNull()}")
    var digits = 0
    for (i in 0 until 100_000) digits += (i * 7919L * i).toString().length + i.toString(16).length
    println("digits: $digits")
}

/** Decimal places without the platform's formatter, which Kotlin has only on the JVM. */
private fun fixed(value: Double, places: Int): String {
    var scale = 1L
    repeat(places) { scale *= 10 }
    val scaled = kotlin.math.round(kotlin.math.abs(value) * scale).toLong()
    val sign = if (value < 0 && scaled != 0L) "-" else ""
    return sign + scaled / scale + "." + (scaled % scale).toString().padStart(places, '0')
}
