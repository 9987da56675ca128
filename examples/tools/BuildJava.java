import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.StringWriter;
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

import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

import org.antlr.v4.Tool;
import org.teavm.diagnostics.Problem;
import org.teavm.tooling.ConsoleTeaVMToolLog;
import org.teavm.tooling.EmptyTeaVMToolLog;
import org.teavm.tooling.TeaVMTargetType;
import org.teavm.tooling.TeaVMTool;
import org.teavm.vm.TeaVMOptimizationLevel;

/**
 * Compiles Java programs to Wasm with TeaVM, and runs each on the JVM for its expected output. One JVM does them all.
 *
 * Usage: BuildJava SOURCES OUT WORK NAME...
 */
public final class BuildJava {
    private static final String CLASS_PATH = System.getProperty("java.class.path");

    private final Path sources;
    private final Path out;
    private final Path work;
    /** The folder of the compiled NoJavaScript. */
    private final Path host;

    private BuildJava(Path sources, Path out, Path work) throws IOException {
        this.sources = sources;
        this.out = out;
        this.work = work;
        this.host = work.resolve("host");
        javac(host, filesIn(sources.resolve("host"), ".java"));
    }

    public static void main(String[] args) throws Exception {
        BuildJava build = new BuildJava(Path.of(args[0]), Path.of(args[1]), Path.of(args[2]));
        boolean failed = false;
        for (String name : Arrays.asList(args).subList(3, args.length)) {
            long start = System.currentTimeMillis();
            try {
                build.program(name);
                System.err.printf("java/%s: %.1f s%n", name, (System.currentTimeMillis() - start) / 1000.0);
            } catch (Exception e) {
                Throwable cause = e.getCause() != null ? e.getCause() : e;
                System.err.println("java/" + name + ": " + (cause.getMessage() != null ? cause.getMessage() : cause));
                failed = true;
            }
        }
        System.exit(failed ? 1 : 0);
    }

    private void program(String name) throws Exception {
        Path scratch = work.resolve(name);
        deleteTree(scratch);
        Path classes = scratch.resolve("classes");
        List<Path> files = filesIn(sources.resolve(name), ".java");
        files.addAll(filesIn(sources.resolve("shared"), ".java"));
        files.addAll(generateParsers(sources.resolve(name), scratch.resolve("generated")));
        javac(classes, files);
        byte[] expected = runOnJvm(classes);
        Path wasm = compileToWasm(name, classes, scratch.resolve("wasm"));
        Files.createDirectories(out);
        Files.copy(wasm, out.resolve(name + ".wasm"), StandardCopyOption.REPLACE_EXISTING);
        Files.write(out.resolve(name + ".expected"), expected);
        deleteTree(scratch);
    }

    /** Every ANTLR grammar among the sources becomes Java files. */
    private static List<Path> generateParsers(Path folder, Path generated) throws IOException {
        List<Path> grammars = filesIn(folder, ".g4");
        if (grammars.isEmpty()) return List.of();
        List<String> args = new ArrayList<>(List.of("-o", generated.toString(), "-Xexact-output-dir", "-no-listener", "-visitor"));
        grammars.forEach(g -> args.add(g.toString()));
        Tool tool = new Tool(args.toArray(new String[0]));
        tool.processGrammarsOnCommandLine();
        if (tool.getNumErrors() > 0) throw new IllegalStateException("ANTLR rejects the grammar");
        return filesIn(generated, ".java");
    }

    private static void javac(Path classes, List<Path> files) throws IOException {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StringWriter messages = new StringWriter();
        try (StandardJavaFileManager manager = compiler.getStandardFileManager(null, null, StandardCharsets.UTF_8)) {
            List<String> options = List.of("-d", classes.toString(), "-cp", CLASS_PATH, "--release", "17", "-proc:none", "-nowarn");
            Files.createDirectories(classes);
            if (!compiler.getTask(messages, manager, null, options, null, manager.getJavaFileObjectsFromPaths(files)).call())
                throw new IllegalStateException("javac rejects the program\n" + messages);
        }
    }

    private Path compileToWasm(String name, Path classes, Path target) throws Exception {
        TeaVMTool tool = new TeaVMTool();
        tool.setLog(System.getenv("TEAVM_LOG") != null ? new ConsoleTeaVMToolLog(false) : new EmptyTeaVMToolLog());
        tool.setTargetType(TeaVMTargetType.WEBASSEMBLY_GC);
        tool.setMainClass("Main");
        // Null pointers and bad indices become Java exceptions rather than traps.
        tool.setStrict(true);
        tool.setOptimizationLevel(TeaVMOptimizationLevel.ADVANCED);
        tool.setObfuscated(true);
        tool.setDebugInformationGenerated(false);
        tool.getTransformers().add("NoJavaScript");
        tool.setTargetDirectory(target.toFile());
        tool.setTargetFileName(name + ".wasm");

        List<File> classPath = new ArrayList<>(List.of(classes.toFile(), host.toFile()));
        for (String jar : CLASS_PATH.split(File.pathSeparator)) classPath.add(new File(jar));
        tool.setClassPath(classPath);
        // A loader of its own, whose parent is the build's: TeaVM finds its services through the parent.
        try (URLClassLoader loader = new URLClassLoader(new URL[] {url(classes), url(host)}, BuildJava.class.getClassLoader())) {
            tool.setClassLoader(loader);
            tool.generate();
        }
        List<Problem> problems = tool.getProblemProvider().getSevereProblems();
        if (!problems.isEmpty())
            throw new IllegalStateException("TeaVM rejects the program\n"
                    + problems.stream().map(p -> p.getText() + " " + Arrays.toString(p.getParams()) + " at " + p.getLocation())
                            .collect(Collectors.joining("\n")));
        return target.resolve(name + ".wasm");
    }

    private static byte[] runOnJvm(Path classes) throws Exception {
        PrintStream console = System.out, errors = System.err;
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {url(classes)}, BuildJava.class.getClassLoader())) {
            System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
            loader.loadClass("Main").getMethod("run").invoke(null);
        } finally {
            System.out.flush();
            System.setOut(console);
            System.setErr(errors);
        }
        return output.toByteArray();
    }

    private static URL url(Path folder) throws IOException {
        return folder.toUri().toURL();
    }

    private static List<Path> filesIn(Path folder, String ending) throws IOException {
        try (Stream<Path> found = Files.walk(folder)) {
            return found.filter(f -> f.toString().endsWith(ending)).sorted().collect(Collectors.toCollection(ArrayList::new));
        }
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
