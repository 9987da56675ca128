fun main() {
    println("Hello from Kotlin!")
    println("¡Hola! Γειά σου! こんにちは 🎼")
}
