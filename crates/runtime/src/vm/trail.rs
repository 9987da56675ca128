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
use legato_heap::plan::ReferencePlan;
use legato_heap::types::TypeRecord;

use super::exceptions::Found;
use super::frames::{Frame, MAX_BACKTRACE_FRAMES};
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
    pub(super) references: ReferencePlan,
}

impl Reader {
    /// The words of an exception, and how many they are; `None` if there are too many, or no references among them:
    /// equal numbers do not make it the same.
    ///
    /// # Safety
    /// The reference is to an exception in the cage, of a type of the table.
    unsafe fn words(&self, exception: u32) -> Option<([u32; MOST_WORDS], usize)> {
        // SAFETY: the caller gives a live reference of this cage, by whose plan words of it are read.
        let word = |offset: u32| unsafe { *self.cage.add(offset as usize).cast::<u32>() };
        let object = self.references.object(Reference(exception), word);
        // SAFETY: the header holds the place of the type's record in the table.
        let record = unsafe { &*self.types.add(word(object + TYPE_ID_OFFSET) as usize).cast::<TypeRecord>() };
        if record.reference_map == 0 {
            return None;
        }
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
    thrower: Option<Place>,
}

/// A frame, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    fp: usize,
    pc: usize,
}

impl Place {
    fn of(frame: &Frame<'_>) -> Place {
        // Into the calling instruction.
        Place { fp: frame.fp, pc: frame.pc - 1 }
    }

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
    words: Option<([u32; MOST_WORDS], usize)>,
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
        let place = Place::of(frame);
        self.thrower.get_or_insert(place);
        if self.passed.len() < MAX_BACKTRACE_FRAMES {
            self.passed.push(place.pc);
        }
    }

    /// Notes that an exception is caught.
    ///
    /// # Safety
    /// The exception is alive, of the store that it was found in.
    pub(super) unsafe fn catch(&mut self, exception: u32, found: &Found) {
        // SAFETY: passed on to the caller.
        let words = unsafe {
            match self.is_thrown_again(exception) {
                true => self.frames.extend(self.passed.iter().skip(1)),
                false => mem::swap(&mut self.frames, &mut self.passed),
            }
            found.reader.words(exception)
        };
        self.frames.truncate(MAX_BACKTRACE_FRAMES);
        let place = Place { fp: found.handler.fp, pc: found.call - 1 };
        self.caught = Some(Caught { place, exception, words, reader: found.reader });
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
        let (Some(caught), Some(thrower)) = (&self.caught, self.thrower) else { return false };
        if caught.place.fp != thrower.fp {
            return false;
        }
        // SAFETY: passed on to the caller.
        let words = || unsafe { caught.reader.words(exception) };
        let is_same = caught.exception == exception || caught.words.is_some() && words() == caught.words;
        is_same && caught.place.is_of_same_function(thrower)
    }

    /// Forgets what was caught: references may mean something else from now on.
    pub(super) fn forget(&mut self) {
        self.caught = None;
    }
}
