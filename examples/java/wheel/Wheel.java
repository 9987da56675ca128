/** Timers by the tick at which they end: a slot for each of the next 65,536 ticks, and in it a list. */
final class Wheel {
    private static final int SLOTS = 1 << 16;

    private final Timer[] slots = new Timer[SLOTS];
    private int now;

    static final class Timer {
        final Main.Connection connection;
        final int slot;
        Timer previous;
        Timer next;

        Timer(Main.Connection connection, int slot) {
            this.connection = connection;
            this.slot = slot;
        }
    }

    /** A timer that ends so many ticks from now: 1 to 65,535. */
    Timer add(Main.Connection connection, int ticks) {
        Timer timer = new Timer(connection, now + ticks & SLOTS - 1);
        timer.next = slots[timer.slot];
        if (timer.next != null) timer.next.previous = timer;
        slots[timer.slot] = timer;
        return timer;
    }

    void remove(Timer timer) {
        if (timer.next != null) timer.next.previous = timer.previous;
        if (timer.previous != null) timer.previous.next = timer.next;
        else slots[timer.slot] = timer.next;
    }

    /** Moves on by one tick: the timers that end now, as a list. */
    Timer tick() {
        now = now + 1 & SLOTS - 1;
        Timer ended = slots[now];
        slots[now] = null;
        return ended;
    }
}
