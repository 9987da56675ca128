//! Backtraces for people: names as they were written, and repeated frames folded.

use std::fmt::Write;

use legato::{FrameInfo, WasmBacktrace};

/// The longest cycle of frames that is recognised: functions that call each other in turns.
const LONGEST_CYCLE: usize = 8;

/// The frames, innermost first, each on a line; empty if there are none.
pub fn text(backtrace: &WasmBacktrace) -> String {
    let frames: Vec<Line> = backtrace.frames().iter().map(Line::of).collect();
    if frames.is_empty() {
        return String::new();
    }
    let mut text = String::from("error while executing at wasm backtrace:");
    let mut at = 0;
    while at < frames.len() {
        let (cycle, times) = repetition(&frames[at..]);
        for (number, frame) in frames.iter().enumerate().skip(at).take(cycle) {
            let _ = write!(text, "\n  {number:3}: {}", frame.0);
        }
        if times > 1 {
            let what = if cycle == 1 { "this frame".to_string() } else { format!("these {cycle} frames") };
            let _ = write!(text, "\n       ... {what} {} more times", times - 1);
        }
        at += cycle * times;
    }
    text
}

/// A frame as it is shown: frames that look alike are alike.
#[derive(PartialEq, Eq)]
struct Line(String);

impl Line {
    fn of(frame: &FrameInfo) -> Line {
        let mut text = String::new();
        if let Some(offset) = frame.module_offset() {
            let _ = write!(text, "{offset:#8x} - ");
        }
        let module = frame.module_name().unwrap_or("<unknown>");
        let _ = match frame.func_name() {
            // Rust's names are told as they were written; other compilers of Wasm GC write theirs down so.
            Some(name) => write!(text, "{module}!{:#}", rustc_demangle::demangle(name)),
            None => write!(text, "{module}!<wasm function {}>", frame.func_index()),
        };
        Line(text)
    }
}

/// How many frames at the beginning repeat, and how often: the shortest cycle that comes three times or more; one
/// frame once if there is none.
fn repetition<T: PartialEq>(frames: &[T]) -> (usize, usize) {
    (1..=LONGEST_CYCLE.min(frames.len()))
        .map(|cycle| {
            let repeats = frames.chunks_exact(cycle).take_while(|chunk| *chunk == &frames[..cycle]).count();
            (cycle, repeats)
        })
        .find(|(_, repeats)| *repeats >= 3)
        .unwrap_or((1, 1))
}

#[cfg(test)]
mod tests {
    use super::repetition;

    #[test]
    fn cycles_are_found() {
        let of = |text: &str| repetition(text.as_bytes());
        assert_eq!(of("a"), (1, 1));
        assert_eq!(of("aab"), (1, 1));
        assert_eq!(of("aaab"), (1, 3));
        assert_eq!(of("abababa"), (2, 3));
        assert_eq!(of("baaaa"), (1, 1));
        assert_eq!(of("abcdefghiabcdefghiabcdefghi"), (1, 1));
    }
}
