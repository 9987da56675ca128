//! `array.copy` between mapped arrays: untouched pages stay untouched, and whole pages are shared where that pays.
//!
//! Two arrays can share pages where the copied elements lie at the same place within a page on both sides, as they do
//! between the starts of any two arrays. Whether it pays is a question of page faults, which cost ten times the copying
//! of a page that is in the cache. Measured (as in the module above; microseconds for 1 MiB):
//!
//! | | |
//! |---|---|
//! | copying to pages that have memory | 22 |
//! | copying to untouched pages | 320 |
//! | mapping pages of the file over untouched ones; reading them all for the first time | 2; 67 |
//! | the same over pages that have memory | 60; 67 |
//! | writing pages to the file; mapping these over their old ones; reading them again | 260; 60; 67 |
//! | writing to pages that are mapped from the file: the system copies them | 380 |
//!
//! So sharing pays for untouched pages alone, and for pages that are in the file already: then it is many times faster
//! than copying, from a few pages on. To move pages into the file costs up to 1.4 times a copy (the example `mapped`
//! measures it), and pays from the second copy on. Hence the rules: a range of an array is looked at when it is copied
//! to for the first time; where it is mostly untouched, the first copy of the same source copies the pages that have
//! memory, the second one moves the source's pages into the file, and further ones are calls to map them. Pages that
//! the source has changed since are copied on top. Where these are more than half of them, nothing is shared, and the
//! number of copies that it takes before pages are moved again doubles.
//!
//! Where an array has written all pages of a stretch, a full collection lets go of the file's: they stay mapped, and
//! are not needed.

use super::shared_pages::Extent;
use super::{MappedArray, MappedSpace};
use crate::blocks::{BlockPool, block_of, block_start};
use crate::budget::Budget;
use crate::os::sharing::PageState;
use crate::os::{mappings, page_bytes};
use std::ops::Range;

/// Fewer pages are not looked at.
const LEAST_PAGES: u32 = 16;
/// Extents that all arrays of a heap may have together, where the process has [`mappings`](crate::os::mappings) for
/// them: an eighth of those that Linux allows by default.
const MOST_EXTENTS: usize = 4096;
/// An extent, and the gap behind it.
const MAPPINGS_PER_EXTENT: usize = 2;
/// The most pages that are let go of at once where time is limited: 1 MiB where they are small.
const MOST_LET_GO: u32 = 256;
/// A range counts as untouched where at most one page in so many has memory.
const TOUCHED_PART: usize = 8;

/// What becomes of consecutive pages of the source.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// They have never been touched.
    Untouched,
    /// They have memory of their own.
    Own,
    /// They are mapped from the file; some may have been written since.
    Shown(Extent),
    /// They have been mapped from the file and all written since, and a collection has let go of the file's.
    LetGo,
}

/// One copy. Pages are counted from the start of each array.
#[derive(Clone, Copy, Debug)]
struct Copy {
    target: u32,
    source: u32,
    /// First page of the target, and of the source.
    to: u32,
    from: u32,
}

impl Copy {
    /// Cage offset of page `index` of the range in the target.
    fn target_page(self, index: u32) -> u32 {
        block_start(self.target) + (self.to + index) * page_bytes()
    }

    /// The same in the source.
    fn source_page(self, index: u32) -> u32 {
        block_start(self.source) + (self.from + index) * page_bytes()
    }
}

impl MappedArray {
    /// What consecutive pages from `page` on are, those before `end`, with one past the last of them.
    fn part(&self, page: u32, end: u32, is_own: impl Fn(u32) -> bool) -> (Part, u32) {
        let next = self.extents.partition_point(|extent| extent.end() <= page);
        match self.extents.get(next) {
            Some(extent) if extent.first <= page => {
                let end = end.min(extent.end());
                (if extent.is_own { Part::LetGo } else { Part::Shown(extent.part(page, end)) }, end)
            }
            next => {
                let end = next.map_or(end, |next| end.min(next.first));
                let own = is_own(page);
                let end = (page..end).find(|&page| is_own(page) != own).unwrap_or(end);
                (if own { Part::Own } else { Part::Untouched }, end)
            }
        }
    }

    /// Whether some of the pages are mapped from the file.
    fn shows(&self, pages: Range<u32>) -> bool {
        self.extents.iter().any(|extent| extent.first < pages.end && pages.start < extent.end())
    }

    /// Takes the last extent away, or the last `most` pages of it.
    pub(super) fn last_of_extents(&mut self, most: u32) -> Option<Extent> {
        let last = self.extents.pop()?;
        let first = last.end().saturating_sub(most).max(last.first);
        if last.first < first {
            self.extents.push(last.part(last.first, first));
        }
        Some(last.part(first, last.end()))
    }

    /// Adds an extent, in place of the parts of others that it covers; returns these.
    fn replace(&mut self, new: Extent) -> Vec<Extent> {
        let (mut kept, mut replaced) = (Vec::new(), Vec::new());
        for extent in self.extents.drain(..) {
            let (first, end) = (extent.first.max(new.first), extent.end().min(new.end()));
            if first >= end {
                kept.push(extent);
                continue;
            }
            replaced.push(extent.part(first, end));
            for (first, end) in [(extent.first, first), (end, extent.end())] {
                if first < end {
                    kept.push(extent.part(first, end));
                }
            }
        }
        kept.push(new);
        kept.sort_unstable_by_key(|extent| extent.first);
        self.extents = kept;
        replaced
    }
}

impl MappedSpace {
    /// Copies `bytes` from one cage offset to another, both of elements of arrays, if these are mapped and it is
    /// quicker than moving bytes. Returns whether it did; where not, nothing has been written.
    #[inline]
    pub(crate) fn copy(&mut self, pool: &BlockPool, to: u32, from: u32, bytes: u32) -> bool {
        let page = self.page_bytes;
        self.tables.is_some() && bytes >= (LEAST_PAGES + 1) * page && (to ^ from).is_multiple_of(page) && {
            self.copy_pages(pool, to, from, bytes)
        }
    }

    #[inline(never)]
    fn copy_pages(&mut self, pool: &BlockPool, to: u32, from: u32, bytes: u32) -> bool {
        let page = page_bytes();
        let (Some(target), Some(source)) = (self.head_of(pool, to), self.head_of(pool, from)) else { return false };
        let pages = |offset: u32, head: u32| {
            let inside = offset - block_start(head);
            inside.div_ceil(page)..(inside + bytes) / page
        };
        let (to_pages, from_pages) = (pages(to, target), pages(from, source));
        let count = to_pages.len() as u32;
        let Some(array) = self.arrays.get_mut(&target) else { return false };
        if target == source || to_pages.start < array.looked_at || array.shows(to_pages.clone()) {
            return false;
        }
        array.looked_at = to_pages.end;
        let copy = Copy { target, source, to: to_pages.start, from: from_pages.start };
        let (mut before, mut states) = (Vec::new(), Vec::new());
        let told = self.tables.as_ref().is_some_and(|tables| {
            tables.read(pool.cage.address(copy.target_page(0)), count as usize, &mut before)
                && tables.read(pool.cage.address(copy.source_page(0)), count as usize, &mut states)
        });
        let touched = before.iter().filter(|&&state| state == PageState::Own).count();
        if !told || touched * TOUCHED_PART > before.len() {
            return false;
        }
        // The parts of pages at both ends.
        let (start, end) = (copy.target_page(0) - to, copy.target_page(count) - to);
        move_bytes(pool, to, from, start);
        move_bytes(pool, to + end, from + end, bytes - end);
        let is_own = |index: u32| states[index as usize] == PageState::Own;
        let is_touched = |index: u32| before[index as usize] == PageState::Own;
        let patience = self.arrays[&source].patience;
        let may_move = self.arrays[&source].copies >= patience;
        let (mut moved, mut copied, mut changed) = (false, false, false);
        let mut index = 0;
        while index < count {
            let (part, end) =
                self.arrays[&source].part(copy.from + index, from_pages.end, |page| is_own(page - copy.from));
            let run = index..end - copy.from;
            let owned = run.clone().filter(|&index| is_own(index)).count() as u32;
            let is_stale = matches!(part, Part::Shown(_)) && 2 * owned > run.len() as u32;
            changed |= is_stale || matches!(part, Part::LetGo);
            match part {
                Part::Untouched => clear(pool, copy, run.clone(), is_touched),
                Part::Shown(extent) if !is_stale && self.show(pool, copy, extent) => {
                    for index in run.clone().filter(|&index| is_own(index)) {
                        move_bytes(pool, copy.target_page(index), copy.source_page(index), page);
                    }
                }
                Part::Own | Part::Shown(_) | Part::LetGo
                    if may_move && run.len() as u32 >= LEAST_PAGES && self.move_to_file(pool, copy, run.clone()) =>
                {
                    moved = true;
                }
                Part::Own | Part::Shown(_) | Part::LetGo => {
                    let bytes = run.len() as u32 * page;
                    if run.len() as u32 >= LEAST_PAGES {
                        pool.cage.populate(copy.target_page(index), bytes as usize);
                    }
                    move_bytes(pool, copy.target_page(index), copy.source_page(index), bytes);
                    copied |= run.len() as u32 >= LEAST_PAGES;
                }
            }
            index = run.end;
        }
        let array = self.arrays.get_mut(&source).expect("the source is mapped");
        if changed && array.copies == 0 {
            array.patience = array.patience.saturating_mul(2);
        }
        array.copies = if moved { 0 } else { array.copies.saturating_add(copied as u32) };
        true
    }

    /// The first block of the mapped array that an offset lies in.
    fn head_of(&self, pool: &BlockPool, offset: u32) -> Option<u32> {
        let block = block_of(offset);
        let info = pool.info(block);
        let head = if info.kind.is_tail() { info.extent } else { block };
        self.arrays.contains_key(&head).then_some(head)
    }

    /// Has the target show what the source shows. Returns whether that was possible; where not, the target is as it
    /// was, or untouched.
    fn show(&mut self, pool: &BlockPool, copy: Copy, shown: Extent) -> bool {
        let extent = Extent { first: shown.first - copy.from + copy.to, ..shown };
        if !self.has_mappings_for(1) {
            return false;
        }
        if !self.shared.map(pool, block_start(copy.target), extent) {
            make_fresh(pool, block_start(copy.target), extent);
            return false;
        }
        self.shared.add(extent);
        self.shared_pages += extent.pages as u64;
        self.add_extent(copy.target, extent);
        true
    }

    /// Moves pages of the source into the file, and has both arrays show them. Returns whether the target does.
    fn move_to_file(&mut self, pool: &BlockPool, copy: Copy, run: Range<u32>) -> bool {
        // Mappings for both, and for what the source's new extent may split off.
        if !self.has_mappings_for(4) {
            return false;
        }
        let bytes = run.len() * page_bytes() as usize;
        let address = pool.cage.address(copy.source_page(run.start));
        // SAFETY: the pages lie in the source, and nobody writes to them meanwhile.
        let stored = self.shared.store(unsafe { std::slice::from_raw_parts(address, bytes) });
        let Some(file) = stored else { return false };
        let extent = Extent { first: copy.from + run.start, pages: run.len() as u32, file, is_own: false };
        if !self.shared.map(pool, block_start(copy.source), extent) {
            // What the source held is in the file.
            make_fresh(pool, block_start(copy.source), extent);
            // SAFETY: the pages lie in the source, and nobody else looks at them.
            let contents = unsafe { std::slice::from_raw_parts_mut(address, bytes) };
            assert!(self.shared.load(extent, contents), "the system refuses to read {extent:?} back");
            self.forget(copy.source, extent);
            self.shared.remove(extent);
            return false;
        }
        self.add_extent(copy.source, extent);
        self.show(pool, copy, extent)
    }

    /// Whether there can be so many extents more.
    fn has_mappings_for(&self, extents: usize) -> bool {
        self.extents + extents <= MOST_EXTENTS && MAPPINGS_PER_EXTENT * extents <= mappings::left()
    }

    /// Counts the extents of all arrays, where this one had so many before, and draws mappings for them.
    pub(super) fn count_extents(&mut self, head: u32, before: usize) {
        self.extents = self.extents + self.arrays[&head].extents.len() - before;
        self.mappings.set(MAPPINGS_PER_EXTENT * self.extents);
    }

    /// Lets go of some of the file's pages where a live array has pages of its own by now, as noted last: from `page`
    /// on. Returns the page to go on at, if there is more.
    pub(super) fn let_go(&mut self, head: u32, page: u32, budget: &mut Budget) -> Option<u32> {
        budget.spend(1);
        let array = self.arrays.get_mut(&head).expect("a mapped array starts at this block");
        let index = array.extents.partition_point(|extent| extent.end() <= page);
        let extent = *array.extents.get(index)?;
        if extent.is_own {
            return Some(extent.end());
        }
        let (first, most) = (page.max(extent.first), if budget.is_limited() { MOST_LET_GO } else { u32::MAX });
        let end = extent.end().min(first.saturating_add(most));
        let is_own = |&page: &u32| self.residency[page as usize];
        let first = (first..end).find(is_own).unwrap_or(end);
        let last = (first..end).find(|page| !is_own(page)).unwrap_or(end);
        budget.spend(u64::from(end - page) / 8);
        if last - first >= LEAST_PAGES || last - first == extent.pages {
            let own = Extent { is_own: true, ..extent.part(first, last) };
            let rest = [(extent.first, first), (last, extent.end())].map(|(first, end)| extent.part(first, end));
            let parts = [rest[0], own, rest[1]].into_iter().filter(|part| part.pages > 0);
            let before = array.extents.len();
            array.extents.splice(index..=index, parts);
            self.shared.remove(extent.part(first, last));
            budget.spend(u64::from(last - first));
            self.count_extents(head, before);
        }
        Some(last)
    }

    /// Notes that an array shows an extent, which has been counted, and no more what it has shown there.
    fn add_extent(&mut self, head: u32, extent: Extent) {
        self.changes += 1;
        let array = self.arrays.get_mut(&head).expect("a mapped array starts at this block");
        let before = array.extents.len();
        let replaced = array.replace(extent);
        self.count_extents(head, before);
        replaced.into_iter().for_each(|extent| self.shared.remove(extent));
    }

    /// Notes that an array's own, fresh memory lies where it may have shown a part of the file.
    fn forget(&mut self, head: u32, fresh: Extent) {
        self.changes += 1;
        let array = self.arrays.get_mut(&head).expect("a mapped array starts at this block");
        let before = array.extents.len();
        let replaced = array.replace(fresh);
        array.extents.retain(|extent| *extent != fresh);
        self.count_extents(head, before);
        replaced.into_iter().for_each(|extent| self.shared.remove(extent));
    }
}

/// Maps untouched memory where the system has not mapped the file.
fn make_fresh(pool: &BlockPool, start: u32, extent: Extent) {
    let page = page_bytes();
    let fresh = pool.cage.map_fresh(start + extent.first * page, (extent.pages * page) as usize);
    assert!(fresh, "the system refuses to map memory in place of {extent:?}");
}

/// Zeroes pages of the target whose counterparts are untouched.
fn clear(pool: &BlockPool, copy: Copy, run: Range<u32>, is_touched: impl Fn(u32) -> bool) {
    for index in run.filter(|&index| is_touched(index)) {
        // SAFETY: the page lies in the target, and whole within what is copied to.
        unsafe { pool.cage.zero(copy.target_page(index), page_bytes() as usize) };
    }
}

/// Copies bytes between two arrays.
fn move_bytes(pool: &BlockPool, to: u32, from: u32, bytes: u32) {
    // SAFETY: both ranges lie in their arrays, which are distinct.
    unsafe { std::ptr::copy_nonoverlapping(pool.cage.address(from), pool.cage.address(to), bytes as usize) };
}
