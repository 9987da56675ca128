// The same on the JVM: the build names the directory in the arguments.
import host.arguments
import java.nio.file.Files
import java.nio.file.NoSuchFileException
import java.nio.file.Path

fun environment(name: String): String? = System.getenv(name)

fun givenDirectory(): Directory? = arguments().firstOrNull()?.let { Directory(Path.of(it)) }

class Directory(private val path: Path) {
    fun list(): List<String> = Files.list(path).use { entries -> entries.map { it.fileName.toString() }.toList() }

    fun read(name: String): ByteArray = try {
        Files.readAllBytes(path.resolve(name))
    } catch (e: NoSuchFileException) {
        throw NoSuchElementException("cannot open $name")
    }
}
