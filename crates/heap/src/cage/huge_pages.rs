//! Huge pages: a heap that grows gets memory from the system in pieces of 2 MiB, each with one fault in place of 512,
//! and one entry of the processor's table of translations. A thread touches them [ahead](super::ahead) of the program,
//! which faults for ordinary pages alone: clearing a huge one takes a tenth of a millisecond, and several where a
//! virtual machine has to get the memory from its host.
//!
//! The first bytes of a cage stay in ordinary pages, so that a small heap holds no more memory than it uses. What is
//! given back of a huge page is split off first: the system would otherwise keep it as long as any part of the page is
//! in use. Nobody counts what has been touched ahead of the heap, 4 MiB at most.

use super::ahead::Ahead;
use crate::geometry::BLOCK_BYTES;
use crate::os::page_bytes;
use std::ops::Range;

/// Bytes of a huge page, where ordinary ones have 4 KiB.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// So many bytes of a cage, and up to a huge page more, are in ordinary pages.
const ORDINARY_BYTES: u64 = 8 << 20;
/// Memory is made accessible in steps of so many bytes there, since that waits for the thread where it is at work.
const STEP_BYTES: u64 = 8 << 20;
/// A huge page is touched when the heap has grown to so many bytes below it.
const AHEAD_BYTES: u64 = 2 << 20;

/// The huge pages of a cage.
#[derive(Debug)]
pub(super) struct HugePages {
    /// Where they may be: cage offsets from the start of one to the end of another, blocks too.
    part: Range<u64>,
    /// Which have been touched in one piece, and not been split since: by their place in the part.
    whole: Vec<bool>,
    /// The offset of the last one that was given to the thread.
    last: Option<u64>,
    /// From the first that is touched on.
    ahead: Option<Ahead>,
}

impl HugePages {
    /// Those of a cage at `base` up to an offset, but for its first bytes; `None` where there are none.
    pub(super) fn new(base: u64, end: u64) -> Option<HugePages> {
        if page_bytes() != 4 << 10 || end <= ORDINARY_BYTES {
            return None;
        }
        HugePages::between(base, ORDINARY_BYTES, end)
    }

    /// The part of a cage at `base` between two offsets.
    fn between(base: u64, start: u64, end: u64) -> Option<HugePages> {
        let start = (base + start).next_multiple_of(HUGE_PAGE_BYTES) - base;
        let end = (base + end) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES - base;
        let is_part = start < end && start.is_multiple_of(BLOCK_BYTES.into());
        is_part.then(|| HugePages { part: start..end, whole: Vec::new(), last: None, ahead: None })
    }

    /// The first that has not been touched, ahead or by a heap that has grown to `end`.
    fn following(&self, end: u64) -> Option<u64> {
        let untouched = end.saturating_sub(self.part.start).next_multiple_of(HUGE_PAGE_BYTES) + self.part.start;
        let next = self.last.map_or(untouched, |last| untouched.max(last + HUGE_PAGE_BYTES));
        (next < self.part.end).then_some(next)
    }

    /// The offsets of the one at `place`.
    fn page(&self, place: usize) -> Range<u64> {
        let start = self.part.start + place as u64 * HUGE_PAGE_BYTES;
        start..start + HUGE_PAGE_BYTES
    }

    /// Up to which offset memory is to be committed that is wanted up to `end`.
    pub(super) fn end_of_step(&self, end: u64) -> u64 {
        if !self.part.contains(&end) {
            return end;
        }
        (self.part.start + (end - self.part.start).next_multiple_of(STEP_BYTES)).min(self.part.end)
    }

    /// Which one is to be touched ahead of a heap that has grown to `end`, if any: its offset.
    pub(super) fn page_to_touch(&self, end: u64) -> Option<u64> {
        let next = self.following(end).filter(|next| *next < end + AHEAD_BYTES)?;
        self.ahead.as_ref().is_none_or(Ahead::is_idle).then_some(next)
    }

    /// Has the one at an offset be touched.
    ///
    /// # Safety
    /// It [is to be](Self::page_to_touch), and lies at `address`: accessible private memory of a mapping that outlives
    /// this.
    pub(super) unsafe fn touch(&mut self, page: u64, address: *mut u8) {
        self.last = Some(page);
        let ahead = self.ahead.get_or_insert_with(Ahead::start);
        if ahead.is_idle() {
            let place = (page - self.part.start) / HUGE_PAGE_BYTES;
            self.whole.resize(place as usize, false);
            self.whole.push(true);
            // SAFETY: by the contract.
            unsafe { ahead.touch(address) };
        }
    }

    /// The one that is being touched, if any: whoever needs memory in it waits.
    pub(super) fn in_work(&self) -> Option<Range<u64>> {
        let is_busy = self.ahead.as_ref().is_some_and(Ahead::is_busy);
        self.last.filter(|_| is_busy).map(|last| last..last + HUGE_PAGE_BYTES)
    }

    /// Up to which offset they have been touched, if none is being touched.
    pub(super) fn touched(&self) -> Option<u64> {
        self.last.filter(|_| self.in_work().is_none()).map(|last| last + HUGE_PAGE_BYTES)
    }

    /// Where the huge page ends that holds this offset, if one does.
    pub(super) fn end_of_page(&self, offset: u64) -> Option<u64> {
        let place = || ((offset - self.part.start) / HUGE_PAGE_BYTES) as usize;
        self.part.contains(&offset).then(|| self.page(place()).end)
    }

    /// Notes that a range is given back; calls `split` for each piece of it that lies in a huge page with others.
    pub(super) fn give_back(&mut self, range: &Range<u64>, mut split: impl FnMut(Range<u64>)) {
        let place = |offset: u64| (offset.saturating_sub(self.part.start) / HUGE_PAGE_BYTES) as usize;
        for place in place(range.start)..self.whole.len().min(place(range.end - 1) + 1) {
            let page = self.page(place);
            let piece = page.start.max(range.start)..page.end.min(range.end);
            if !piece.is_empty() && std::mem::take(&mut self.whole[place]) && piece != page {
                split(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cage::{Cage, Extent};

    const HUGE: u64 = HUGE_PAGE_BYTES;

    #[test]
    fn a_range_is_whole_huge_pages_and_pieces_of_others() {
        let at = |pages: u64| HUGE / 2 + pages * HUGE;
        let check = |start, end, pieces: &[(u64, u64)], left: [bool; 4]| {
            let mut huge = HugePages::between(HUGE / 2, 3 * HUGE, 8 * HUGE).unwrap();
            assert_eq!(huge.part, at(3)..at(7));
            huge.whole = vec![true; 4];
            let mut split = Vec::new();
            huge.give_back(&(start..end), |piece| split.push((piece.start, piece.end)));
            assert_eq!((&*split, &*huge.whole), (pieces, &left[..]), "{start} to {end}");
            huge.give_back(&(start..end), |piece| panic!("{piece:?} is split already"));
        };
        let huge = HugePages::between(HUGE / 2, 3 * HUGE, 8 * HUGE).unwrap();
        let ends = [at(3) - 1, at(3), at(4) - 1, at(4), at(7)].map(|offset| huge.end_of_page(offset));
        assert_eq!(ends, [None, Some(at(4)), Some(at(4)), Some(at(5)), None]);
        check(0, at(3), &[], [true; 4]);
        check(0, at(3) + 9, &[(at(3), at(3) + 9)], [false, true, true, true]);
        check(at(4) + 1, at(4) + 2, &[(at(4) + 1, at(4) + 2)], [true, false, true, true]);
        check(at(4) + 1, at(5) + 2, &[(at(4) + 1, at(5)), (at(5), at(5) + 2)], [true, false, false, true]);
        check(at(4) + 1, at(6) + 2, &[(at(4) + 1, at(5)), (at(6), at(6) + 2)], [true, false, false, false]);
        check(at(4), at(6), &[], [true, false, false, true]);
        check(0, at(9), &[], [false; 4]);
        check(at(7), at(9), &[], [true; 4]);
        assert!(HugePages::between(0, HUGE, 2 * HUGE - 1).is_none());
        assert!(HugePages::between(4096, HUGE, 9 * HUGE).is_none(), "blocks would lie across them");
    }

    #[test]
    fn the_next_is_ahead_of_the_heap_and_of_what_was_touched() {
        let mut huge = HugePages::between(0, 4 * HUGE, 8 * HUGE).unwrap();
        assert_eq!([0, 4, 5].map(|pages| huge.following(pages * HUGE)), [4, 4, 5].map(|pages| Some(pages * HUGE)));
        assert_eq!(huge.following(4 * HUGE + 1), Some(5 * HUGE));
        huge.last = Some(5 * HUGE);
        assert_eq!(
            [0, 5, 6, 7].map(|pages| huge.following(pages * HUGE + 1)),
            [6, 6, 7, 8].map(|pages| (pages < 8).then_some(pages * HUGE))
        );
    }

    #[test]
    fn what_is_given_back_of_a_huge_page_reads_as_zero_and_the_rest_is_kept() {
        let mut cage = Cage::new(Extent::WHOLE).unwrap();
        cage.allow_huge_pages(64 * HUGE);
        let start = cage.page_to_touch(ORDINARY_BYTES + 2 * HUGE).unwrap();
        let end = start + 4 * HUGE;
        cage.commit(start as u32, (end - start) as usize).unwrap();
        for page in 0..4 {
            cage.touch_ahead(start + page * HUGE);
            while cage.page_in_work().is_some() {
                std::thread::yield_now();
            }
        }
        let words = || (start as u32..end as u32).step_by(4096);
        // SAFETY: the range has been committed.
        words().for_each(|word| unsafe { cage.write(word, word) });
        // In the midst of one, and from within one over a whole one into a third.
        let ranges = [start + 10 * 4096..start + 18 * 4096, start + HUGE / 2 + 4096..start + 2 * HUGE + 3 * 4096];
        for range in &ranges {
            assert!(cage.decommit(range.start as u32, (range.end - range.start) as usize));
        }
        for word in words() {
            let is_given_back = ranges.iter().any(|range| range.contains(&word.into()));
            // SAFETY: the range has been committed.
            assert_eq!(unsafe { cage.read(word) }, if is_given_back { 0 } else { word });
        }
    }
}
