//! Standard input, output and error.
//!
//! Guests often write a byte or a word at a time. Output is therefore gathered until a line ends, but never longer than
//! it takes to notice: a write that comes [`PATIENCE`] after the last flush goes out at once, so that prompts and
//! progress dots appear. Output and error keep their order towards each other (whoever writes flushes the other first),
//! and both are flushed before the guest reads, waits or ends.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::types::FileType;

/// How long output may stay unseen although the guest goes on writing to an unfinished line.
const PATIENCE: Duration = Duration::from_millis(20);

/// Bytes gathered before they go out without waiting for the line's end.
const BUFFER: usize = 16 * 1024;

/// Where a guest's standard input comes from.
pub enum Input {
    /// There is none: every read is at the end.
    Null,
    /// The host process's standard input.
    Inherit,
    /// These bytes.
    Bytes(io::Cursor<Vec<u8>>),
    /// Whatever this reader gives.
    Reader(Box<dyn Read + Send>),
}

impl Input {
    /// Input that consists of `bytes`.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Input::Bytes(io::Cursor::new(bytes.into()))
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::Null => Ok(0),
            Input::Inherit => crate::os::read_stdin(buffer),
            Input::Bytes(bytes) => bytes.read(buffer),
            Input::Reader(reader) => reader.read(buffer),
        }
    }

    pub(crate) fn file_type(&self) -> FileType {
        match self {
            Input::Inherit => terminal(io::stdin().is_terminal()),
            _ => FileType::Unknown,
        }
    }
}

/// Where a guest's standard output or error goes.
pub enum Output {
    /// Nowhere.
    Null,
    /// To the host process's stream of the same name.
    Inherit,
    /// Into memory.
    Pipe(OutputPipe),
    /// Into this writer.
    Writer(Box<dyn Write + Send>),
}

/// Collects a guest's output in memory. Clones share their contents.
#[derive(Clone, Default)]
pub struct OutputPipe {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl OutputPipe {
    /// An empty pipe.
    pub fn new() -> Self {
        Self::default()
    }

    /// What has been written so far. Output that the guest's context still gathers is not in it: see
    /// [`WasiCtx::flush`](crate::WasiCtx::flush).
    pub fn contents(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Write for OutputPipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Which of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

impl Stream {
    fn other(self) -> Self {
        match self {
            Stream::Out => Stream::Err,
            Stream::Err => Stream::Out,
        }
    }
}

struct LineBuffer {
    sink: Output,
    pending: Vec<u8>,
    /// A line has ended in `pending`.
    line_ended: bool,
    flushed: Instant,
}

impl LineBuffer {
    fn new(sink: Output) -> Self {
        LineBuffer { sink, pending: Vec::new(), line_ended: false, flushed: Instant::now() }
    }

    fn flush(&mut self, stream: Stream) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let result = match (&mut self.sink, stream) {
            (Output::Null, _) => Ok(()),
            (Output::Inherit, Stream::Out) => write_through(&mut io::stdout().lock(), &self.pending),
            (Output::Inherit, Stream::Err) => write_through(&mut io::stderr().lock(), &self.pending),
            (Output::Pipe(pipe), _) => write_through(pipe, &self.pending),
            (Output::Writer(writer), _) => write_through(writer, &self.pending),
        };
        // After an error too: the guest has been told, and what failed once must not come out later.
        self.pending.clear();
        self.line_ended = false;
        self.flushed = Instant::now();
        result
    }
}

fn write_through(writer: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes)?;
    writer.flush()
}

/// Both output streams.
pub(crate) struct Console {
    out: LineBuffer,
    err: LineBuffer,
    /// What went wrong where nobody could be told.
    untold: Option<io::Error>,
}

impl Console {
    pub fn new(out: Output, err: Output) -> Self {
        Console { out: LineBuffer::new(out), err: LineBuffer::new(err), untold: None }
    }

    fn buffer(&mut self, stream: Stream) -> &mut LineBuffer {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }

    /// Adds `bytes` to the stream. [`finish`](Self::finish) must follow the last piece of a guest's write.
    pub fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let other = stream.other();
        self.buffer(other).flush(other)?;
        let buffer = self.buffer(stream);
        buffer.line_ended |= bytes.contains(&b'\n');
        buffer.pending.extend_from_slice(bytes);
        if buffer.pending.len() >= BUFFER { buffer.flush(stream) } else { Ok(()) }
    }

    /// Lets out what should be seen now.
    pub fn finish(&mut self, stream: Stream) -> io::Result<()> {
        let buffer = self.buffer(stream);
        if buffer.line_ended || buffer.flushed.elapsed() >= PATIENCE { buffer.flush(stream) } else { Ok(()) }
    }

    /// Lets out everything.
    pub fn flush(&mut self) -> io::Result<()> {
        let out = self.out.flush(Stream::Out);
        let err = self.err.flush(Stream::Err);
        self.untold.take().map_or(Ok(()), Err).and(out).and(err)
    }

    /// Lets out everything. An error is what the next [`flush`](Self::flush) returns.
    pub fn flush_at_last(&mut self) {
        self.untold = self.flush().err();
    }

    pub fn file_type(&self, stream: Stream) -> FileType {
        match stream {
            Stream::Out if matches!(self.out.sink, Output::Inherit) => terminal(io::stdout().is_terminal()),
            Stream::Err if matches!(self.err.sink, Output::Inherit) => terminal(io::stderr().is_terminal()),
            _ => FileType::Unknown,
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // Nobody is left to be told of an error; who wants to know calls `flush` first.
        let _ = self.flush();
    }
}

fn terminal(is_terminal: bool) -> FileType {
    if is_terminal { FileType::CharacterDevice } else { FileType::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes each flush as one entry.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    struct Named(&'static str, Log);

    impl Write for Named {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8_lossy(bytes);
            self.1.0.lock().unwrap().push(format!("{}:{text}", self.0));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_gathered_and_streams_keep_their_order() {
        let log = Log::default();
        let sink = |name| Output::Writer(Box::new(Named(name, log.clone())));
        let mut console = Console::new(sink("out"), sink("err"));
        for byte in b"ab\nc" {
            console.write(Stream::Out, &[*byte]).unwrap();
            console.finish(Stream::Out).unwrap();
        }
        console.write(Stream::Err, b"e").unwrap();
        console.write(Stream::Out, b"d").unwrap();
        drop(console);
        let seen = log.0.lock().unwrap().join("|");
        // Where a slow machine lets a byte out early, the pieces are smaller, never in another order.
        assert_eq!(seen.replace("|out:", "").replace('|', ""), "out:ab\ncerr:ed");
    }

    #[test]
    fn an_unfinished_line_comes_out_after_a_while() {
        let pipe = OutputPipe::new();
        let mut console = Console::new(Output::Pipe(pipe.clone()), Output::Null);
        std::thread::sleep(PATIENCE);
        console.write(Stream::Out, b"name: ").unwrap();
        console.finish(Stream::Out).unwrap();
        assert_eq!(pipe.contents(), b"name: ");
    }
}
