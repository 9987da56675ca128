// What the examples ask of the system, on the JVM that produces the expected output.
package host

/** The build runs a program on the JVM without arguments, except where it needs a directory. */
fun arguments(): List<String> = System.getProperty("example.arguments", "").split(' ').filter { it.isNotEmpty() }
