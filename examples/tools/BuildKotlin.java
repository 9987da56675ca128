import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.jetbrains.kotlin.cli.common.CLICompiler;
import org.jetbrains.kotlin.cli.common.ExitCode;
import org.jetbrains.kotlin.cli.js.KotlinWasmCompiler;
import org.jetbrains.kotlin.cli.jvm.K2JVMCompiler;

/**
 * Compiles Kotlin programs to Wasm, and runs each on the JVM for its expected output.
 * One JVM does them all: a cold compiler takes twenty seconds a program, a warm one a few.
 *
 * Usage: BuildKotlin SOURCES OUT WORK NAME...
 */
public final class BuildKotlin {
    private final Path sources;
    private final Path out;
    private final Path work;
    private final String klibs;
    private final String jars;

    private BuildKotlin(Path sources, Path out, Path work) {
        this.sources = sources;
        this.out = out;
        this.work = work;
        String[] path = System.getProperty("java.class.path").split(java.io.File.pathSeparator);
        // The Wasm compiler splits a list of libraries like a class path.
        this.klibs = Arrays.stream(path).filter(p -> p.endsWith(".klib")).collect(Collectors.joining(java.io.File.pathSeparator));
        this.jars = Arrays.stream(path).filter(p -> p.endsWith(".jar")).collect(Collectors.joining(java.io.File.pathSeparator));
    }

    public static void main(String[] args) throws Exception {
        // Keeps the compiler's own set-up from one program to the next.
        System.setProperty("kotlin.environment.keepalive", "true");
        BuildKotlin build = new BuildKotlin(Path.of(args[0]), Path.of(args[1]), Path.of(args[2]));
        List<String> failed = new ArrayList<>();
        for (String name : Arrays.asList(args).subList(3, args.length)) {
            long start = System.currentTimeMillis();
            try {
                build.program(name);
                System.err.printf("kotlin/%s: %.1f s%n", name, (System.currentTimeMillis() - start) / 1000.0);
            } catch (Exception e) {
                System.err.println("kotlin/" + name + ": " + e.getMessage());
                failed.add(name);
            }
        }
        System.exit(failed.isEmpty() ? 0 : 1);
    }

    private void program(String name) throws Exception {
        Path scratch = work.resolve(name);
        deleteTree(scratch);
        Files.createDirectories(scratch);
        Files.createDirectories(out);
        Path wasm = compileToWasm(name, scratch);
        byte[] expected = runOnJvm(name, compileToJvm(name, scratch));
        Files.copy(wasm, out.resolve(name + ".wasm"), StandardCopyOption.REPLACE_EXISTING);
        Files.write(out.resolve(name + ".expected"), expected);
        deleteTree(scratch);
    }

    private Path compileToWasm(String name, Path scratch) throws IOException {
        List<String> common = new ArrayList<>(List.of("-Xwasm", "-Xwasm-target=wasm-wasi", "-libraries", klibs));
        Path flags = sources.resolve(name).resolve("compiler-flags");
        if (Files.exists(flags)) common.addAll(Files.readAllLines(flags));

        List<String> toKlib = new ArrayList<>(common);
        toKlib.addAll(List.of("-ir-output-name", name, "-Xir-produce-klib-file", "-ir-output-dir", scratch.resolve("klib").toString()));
        toKlib.addAll(sourceFiles(name, "wasm"));
        call(new KotlinWasmCompiler(), toKlib);

        List<String> toWasm = new ArrayList<>(common);
        toWasm.addAll(List.of("-ir-output-name", name, "-Xir-produce-js", "-Xir-dce",
                "-Xinclude=" + scratch.resolve("klib").resolve(name + ".klib"), "-ir-output-dir", scratch.toString()));
        call(new KotlinWasmCompiler(), toWasm);
        return scratch.resolve(name + ".wasm");
    }

    private Path compileToJvm(String name, Path scratch) throws IOException {
        Path classes = scratch.resolve("classes");
        List<String> args = new ArrayList<>(List.of("-no-stdlib", "-no-reflect", "-classpath", jars, "-d", classes.toString()));
        args.addAll(sourceFiles(name, "jvm"));
        call(new K2JVMCompiler(), args);
        return classes;
    }

    /** A program's common files, and what is written for the platform: its own part and the one that all share. */
    private List<String> sourceFiles(String name, String platform) throws IOException {
        Path program = sources.resolve(name);
        List<String> files = new ArrayList<>();
        for (Path folder : List.of(program, program.resolve(platform), sources.resolve("host").resolve(platform))) {
            if (!Files.exists(folder)) continue;
            try (Stream<Path> found = Files.list(folder)) {
                found.filter(f -> f.toString().endsWith(".kt")).sorted().forEach(f -> files.add(f.toString()));
            }
        }
        return files;
    }

    private static void call(CLICompiler<?> compiler, List<String> args) {
        // Messages are shown only for a failed compilation: the compiler warns about its own experimental flags.
        ByteArrayOutputStream messages = new ByteArrayOutputStream();
        ExitCode code = compiler.exec(new PrintStream(messages, true, StandardCharsets.UTF_8), args.toArray(new String[0]));
        if (code != ExitCode.OK)
            throw new IllegalStateException("the Kotlin compiler says " + code + "\n" + messages.toString(StandardCharsets.UTF_8));
    }

    private byte[] runOnJvm(String name, Path classes) throws Exception {
        Path data = sources.resolve(name).resolve("data");
        System.setProperty("example.arguments", Files.exists(data) ? data.toString() : "");
        PrintStream console = System.out;
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {classes.toUri().toURL()}, BuildKotlin.class.getClassLoader())) {
            System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
            loader.loadClass("MainKt").getMethod("main").invoke(null);
        } finally {
            System.out.flush();
            System.setOut(console);
        }
        return output.toByteArray();
    }

    private static void deleteTree(Path root) throws IOException {
        if (!Files.exists(root)) return;
        List<Path> paths;
        try (Stream<Path> found = Files.walk(root)) {
            paths = found.sorted(Comparator.reverseOrder()).collect(Collectors.toList());
        }
        for (Path p : paths) Files.delete(p);
    }
}
