//! Mark bits: one for each 8 bytes of the cage up to the highest block taken, beside the objects so that marking and
//! sweeping write to no object. An object is marked by the bit of its first byte, and so is a handle where
//! free ones are found by their marks.
//!
//! The bits have address space for the whole cage, in the guard below it, and never move: a helper thread may be
//! marking while the pool grows.
//! Their words are atomic. Whoever marks alone sets bits by reading and writing; where both threads may set bits of one
//! word, both do it in one step.

use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::error::HeapError;
use crate::geometry::{BLOCK_BYTES, BYTES_PER_MARK_WORD as BYTES_PER_WORD, marks_below, plane_bytes};
use crate::plan::BumpRun;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of mark bits for each block.
const WORDS: usize = (BLOCK_BYTES / BYTES_PER_WORD) as usize;
/// Bytes made accessible at a time.
const COMMIT_STEP: usize = 256 << 10;

/// Words cleared at a time, and what that counts.
const CLEARED: usize = 4096;
const CLEARED_UNITS: u64 = 32;

/// The bits. Grows with the block pool. Not to be used once the cage is gone.
pub(crate) struct MarkBits {
    base: NonNull<AtomicU64>,
    /// Distance from there up to the cage's base, and bytes of address space.
    below: usize,
    reserved: usize,
    /// Words in use, and words that are accessible.
    length: usize,
    accessible: usize,
}

// SAFETY: the bits belong to this value alone, but for those that `SharedMarks` has, and the words are atomic.
unsafe impl Send for MarkBits {}
// SAFETY: as above; shared use reads words.
unsafe impl Sync for MarkBits {}

/// The place of an object's bit: the word's index, and the bit in it.
#[inline(always)]
fn place(object: u32) -> (usize, u64) {
    ((object / BYTES_PER_WORD) as usize, 1 << (object >> 3 & 63))
}

impl MarkBits {
    /// Bits of no block yet, in plane 0 or 1 of a cage.
    pub(crate) fn new(cage: &Cage, plane: usize) -> MarkBits {
        let (below, reserved) = (marks_below(plane, cage.bytes()), plane_bytes(cage.bytes()));
        let base = NonNull::new(cage.base().wrapping_sub(below).cast()).expect("the guard is mapped");
        MarkBits { base, below, reserved, length: 0, accessible: 0 }
    }

    /// Covers blocks `0..blocks` of the cage that the bits were made for; new bits are clear.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses memory.
    pub(crate) fn cover(&mut self, cage: &Cage, blocks: u32) -> Result<(), HeapError> {
        let words = blocks as usize * WORDS;
        if words > self.accessible {
            let (start, end) = (self.accessible * size_of::<u64>(), words * size_of::<u64>());
            let end = end.next_multiple_of(COMMIT_STEP).min(self.reserved);
            cage.commit_below(self.below - start, end - start)?;
            self.accessible = end / size_of::<u64>();
        }
        self.length = self.length.max(words);
        Ok(())
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words are accessible and initialised by the system, and stay where they are.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.length) }
    }

    /// Clears words. No other thread looks at them.
    fn clear_words(&mut self, start: usize, end: usize) {
        assert!(start <= end && end <= self.length, "words {start}..{end} of {}", self.length);
        // SAFETY: the words are in use, and nobody else looks at them, as the callers see to.
        unsafe { self.base.as_ptr().cast::<u64>().add(start).write_bytes(0, end - start) };
    }

    /// Clears every bit from word `cursor` on, which moves on; 0 at first.
    pub(crate) fn clear(&mut self, cursor: &mut usize, budget: &mut Budget) -> Done {
        while *cursor < self.length {
            if budget.is_exhausted() {
                return Done::No;
            }
            let end = self.length.min(*cursor + CLEARED);
            self.clear_words(*cursor, end);
            *cursor = end;
            budget.spend(CLEARED_UNITS);
        }
        Done::Yes
    }

    /// Sets the bits of all cells of `bytes` in some runs of them; where they are shared, as
    /// [`set_shared`](Self::set_shared) does. Otherwise without an atomic operation: that waits for every store before
    /// it, and what is stored into new objects is seldom cached.
    pub(crate) fn set_cells(&mut self, runs: impl IntoIterator<Item = BumpRun>, bytes: u32, is_shared: bool) {
        let stride = bytes / 8;
        // A bit in each cell of a word whose first bit is a cell's.
        let (mut pattern, mut width) = (1u64, stride);
        while width < u64::BITS {
            pattern |= pattern << width;
            width *= 2;
        }
        let (mut index, mut bits) = (0, 0);
        for BumpRun { cursor, limit } in runs {
            let mut cell = cursor;
            while cell < limit {
                let (next, _) = place(cell);
                if next != index {
                    self.set_bits(index, bits, is_shared);
                    (index, bits) = (next, 0);
                }
                let (first, left) = (cell >> 3 & 63, (limit - cell) / 8);
                let here = u64::BITS - first;
                let cells = if left < here { pattern & !(u64::MAX << left) } else { pattern };
                bits |= cells << first;
                cell += here.div_ceil(stride) * bytes;
            }
        }
        self.set_bits(index, bits, is_shared);
        fence(Ordering::Release);
    }

    /// Sets bits of one word.
    #[inline(always)]
    fn set_bits(&mut self, index: usize, bits: u64, is_shared: bool) {
        if bits == 0 {
            return;
        }
        let word = &self.words()[index];
        if is_shared {
            word.fetch_or(bits, Ordering::Relaxed);
        } else {
            word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
        }
    }

    /// Clears the bits of all that starts in `[start, end)`. No other thread marks.
    pub(crate) fn clear_cells(&mut self, start: u32, end: u32) {
        for offset in (start..end).step_by(8) {
            let (index, bit) = place(offset);
            let word = &self.words()[index];
            word.store(word.load(Ordering::Relaxed) & !bit, Ordering::Relaxed);
        }
    }

    /// Clears a block's bits. Nothing that another thread might mark lies there.
    pub(crate) fn clear_block(&mut self, block: u32) {
        let start = block as usize * WORDS;
        self.clear_words(start, start + WORDS);
    }

    /// Sets an object's bit; returns whether it was clear. No other thread marks what has a bit in the same word.
    #[inline(always)]
    pub(crate) fn set(&mut self, object: u32) -> bool {
        let (index, bit) = place(object);
        let word = &self.words()[index];
        let before = word.load(Ordering::Relaxed);
        word.store(before | bit, Ordering::Relaxed);
        before & bit == 0
    }

    /// Sets an object's bit while another thread may be marking: that finds it set if it finds a reference to the
    /// object that is stored afterwards.
    pub(crate) fn set_shared(&mut self, object: u32) {
        let (index, bit) = place(object);
        self.words()[index].fetch_or(bit, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// The same bits, for a thread that marks beside the mutator. Not to be used once these are gone.
    pub(crate) fn to_be_shared(&self) -> SharedMarks {
        SharedMarks(self.base)
    }

    /// Has the word with an object's bit fetched. Any offset is allowed.
    #[inline(always)]
    pub(crate) fn prefetch(&self, object: u32) {
        self.to_be_shared().prefetch(object);
    }

    /// An object's bit.
    #[inline(always)]
    pub(crate) fn get(&self, object: u32) -> bool {
        self.of_card(object) & place(object).1 != 0
    }

    /// The bits of the 512 bytes that `offset` lies in, those of the lowest address lowest.
    #[inline(always)]
    pub(crate) fn of_card(&self, offset: u32) -> u64 {
        self.words()[place(offset).0].load(Ordering::Relaxed)
    }

    /// The first cells of `bytes`, 8 or 16, in `[start, end)` whose bits are clear: from where up to where. There is
    /// none where both are `end`, which is an end of 512 bytes.
    pub(crate) fn clear_run(&self, start: u32, end: u32, bytes: u32) -> (u32, u32) {
        debug_assert!(matches!(bytes, 8 | 16) && start.is_multiple_of(bytes) && end.is_multiple_of(BYTES_PER_WORD));
        // Bit 0 is that of `offset`: of 16 bytes, the second bit is like the first.
        let set = |offset: u32| {
            let word = self.of_card(offset);
            (if bytes == 16 { word | word << 1 } else { word }) >> (offset >> 3 & 63)
        };
        let clear = |offset: u32| !set(offset) & u64::MAX >> (offset >> 3 & 63);
        let first = |mut offset: u32, bits: &dyn Fn(u32) -> u64| {
            while offset < end && bits(offset) == 0 {
                offset = offset - offset % BYTES_PER_WORD + BYTES_PER_WORD;
            }
            if offset < end { offset + 8 * bits(offset).trailing_zeros() } else { end }
        };
        let cursor = first(start, &clear);
        (cursor, first(cursor, &set))
    }

    /// The first offset in `[start, end)` whose bit is set; `end` where there is none.
    pub(crate) fn first_set(&self, start: u32, end: u32) -> u32 {
        let mut offset = start;
        while offset < end {
            let bits = self.of_card(offset) >> (offset >> 3 & 63);
            if bits != 0 {
                return end.min(offset + 8 * bits.trailing_zeros());
            }
            offset = offset - offset % BYTES_PER_WORD + BYTES_PER_WORD;
        }
        end
    }

    /// How many bits of a block are set.
    pub(crate) fn count(&self, block: u32) -> u32 {
        let start = block as usize * WORDS;
        self.words()[start..start + WORDS].iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }
}

impl fmt::Debug for MarkBits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.words()).finish()
    }
}

/// Mark bits as a thread sees them that marks beside the mutator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedMarks(NonNull<AtomicU64>);

// SAFETY: the words are atomic.
unsafe impl Send for SharedMarks {}

impl SharedMarks {
    /// Sets an object's bit; returns whether it was clear, to one thread alone.
    ///
    /// # Safety
    /// The bits are still there, and cover the object.
    #[inline(always)]
    pub(crate) unsafe fn set(self, object: u32) -> bool {
        let (index, bit) = place(object);
        // SAFETY: the word is in use, by the contract.
        let word = unsafe { self.0.add(index).as_ref() };
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// As [`MarkBits::prefetch`].
    #[inline(always)]
    pub(crate) fn prefetch(self, object: u32) {
        crate::arch::prefetch(self.0.as_ptr().wrapping_add(place(object).0).cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::finish;
    use crate::cage::Extent;
    use std::sync::atomic::AtomicU32;

    const ROUNDS: u32 = 100;
    const BLOCKS: u32 = 4;
    const END: u32 = BLOCKS * BLOCK_BYTES;

    /// Lets a helper and the mutator set bits that lie in the same words, over and over.
    /// Returns how often what `is_right` asks for has not come out.
    fn race(
        helper: impl Fn(SharedMarks) + Sync,
        mutator: impl Fn(&mut MarkBits),
        is_right: impl Fn(&MarkBits) -> bool,
    ) -> u32 {
        let cage = Cage::new(Extent::WHOLE).unwrap();
        let mut marks = MarkBits::new(&cage, 0);
        // The last cell may reach beyond the end.
        marks.cover(&cage, BLOCKS + 1).unwrap();
        let (shared, arrived, helper, mut wrong) = (marks.to_be_shared(), &AtomicU32::new(0), &helper, 0);
        // Both go on at the same moment, which they would not if one had to be woken.
        let wait = |turn: u32| {
            arrived.fetch_add(1, Ordering::AcqRel);
            for spins in 0.. {
                match arrived.load(Ordering::Acquire) < 2 * turn {
                    false => return,
                    true if spins < 1 << 14 => std::hint::spin_loop(),
                    true => std::thread::yield_now(),
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    wait(2 * round + 1);
                    helper(shared);
                    wait(2 * round + 2);
                }
            });
            for round in 0..ROUNDS {
                finish(|budget| marks.clear(&mut 0, budget));
                wait(2 * round + 1);
                mutator(&mut marks);
                wait(2 * round + 2);
                wrong += !is_right(&marks) as u32;
            }
        });
        wrong
    }

    #[test]
    fn cells_are_marked_at_once_as_one_by_one() {
        let cage = Cage::new(Extent::WHOLE).unwrap();
        let mut marks = MarkBits::new(&cage, 0);
        marks.cover(&cage, BLOCKS).unwrap();
        for &bytes in [8].iter().chain(crate::size_classes::cell_bytes()) {
            for (start, count) in [(0, 1), (8, 2), (504, 3), (520, 64), (1000, 65), (16, BLOCK_BYTES / bytes)] {
                let first = BumpRun { cursor: start, limit: start + count * bytes };
                // Behind one cell that stays free.
                let second = BumpRun { cursor: first.limit + bytes, limit: first.limit + 3 * bytes };
                let runs = [first, second];
                if second.limit > END {
                    continue;
                }
                finish(|budget| marks.clear(&mut 0, budget));
                marks.set_cells(runs, bytes, start == 8);
                let is_cell = |run: &BumpRun, offset: u32| {
                    (run.cursor..run.limit).contains(&offset) && (offset - run.cursor).is_multiple_of(bytes)
                };
                for offset in (0..END).step_by(8) {
                    let is_one = runs.iter().any(|run| is_cell(run, offset));
                    assert_eq!(marks.get(offset), is_one, "{offset} of cells of {bytes} bytes from {start} on");
                }
            }
        }
    }

    #[test]
    fn no_mark_is_lost_where_two_threads_mark() {
        let helper = |marks: SharedMarks| {
            for object in (0..END).step_by(16) {
                // SAFETY: the bits cover it, and are still there.
                let _ = unsafe { marks.set(object) };
            }
        };
        let check = |marks: &MarkBits| {
            let is_set = |object: u32| object.is_multiple_of(16) || object.is_multiple_of(24);
            (0..END).step_by(8).all(|object| marks.get(object) == is_set(object))
        };
        let cells = |marks: &mut MarkBits| {
            let runs = (0..END).step_by(120).map(|cursor| BumpRun { cursor, limit: cursor + 120 });
            marks.set_cells(runs, 24, true);
        };
        assert_eq!(race(helper, cells, check), 0);
        let one_by_one = |marks: &mut MarkBits| (0..END).step_by(24).for_each(|object| marks.set_shared(object));
        assert_eq!(race(helper, one_by_one, check), 0);
    }

    #[test]
    fn runs_of_clear_bits_are_found() {
        let cage = Cage::new(Extent::WHOLE).unwrap();
        let mut marks = MarkBits::new(&cage, 0);
        marks.cover(&cage, BLOCKS).unwrap();
        let mut state = 1_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        for round in 0..200 {
            let bytes = [8, 16][round % 2];
            finish(|budget| marks.clear(&mut 0, budget));
            // Few bits, or most.
            let most = [4, 400, 4000][round % 3];
            (0..random(most)).for_each(|_| _ = marks.set(random(END / bytes) * bytes));
            if round % 5 == 0 {
                (0..END / 2).step_by(bytes as usize).for_each(|cell| _ = marks.set(cell));
            }
            let (mut cell, mut runs) = (0, Vec::new());
            while cell < END {
                let start = cell;
                while cell < END && !marks.get(cell) {
                    cell += bytes;
                }
                if start < cell {
                    runs.push((start, cell));
                }
                cell += bytes;
            }
            let (mut cursor, mut found) = (0, Vec::new());
            while let (start, limit) = marks.clear_run(cursor, END, bytes)
                && start < limit
            {
                found.push((start, limit));
                cursor = limit;
            }
            assert_eq!(found, runs, "round {round}");
        }
    }

    #[test]
    fn one_of_two_threads_finds_a_bit_clear() {
        let found = AtomicU64::new(0);
        let mark = |marks: SharedMarks| {
            // SAFETY: the bits cover these, and are still there.
            let clear = (0..END).step_by(8).filter(|&object| unsafe { marks.set(object) }).count();
            found.fetch_add(clear as u64, Ordering::Relaxed);
        };
        let check = |_: &MarkBits| found.swap(0, Ordering::Relaxed) == u64::from(END / 8);
        assert_eq!(race(mark, |marks| mark(marks.to_be_shared()), check), 0);
    }
}
