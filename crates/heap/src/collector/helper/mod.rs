//! `helpers`: a thread that marks for a heap that is collected in [cycles](super::cycle), beside the mutator, where a
//! hardware context is idle.
//!
//! What is grey, and what has been overwritten and not marked yet, belongs to the mutator or to the helper: whoever has
//! the [baton]. The mutator gives it where a slice has left something to be marked, and takes it back for whatever
//! reads or changes what the helper works with: the next slice, a nursery collection, the end of marking, another
//! collection instead. That takes the few objects that the helper scans from one look to the next. Where the system
//! has taken the helper's processor away, it would be milliseconds: slices and nursery collections are put off then,
//! while there is memory for the program to go on. While the
//! helper marks, no slices are due, unless memory runs short: then the mutator stops for slices as ever, and marks in
//! them itself, while the helper marks in the gaps; so the program allocates less, and marking never rests. When the
//! helper has found nothing left, the next slice goes on from there.
//!
//! # What both threads touch
//!
//! * The heap's words: compiled code and the heap write references one word at a time; where many are written at once
//!   beside a helper, they are written so ([`Memory::copy_words`](crate::cage::Memory::copy_words)).
//! * The plane of mark bits: atomic words that never move. The mutator sets bits of what is born.
//! * The ages of blocks: atomic bytes. They change as nursery blocks are opened, and in nursery collections, during
//!   which the mutator has the baton: the helper drops a young reference as soon as it reads it, so that it has none
//!   when one begins.
//!
//! The mutator writes a new object's mark bit, its block's age, and its handle before it stores a reference to it, and
//! the helper reads the reference first. So it finds them on processors that show stores in their order, which is why
//! elsewhere than on x86-64 there is no helper.

mod baton;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
pub(crate) mod thread;

use super::marking::Beside;
use crate::ages::Ages;
use crate::core::Core;
use crate::references::ReferenceModel;
use crate::threads::sync;
use thread::Place;

impl<M: ReferenceModel> Core<M> {
    /// Whether a helper is to mark now.
    pub(crate) fn is_helper_wanted(&mut self) -> bool {
        // Whoever heals writes to objects, which the mutator may be writing to. And a helper that has to wait for a
        // processor because memory is being touched would count as one that nobody has a processor for.
        let is_allowed = !(M::FORWARDS && self.has_stale) && self.pool.cage.page_in_work().is_none();
        is_allowed && self.helper.is_wanted(self.pacer.size())
    }

    /// Gives all that is to be marked to the helper, if there is to be one. With `ages`, young objects are left out.
    pub(crate) fn give_marking(&mut self, ages: Option<&Ages>) {
        if !self.is_helper_wanted() || !self.helper.has_thread::<M>() {
            return;
        }
        let place = Place {
            heap: Beside { memory: self.pool.cage.memory(), marks: self.pool.planes.share() },
            types: self.types.clone(),
            spines: self.spines,
            ages: ages.map(Ages::to_be_read),
            marks_handles: self.model.marks_handles(),
        };
        self.overwritten.flush(&mut self.context);
        self.helper.give(place, &mut self.marking, &mut self.overwritten);
    }

    /// Takes back what the helper has left to be marked, if it has anything: nobody but the mutator marks from now on.
    pub(crate) fn take_marking(&mut self) {
        self.helper.take(true, &mut self.marking, &mut self.overwritten);
        self.pool.planes.is_back();
    }

    /// As [`take_marking`](Self::take_marking), but for a helper that is late, as the system has given its processor to
    /// another thread: that may take milliseconds. Returns whether the helper has nothing any more; otherwise it has
    /// been told to stop.
    pub(crate) fn try_take_marking(&mut self) -> bool {
        let is_taken = self.helper.take(false, &mut self.marking, &mut self.overwritten);
        if is_taken {
            self.pool.planes.is_back();
        }
        is_taken
    }
}
