import org.teavm.interop.Export;

public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        System.out.println("Hello from Java!");
        System.out.println("¡Hola! Γειά σου! こんにちは 🎼");
    }
}
