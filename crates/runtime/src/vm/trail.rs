//! Where an exception was thrown first, for the backtrace of one that is thrown again.
//!
//! Much that catches an exception throws it again: `finally`, the `main` of a language that looks at whatever leaves
//! the program. What nothing catches in the end would tell the last of these places alone. So an activation remembers
//! the frames between the throw and the handler that it went on in last. Where the function of that handler throws the
//! same exception from the same frame, or one of the same tag with the same contents, references among them, these
//! frames come before its own in the backtrace.
//!
//! Contents are compared word by word. They are therefore forgotten whenever the collector visits the activation's
//! roots: neither is anything kept alive for this, nor can a reference have come to mean another object.
//!
//! Limit: a function that catches an object, returns, and is called again in the same place to throw that object afresh
//! is taken for one that throws it again.

use std::mem;
use std::sync::Arc;

use legato_heap::Reference;
use legato_heap::layout::{COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use legato_heap::plan::ObjectAt;
use legato_heap::types::TypeRecord;

use super::exceptions::Found;
use super::frames::MAX_BACKTRACE_FRAMES;
use super::registry;

/// Bytes of a word.
const WORD: u32 = 4;
/// An exception with more words than this is not recognised.
const MOST_WORDS: usize = 16;

/// What reading an exception takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) cage: *const u8,
    pub(super) types: *const u8,
    /// Where the exception lies.
    pub(super) object: ObjectAt,
}

impl Reader {
    /// Reads the words of an exception.
    ///
    /// # Safety
    /// The reference is to an exception in the cage, of a type of the table.
    unsafe fn read(&self, exception: u32, words: &mut Words) {
        words.count = 0;
        // SAFETY: the caller gives a live reference of this cage, by whose plan words of it are read.
        let word = |offset: u32| unsafe { *self.cage.add(offset as usize).cast::<u32>() };
        let object = self.object.of(Reference(exception), word);
        // SAFETY: the header holds the place of the type's record in the table.
        let record = unsafe { &*self.types.add(word(object + TYPE_ID_OFFSET) as usize).cast::<TypeRecord>() };
        let count = (record.bytes / WORD) as usize;
        if record.reference_map == 0 || count > MOST_WORDS {
            return;
        }
        words.count = count;
        for (place, held) in words.all.iter_mut().take(count).enumerate() {
            let offset = place as u32 * WORD;
            // The collector's word says nothing of what the exception is.
            *held = if offset == COLLECTOR_WORD_OFFSET { 0 } else { word(object + offset) };
        }
    }
}

/// The words of an exception: none if there are too many, or no references among them, as equal numbers do not make it
/// the same.
#[derive(Clone, Copy, Default, Debug)]
struct Words {
    all: [u32; MOST_WORDS],
    count: usize,
}

impl Words {
    fn are_equal(&self, other: &Words) -> bool {
        self.count != 0 && self.all[..self.count] == other.all[..other.count]
    }
}

/// The frames of what an activation has caught last.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// Addresses as of [`capture`](super::frames::capture), innermost first, up to the handler's frame.
    frames: Vec<usize>,
    /// What was caught, if that is still known.
    caught: Option<Caught>,
    /// What that holds.
    words: Words,
    /// Of the exception under way: the frames up to its handler, as in `frames`, the first of which throws it.
    passed: Vec<usize>,
    /// Frame pointer of that first one.
    thrower: usize,
}

/// A frame, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    fp: usize,
    pc: usize,
}

impl Place {
    /// Whether both are the frame of one function. Other functions may have had a frame there.
    fn is_of_same_function(self, other: Place) -> bool {
        let function = |place: Place| {
            let image = registry::find(place.pc)?;
            Some((Arc::as_ptr(&image), image.function_at(place.pc)?))
        };
        self.fp == other.fp && function(self).is_some_and(|found| function(other) == Some(found))
    }
}

/// What was caught, and in which frame.
#[derive(Debug)]
struct Caught {
    place: Place,
    exception: u32,
    reader: Reader,
}

impl Trail {
    /// Begins to look for the handler of an exception that the frame at `thrower` throws.
    pub(super) fn throw(&mut self, thrower: usize) {
        self.passed.clear();
        self.thrower = thrower;
    }

    /// Notes where one frame after the other stands, up to the handler's.
    #[inline]
    pub(super) fn pass(&mut self, pc: usize) {
        if self.passed.len() < MAX_BACKTRACE_FRAMES {
            // Into the calling instruction.
            self.passed.push(pc - 1);
        }
    }

    /// Notes that an exception is caught.
    ///
    /// # Safety
    /// The exception is alive, of the store that it was found in.
    pub(super) unsafe fn catch(&mut self, exception: u32, found: &Found) {
        // SAFETY: passed on to the caller.
        if unsafe { self.is_thrown_again(exception) } {
            self.frames.extend(self.passed.iter().skip(1));
            self.frames.truncate(MAX_BACKTRACE_FRAMES);
        } else {
            mem::swap(&mut self.frames, &mut self.passed);
        }
        // SAFETY: passed on to the caller.
        unsafe { found.reader.read(exception, &mut self.words) };
        let place = Place { fp: found.handler.fp, pc: found.call - 1 };
        self.caught = Some(Caught { place, exception, reader: found.reader });
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
        let (Some(caught), Some(&pc)) = (&self.caught, self.passed.first()) else { return false };
        let thrower = Place { fp: self.thrower, pc };
        if caught.place.fp != thrower.fp {
            return false;
        }
        let has_same_words = || {
            let mut words = Words::default();
            // SAFETY: passed on to the caller.
            unsafe { caught.reader.read(exception, &mut words) };
            self.words.are_equal(&words)
        };
        (caught.exception == exception || has_same_words()) && caught.place.is_of_same_function(thrower)
    }

    /// Forgets what was caught: references may mean something else from now on.
    pub(super) fn forget(&mut self) {
        self.caught = None;
    }
}
