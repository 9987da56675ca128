//! A line for the machine, and one for each collection.

use std::io::Write;
use std::time::Duration;

use legato_heap::{CollectionKind, GcEvent, GcObserver, GcStop, MachineNotes, StopKind};

use crate::mmu::Window;
use crate::page::units::percent;

/// The window of a cycle's utilisation, in milliseconds.
const WINDOW_MS: u64 = 10;

/// Writes `gc heap: ` and what the heap knows of its machine ([`MachineNotes`]), then one line per collection: `gc `
/// and the event's [`Display`](std::fmt::Display). Where slices of a cycle were among its stops, with what was left to
/// the program in the worst 10 ms of it, other stops counted too, but for idle ones.
///
/// ```text
/// gc heap: max 2097152K (memory limit: physical memory 24684124K)
/// gc #12 nursery (nursery) at 0.345 s: 36864K -> 33120K (limit 65536K, committed 45056K), promoted 352K, zeroing 0.120 ms, pause 0.834 ms
/// gc #13 cycle (limit) at 0.350 s: 65536K -> 40960K (limit 81920K, committed 73728K), promoted 0K, zeroing 0.000 ms, pause 35.200 ms in 118 slices over 121.750 ms, longest 0.312 ms, shrunk gaps 0, deadline met, utilisation 70.8 % in the worst 10 ms
/// ```
///
/// Each line is one write, so that lines of several threads do not mix. Where writing fails, the line is lost: a
/// program must not end because nobody reads its log.
#[derive(Debug)]
pub struct GcLog<W> {
    writer: W,
    line: Vec<u8>,
    /// The stops of the cycle under way.
    window: Window,
    in_cycle: bool,
}

impl<W: Write> GcLog<W> {
    /// A log to `writer`.
    pub fn new(writer: W) -> GcLog<W> {
        let window = Window::new(Duration::from_millis(WINDOW_MS));
        GcLog { writer, line: Vec::new(), window, in_cycle: false }
    }
}

impl<W: Write> GcLog<W> {
    /// Writes the line, with its end.
    fn flush(&mut self) {
        self.line.push(b'\n');
        let _ = self.writer.write_all(&self.line).and_then(|()| self.writer.flush());
    }
}

impl<W: Write + Send> GcObserver for GcLog<W> {
    fn machine(&mut self, notes: &MachineNotes) {
        self.line.clear();
        // Writing to memory does not fail.
        let _ = write!(self.line, "gc heap: {notes}");
        self.flush();
    }

    fn event(&mut self, event: &GcEvent) {
        self.line.clear();
        // Writing to memory does not fail.
        let _ = write!(self.line, "gc {event}");
        if event.cycle.is_some() {
            let utilisation = percent(self.window.utilisation());
            let _ = write!(self.line, ", utilisation {utilisation} in the worst {WINDOW_MS} ms");
        }
        self.in_cycle &= event.kind == CollectionKind::Nursery;
        self.flush();
    }

    fn stop(&mut self, stop: &GcStop) {
        if !self.in_cycle && stop.kind != StopKind::Nursery {
            self.in_cycle = true;
            self.window.restart();
        }
        if stop.kind.is_pause() {
            self.window.push(stop.start, stop.wall);
        }
    }
}
