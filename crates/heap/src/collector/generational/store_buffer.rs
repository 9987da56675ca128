//! The sequential store buffer: slots of old structs into which compiled code has stored references to young ones.
//!
//! Compiled code pushes the cage offset of a slot; a full buffer is emptied into a list that grows. Slots that are
//! written again and again are weeded out when the list has become long; should that not help, their cards are marked
//! instead, so that the list's memory is bounded.

use crate::context::Context;
use crate::plan::BufferWords;

/// Slots that the buffer holds.
const CAPACITY: usize = 4096;
/// The longest list, in slots.
const LONGEST: usize = 1 << 20;

/// The buffer of one heap.
#[derive(Debug)]
pub(super) struct StoreBuffer {
    buffer: Box<[u32; CAPACITY]>,
    /// What the buffer has held since the last collection.
    slots: Vec<u32>,
}

impl StoreBuffer {
    /// An empty buffer, made known to compiled code.
    pub(super) fn new(context: &mut Context) -> StoreBuffer {
        let mut buffer = StoreBuffer { buffer: Box::new([0; CAPACITY]), slots: Vec::new() };
        buffer.reset(context);
        buffer
    }

    fn reset(&mut self, context: &mut Context) {
        let range = self.buffer.as_mut_ptr_range();
        *context.store_buffer() = BufferWords { cursor: range.start as usize, limit: range.end as usize };
    }

    /// What compiled code has pushed since the buffer was reset.
    fn pushed(&self, words: BufferWords) -> &[u32] {
        &self.buffer[..(words.cursor - self.buffer.as_ptr() as usize) / size_of::<u32>()]
    }

    /// Empties the buffer into the list. Where the list is too long then, even without duplicates, it is emptied too,
    /// and `mark` called for each slot.
    pub(super) fn flush(&mut self, context: &mut Context, mark: impl FnMut(u32)) {
        self.empty(context);
        if self.slots.len() > LONGEST {
            self.slots.sort_unstable();
            self.slots.dedup();
            if self.slots.len() > LONGEST / 2 {
                self.slots.drain(..).for_each(mark);
            }
        }
    }

    /// Moves what the buffer holds to the list, however long that becomes.
    fn empty(&mut self, context: &mut Context) {
        let words = *context.store_buffer();
        let count = self.pushed(words).len();
        self.slots.extend_from_slice(&self.buffer[..count]);
        self.reset(context);
    }

    /// Takes all slots for which no card has been marked, in no order, possibly several times each.
    pub(super) fn take(&mut self, context: &mut Context) -> Vec<u32> {
        self.empty(context);
        std::mem::take(&mut self.slots)
    }

    /// Gives the memory of a list back that [`take`](Self::take) has returned.
    pub(super) fn recycle(&mut self, mut slots: Vec<u32>) {
        slots.clear();
        slots.shrink_to(1 << 16);
        self.slots = slots;
    }

    /// All slots, for verification.
    pub(super) fn iter<'a>(&'a self, context: &Context) -> impl Iterator<Item = u32> + 'a {
        self.slots.iter().chain(self.pushed(context.store_buffer_now())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes as compiled code does.
    fn push(buffer: &mut StoreBuffer, context: &mut Context, slot: u32, mark: &mut dyn FnMut(u32)) {
        let words = context.store_buffer();
        // SAFETY: the words name a place in the buffer.
        unsafe { (words.cursor as *mut u32).write(slot) };
        words.cursor += 4;
        if words.cursor == words.limit {
            buffer.flush(context, mark);
        }
    }

    #[test]
    fn slots_are_kept_until_taken() {
        let mut context = Context::new();
        let mut buffer = StoreBuffer::new(&mut context);
        for round in 0..3 {
            for slot in 0..10_000 {
                push(&mut buffer, &mut context, 4 * slot, &mut |_| panic!("the list is short"));
            }
            assert_eq!(buffer.iter(&context).count(), 10_000, "round {round}");
            let mut slots = buffer.take(&mut context);
            slots.sort_unstable();
            assert!(slots.iter().copied().eq((0..10_000).map(|slot| 4 * slot)));
            buffer.recycle(slots);
            assert_eq!(buffer.iter(&context).count(), 0);
        }
    }

    #[test]
    fn no_slot_is_lost_however_many_there_are() {
        // Around the lengths at which the buffer, and the list, are full.
        for count in [CAPACITY, LONGEST / 2, LONGEST, LONGEST + CAPACITY, 2 * LONGEST] {
            for count in [count - 1, count, count + 1] {
                let mut context = Context::new();
                let mut buffer = StoreBuffer::new(&mut context);
                let mut found = Vec::with_capacity(count);
                for number in 0..count as u32 {
                    push(&mut buffer, &mut context, 8 * number, &mut |slot| found.push(slot));
                }
                found.extend(buffer.take(&mut context));
                found.sort_unstable();
                found.dedup();
                assert_eq!(found.len(), count);
            }
        }
    }

    #[test]
    fn repeated_slots_take_no_memory_and_too_many_become_cards() {
        let mut context = Context::new();
        let mut buffer = StoreBuffer::new(&mut context);
        for number in 0..3 * LONGEST as u32 {
            push(&mut buffer, &mut context, 8 * (number % 100), &mut |_| panic!("there are 100 slots"));
        }
        assert!(buffer.slots.capacity() < 4 * LONGEST);
        let mut marked = 0;
        for number in 0..3 * LONGEST as u32 {
            push(&mut buffer, &mut context, 8 * number, &mut |_| marked += 1);
        }
        assert!(marked > LONGEST && buffer.slots.len() <= LONGEST);
    }
}
