import org.teavm.interop.Export;

/**
 * Connections and their timeouts in a wheel of many slots, of which most are empty at any time: sparse arrays of references
 * that live long, and short-lived timers.
 */
public final class Main {
    private Main() {
    }

    @Export(name = "run")
    public static void run() {
        sized(20_000);
    }

    /** The work of so many ticks of the clock. */
    @Export(name = "sized")
    public static void sized(int ticks) {
        Server[] servers = new Server[8];
        for (int i = 0; i < servers.length; i++) servers[i] = new Server(new Numbers(30 + i));
        for (int tick = 1; tick <= ticks; tick++) {
            // One after the other, each by several ticks at a time: its wheel is in the cache by then.
            Server server = servers[tick / 64 % servers.length];
            server.tick();
        }
        long opened = 0;
        long expired = 0;
        long answered = 0;
        int open = 0;
        long sum = 0;
        for (Server server : servers) {
            opened += server.opened;
            expired += server.expired;
            answered += server.answered;
            open += server.open();
            sum = 31 * sum + server.checksum;
        }
        System.out.println(ticks + " ticks: " + opened + " connections, " + answered + " answers, " + expired + " timeouts");
        System.out.println("open at the end: " + open + ", checksum " + sum);
    }

    /** A connection that waits for an answer. */
    static final class Connection {
        final int number;
        final byte[] request;
        Wheel.Timer timer;

        Connection(int number, byte[] request) {
            this.number = number;
            this.request = request;
        }
    }

    /** Connections by their number in a table that is never full, and a wheel for their timeouts. */
    static final class Server {
        private static final int CONNECTIONS = 1 << 14;

        private final Numbers random;
        private final Connection[] table = new Connection[CONNECTIONS];
        private final Wheel wheel = new Wheel();
        private int number;
        long opened;
        long expired;
        long answered;
        long checksum;

        Server(Numbers random) {
            this.random = random;
        }

        void tick() {
            for (int i = random.nextInt(4); i > 0; i--) open(random.nextInt(CONNECTIONS / 16));
            for (int i = 0; i < 8; i++) answer(random.nextInt(CONNECTIONS / 16));
            for (Wheel.Timer timer = wheel.tick(); timer != null; timer = timer.next) {
                expired++;
                checksum = 31 * checksum + timer.connection.number;
                // By then its place may have another.
                if (table[slot(timer.connection.number)] == timer.connection) table[slot(timer.connection.number)] = null;
            }
        }

        private void open(int slot) {
            answer(slot);
            Connection connection = new Connection(slot + (number++ << 14), new byte[16 + random.nextInt(100)]);
            connection.request[number & 15] = (byte) number;
            connection.timer = wheel.add(connection, 1 + random.nextInt(random.nextInt(10) == 0 ? 60_000 : 500));
            table[slot(connection.number)] = connection;
            opened++;
        }

        private void answer(int slot) {
            Connection connection = table[slot];
            if (connection == null) return;
            wheel.remove(connection.timer);
            table[slot] = null;
            answered++;
            checksum = 31 * checksum + connection.request.length;
        }

        private static int slot(int number) {
            return number & CONNECTIONS - 1;
        }

        int open() {
            int open = 0;
            for (Connection connection : table) if (connection != null) open++;
            return open;
        }
    }
}
