//! A line for each collection.

use std::io::Write;

use legato_heap::{GcEvent, GcObserver};

/// Writes one line per collection: `gc ` and the event's [`Display`](std::fmt::Display).
///
/// ```text
/// gc #12 nursery (nursery) at 0.345 s: 36864K -> 33120K (limit 65536K, committed 45056K), promoted 352K, zeroing 0.120 ms, pause 0.834 ms
/// ```
///
/// Each line is one write, so that lines of several threads do not mix. Where writing fails, the line is lost: a
/// program must not end because nobody reads its log.
#[derive(Debug)]
pub struct GcLog<W> {
    writer: W,
    line: Vec<u8>,
}

impl<W: Write> GcLog<W> {
    /// A log to `writer`.
    pub fn new(writer: W) -> GcLog<W> {
        GcLog { writer, line: Vec::new() }
    }
}

impl<W: Write + Send> GcObserver for GcLog<W> {
    fn event(&mut self, event: &GcEvent) {
        self.line.clear();
        // Writing to memory does not fail.
        let _ = writeln!(self.line, "gc {event}");
        let _ = self.writer.write_all(&self.line).and_then(|()| self.writer.flush());
    }
}
