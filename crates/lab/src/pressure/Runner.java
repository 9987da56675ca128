import com.sun.management.GarbageCollectionNotificationInfo;
import com.sun.management.OperatingSystemMXBean;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import javax.management.NotificationEmitter;
import javax.management.openmbean.CompositeData;

/**
 * Runs an example on the JVM as the lab's other workers do in their engines: java Runner [SIZE]
 *
 * Prints the same JSON document: the time, what the program printed, the process's peak resident memory, collections.
 */
public final class Runner {
    private static final List<String> PAUSES = new CopyOnWriteArrayList<>();

    private Runner() {
    }

    public static void main(String[] arguments) throws Exception {
        List<GarbageCollectorMXBean> collectors = ManagementFactory.getGarbageCollectorMXBeans();
        long begin = ManagementFactory.getRuntimeMXBean().getUptime();
        for (GarbageCollectorMXBean collector : collectors) {
            ((NotificationEmitter) collector).addNotificationListener((notification, nothing) -> {
                var event = GarbageCollectionNotificationInfo.from((CompositeData) notification.getUserData());
                String kind = event.getGcAction().contains("minor") ? "nursery" : "full";
                double at = (event.getGcInfo().getStartTime() - begin) / 1e3;
                PAUSES.add(String.format(Locale.ROOT, "{\"kind\":\"%s\",\"at\":%.3f,\"seconds\":%.3f}", kind, at,
                        event.getGcInfo().getDuration() / 1e3));
            }, null, null);
        }
        PrintStream console = System.out;
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long user = system.getProcessCpuTime();
        long start = System.nanoTime();
        if (arguments.length > 0) Main.sized(Integer.parseInt(arguments[0]));
        else Main.run();
        double wall = (System.nanoTime() - start) / 1e9;
        double used = (system.getProcessCpuTime() - user) / 1e9;
        // Listeners are told by another thread.
        for (int i = 0; i < 100 && PAUSES.size() < count(collectors); i++) Thread.sleep(10);
        console.printf(Locale.ROOT, "{\"compilation\":null,\"runs\":[{\"instantiation\":{\"wall\":0.0,\"user\":0.0},"
                + "\"run\":{\"wall\":%.6f,\"user\":%.6f}}],\"output\":%s,\"peak_resident\":%d,\"pauses\":[%s],"
                + "\"live\":null}%n", wall, used, quoted(output.toString(StandardCharsets.UTF_8)), peakResident(),
                String.join(",", PAUSES));
    }

    private static long count(List<GarbageCollectorMXBean> collectors) {
        return collectors.stream().mapToLong(GarbageCollectorMXBean::getCollectionCount).sum();
    }

    private static long peakResident() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
        }
        return 0;
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char unit : text.toCharArray()) {
            if (unit < ' ' || unit == '"' || unit == '\\') quoted.append(String.format("\\u%04x", (int) unit));
            else quoted.append(unit);
        }
        return quoted.append('"').toString();
    }
}
