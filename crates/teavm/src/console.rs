//! The console: UTF-16 code units in, UTF-8 lines out.

use std::io::{self, Write};

use crate::weak::WeakCtx;

/// Bytes gathered before they go out without waiting for the line's end.
const BUFFER: usize = 16 * 1024;

/// What one Java program has of its host.
///
/// The program hands over its output one UTF-16 code unit at a time; it goes out when a line ends, and what is left
/// when the context is dropped. Output and error keep their order towards each other.
pub struct TeaVmCtx {
    out: Lines,
    err: Lines,
    /// State of the generator behind `Math.random`; never zero.
    pub(crate) random: u64,
    pub(crate) weak: WeakCtx,
}

impl TeaVmCtx {
    /// A context whose output goes to these writers.
    pub fn new(stdout: impl Write + Send + 'static, stderr: impl Write + Send + 'static) -> Self {
        TeaVmCtx {
            out: Lines::new(Box::new(stdout)),
            err: Lines::new(Box::new(stderr)),
            random: crate::math::seed(),
            weak: WeakCtx::default(),
        }
    }

    /// A context whose output goes to the host process's standard streams.
    pub fn inherit_stdio() -> Self {
        Self::new(io::stdout(), io::stderr())
    }

    /// Lets out everything.
    ///
    /// # Errors
    ///
    /// The writers'.
    pub fn flush(&mut self) -> io::Result<()> {
        let out = self.out.flush();
        let err = self.err.flush();
        out.and(err)
    }

    pub(crate) fn put_out(&mut self, unit: u16) -> io::Result<()> {
        self.err.flush()?;
        self.out.put(unit)
    }

    pub(crate) fn put_err(&mut self, unit: u16) -> io::Result<()> {
        self.out.flush()?;
        self.err.put(unit)
    }
}

impl Drop for TeaVmCtx {
    fn drop(&mut self) {
        // Nobody is left to be told of an error; who wants to know calls `flush` first.
        let _ = self.flush();
    }
}

/// One stream.
struct Lines {
    writer: Box<dyn Write + Send>,
    pending: Vec<u8>,
    /// The first half of a surrogate pair, waiting for the second.
    high: Option<u16>,
}

impl Lines {
    fn new(writer: Box<dyn Write + Send>) -> Self {
        Lines { writer, pending: Vec::new(), high: None }
    }

    fn put(&mut self, unit: u16) -> io::Result<()> {
        let high = self.high.take();
        let is_low = (0xdc00..0xe000).contains(&unit);
        match high {
            Some(high) if is_low => {
                let char = char::decode_utf16([high, unit]).next();
                self.push(char.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(());
            }
            // A high half without its low one.
            Some(_) => self.push(char::REPLACEMENT_CHARACTER),
            None => {}
        }
        if (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return Ok(());
        }
        // The only units that are no characters by themselves are halves of pairs.
        self.push(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
        if unit == u16::from(b'\n') || self.pending.len() >= BUFFER { self.write() } else { Ok(()) }
    }

    fn push(&mut self, char: char) {
        self.pending.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.high.take().is_some() {
            self.push(char::REPLACEMENT_CHARACTER);
        }
        if self.pending.is_empty() { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> io::Result<()> {
        let result = self.writer.write_all(&self.pending).and_then(|()| self.writer.flush());
        // After an error too: what failed once must not come out later.
        self.pending.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn code_units_become_lines_of_utf8() {
        let shared = Shared::default();
        let mut ctx = TeaVmCtx::new(shared.clone(), io::sink());
        let text = "Grüße, 世界 🎼";
        for unit in text.encode_utf16() {
            ctx.put_out(unit).unwrap();
        }
        assert_eq!(shared.text(), "");
        ctx.put_out(10).unwrap();
        assert_eq!(shared.text(), format!("{text}\n"));
    }

    #[test]
    fn halves_of_pairs_are_replaced() {
        let shared = Shared::default();
        let mut ctx = TeaVmCtx::new(shared.clone(), io::sink());
        for unit in [0xdc00, 0x41, 0xd800, 0x42, 0xd800, 0xd800, 0xdc00, 0xd83c] {
            ctx.put_out(unit).unwrap();
        }
        drop(ctx);
        assert_eq!(shared.text(), "\u{fffd}A\u{fffd}B\u{fffd}\u{10000}\u{fffd}");
    }

    #[test]
    fn both_streams_keep_their_order() {
        let shared = Shared::default();
        let mut ctx = TeaVmCtx::new(shared.clone(), shared.clone());
        ctx.put_out(b'a'.into()).unwrap();
        ctx.put_err(b'b'.into()).unwrap();
        ctx.put_out(b'c'.into()).unwrap();
        ctx.flush().unwrap();
        assert_eq!(shared.text(), "abc");
    }
}
