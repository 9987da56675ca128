data class Person(val name: String, val age: Int, val city: String)

fun sorting() {
    val numbers = Numbers(3)
    val cities = listOf("Lima", "Oslo", "Rome", "Bonn", "Cork")
    val people = List(20_000) {
        Person("p${numbers.below(10_000)}", 18 + numbers.below(70), cities[numbers.below(cities.size)])
    }
    val order = compareBy<Person> { it.city }.thenByDescending { it.age }.thenBy { it.name }
    val sorted = people.sortedWith(order)
    println("first: ${sorted.first()}, last: ${sorted.last()}")
    println("ordered: ${sorted.zipWithNext().all { (a, b) -> order.compare(a, b) <= 0 }}")
    println("mean ages: ${people.groupBy { it.city }.toList().sortedBy { it.first }.map { (c, p) -> "$c ${p.sumOf { it.age } / p.size}" }}")

    // Sorting by one key must keep the order of equal elements.
    val stable = sorted.sortedBy { it.age }.zipWithNext().all { (a, b) -> a.age < b.age || order.compare(a, b) <= 0 || a.city < b.city }
    println("stable: $stable")

    val ints = IntArray(300_000) { numbers.next() }
    ints.sort()
    println("ints: ${ints.first()} ${ints[ints.size / 2]} ${ints.last()}, found at ${ints.toList().binarySearch(ints[777])}")
}
