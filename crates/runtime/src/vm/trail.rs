//! Where an exception was thrown first, for the backtrace of one that is thrown again.
//!
//! Much that catches an exception throws it again: `finally`, the `main` of a language that looks at whatever leaves
//! the program. What nothing catches in the end would tell the last of these places alone. So an activation remembers
//! the frames between the throw and the handler that it went on in last. Where that handler's frame throws an exception
//! of the same tag with the same contents, these frames come before its own in the backtrace.
//!
//! Contents are compared word by word, references among them. They are therefore forgotten whenever the collector
//! visits the activation's roots: neither is anything kept alive for this, nor can a reference have come to mean
//! another object.

use std::mem;

use legato_heap::Reference;
use legato_heap::layout::{COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use legato_heap::plan::ReferencePlan;
use legato_heap::types::TypeRecord;

use super::frames::{Frame, MAX_BACKTRACE_FRAMES};

/// Bytes of a word.
const WORD: u32 = 4;
/// An exception with more words than this is not recognised.
const MOST_WORDS: usize = 16;

/// What reading an exception takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) cage: *const u8,
    pub(super) types: *const u8,
    pub(super) references: ReferencePlan,
}

impl Reader {
    /// The words of an exception, and how many they are; `None` if there are too many.
    ///
    /// # Safety
    /// The reference is to an exception in the cage, of a type of the table.
    unsafe fn words(&self, exception: u32) -> Option<([u32; MOST_WORDS], usize)> {
        // SAFETY: the caller gives a live reference of this cage, by whose plan words of it are read.
        let word = |offset: u32| unsafe { *self.cage.add(offset as usize).cast::<u32>() };
        let object = self.references.object(Reference(exception), word);
        // SAFETY: the header holds the place of the type's record in the table.
        let record = unsafe { &*self.types.add(word(object + TYPE_ID_OFFSET) as usize).cast::<TypeRecord>() };
        let count = (record.bytes / WORD) as usize;
        let mut words = [0; MOST_WORDS];
        for (place, held) in words.get_mut(..count)?.iter_mut().enumerate() {
            // The collector's word says nothing of what the exception is.
            if place as u32 * WORD != COLLECTOR_WORD_OFFSET {
                *held = word(object + place as u32 * WORD);
            }
        }
        Some((words, count))
    }
}

/// The frames of what an activation has caught last.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// Addresses as of [`capture`](super::frames::capture), innermost first, up to the handler's frame.
    frames: Vec<usize>,
    caught: Option<Caught>,
    /// Of the exception under way: the frames up to its handler, the first of which throws it.
    passed: Vec<usize>,
    thrower: Option<usize>,
}

/// What was caught, and in which frame.
#[derive(Debug)]
struct Caught {
    fp: usize,
    words: ([u32; MOST_WORDS], usize),
    reader: Reader,
}

impl Trail {
    /// Begins to look for the handler of an exception.
    pub(super) fn throw(&mut self) {
        self.passed.clear();
        self.thrower = None;
    }

    /// Notes one frame after the other, up to the handler's.
    #[inline]
    pub(super) fn pass(&mut self, frame: &Frame<'_>) {
        self.thrower.get_or_insert(frame.fp);
        if self.passed.len() < MAX_BACKTRACE_FRAMES {
            // Into the calling instruction.
            self.passed.push(frame.pc - 1);
        }
    }

    /// Notes that an exception is caught, in the frame at `fp`.
    ///
    /// # Safety
    /// The exception is alive, of the store that the reader is for.
    pub(super) unsafe fn catch(&mut self, exception: u32, fp: usize, reader: Reader) {
        // SAFETY: passed on to the caller.
        let words = unsafe {
            match self.is_thrown_again(exception) {
                true => self.frames.extend(self.passed.iter().skip(1)),
                false => mem::swap(&mut self.frames, &mut self.passed),
            }
            reader.words(exception)
        };
        self.frames.truncate(MAX_BACKTRACE_FRAMES);
        self.caught = words.map(|words| Caught { fp, words, reader });
    }

    /// Puts where an exception that nothing catches was thrown first before the frames that it leaves now.
    ///
    /// # Safety
    /// As [`catch`](Self::catch).
    pub(super) unsafe fn complete(&self, exception: u32, frames: &mut Vec<usize>) {
        // SAFETY: passed on to the caller.
        if unsafe { self.is_thrown_again(exception) } {
            frames.splice(..1, self.frames.iter().copied());
            frames.truncate(MAX_BACKTRACE_FRAMES);
        }
    }

    /// Whether the frame that has caught an exception throws the same.
    unsafe fn is_thrown_again(&self, exception: u32) -> bool {
        self.caught.as_ref().is_some_and(|caught| {
            // SAFETY: passed on to the caller.
            self.thrower == Some(caught.fp) && unsafe { caught.reader.words(exception) } == Some(caught.words)
        })
    }

    /// Forgets what was caught: references may mean something else from now on.
    pub(super) fn forget(&mut self) {
        self.caught = None;
    }
}
