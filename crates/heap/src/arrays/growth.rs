//! First bytes that grow.
//!
//! The first N bytes of a spine are quick to reach because most accesses go there (Z-Rays, section 4.3). In a large
//! array in use they do not: so the first N grow. A spine has reserved space for all its elements, in which each leaf
//! has its offset, and the header says how many elements lie in one piece. What decides:
//!
//! - A leaf that is first written right behind the elements in one piece is made inline, as are those after it that
//!   are in use already, and those whose place in the spine takes no further page. So an array that is filled from the
//!   left never has leaves elsewhere.
//! - Other leaves lie in the arraylet space, until one in [`DENSE`] of those not inline is in use: then all are moved
//!   inline, in steps, so that nothing takes long. The first step is the store's that needs the leaf, the others are
//!   made at polls.
//!
//! So dense arrays cost what contiguous ones do; sparse ones stay leaves, lazy, compressed and shared like those of the
//! paper, but for the dense part at their beginning. Untouched space has no memory: the space is a mapped one, whose
//! full collections give pages of zeros, and what is beyond the elements in one piece, back to the system.
//!
//! Limits: needs references to the object itself, as the inline length takes the place of the collector word. Leaves
//! that have been moved inline from an old spine are free after the next full collection. What has grown does not
//! shrink.

use super::elements::{Destination, Elements};
use super::pointers::{leaf_of, pointer_at};
use crate::barrier::WriteBarrier;
use crate::blocks::{BLOCK_BYTES, BlockPool, ZERO_LEAF, block_of, block_start};
use crate::core::Core;
use crate::layout::{INLINE_LENGTH_OFFSET, POINTER_BYTES, Spine, SpineLayout};
use crate::os::page_bytes;
use crate::references::ReferenceModel;
use crate::spaces::Contents;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// An array is dense where one in so many of its leaves is in use. A page holds as many leaves of 1 KiB, so that most
/// pages are in use then, and leaves elsewhere would save little.
const DENSE: u32 = 4;

/// The most bytes of leaves that are moved inline at once, in some tens of microseconds.
const MOST_AT_ONCE: u32 = 256 << 10;

/// The most arrays whose leaves are being moved inline: polls come soon, and every collection looks at all of them.
const MOST_MOVING: usize = 64;

impl SpineLayout {
    /// The offset in the object at which a leaf lies once it is inline.
    fn inline_offset(self, spine: &Spine, number: u32) -> u32 {
        spine.elements + self.first_n + (number << self.leaf_log2)
    }
}

impl<M: ReferenceModel> Core<M> {
    /// Writes the inline length of a new array that has its length, where arrays have one: all of it, or the first N
    /// bytes of a spine. A spine that the caller is going to write whole, or that is to have all its leaves, is in one
    /// piece at once.
    pub(crate) fn start_inline_length(&mut self, object: u32, element_bytes: u32, length: u32, contents: Contents) {
        let Some(mode) = self.spines.filter(|mode| mode.layout.grows) else { return };
        let layout = mode.layout;
        if !layout.divides(element_bytes, length) {
            return self.set_inline_length(object, length);
        }
        let spine = layout.spine(element_bytes, length);
        let is_whole = contents != Contents::Zeroed || !mode.lazy;
        let end = if is_whole { spine.pointers } else { layout.inline_offset(&spine, 0) };
        self.mapped.set_reserved(object, end, spine.pointers);
        if contents == Contents::Zeroed {
            self.zero_reserved(object + spine.elements, end - spine.elements);
        }
        self.set_inline_length(object, if is_whole { length } else { layout.first_n / element_bytes });
        if is_whole {
            let memory = self.pool.cage.memory();
            for number in 0..spine.leaves {
                let slot = object + spine.pointers + POINTER_BYTES * number;
                // SAFETY: the object has been allocated with room for the pointers.
                unsafe { memory.write(slot, object + layout.inline_offset(&spine, number)) };
            }
        }
    }

    fn set_inline_length(&self, object: u32, length: u32) {
        // SAFETY: an array starts there.
        unsafe { self.pool.cage.write(object + INLINE_LENGTH_OFFSET, length) };
    }

    /// Zeroes memory of a spine that nothing has been written to since its blocks were taken.
    fn zero_reserved(&self, offset: u32, bytes: u32) {
        let end = offset + bytes;
        for block in block_of(offset)..block_of(end - 1) + 1 {
            if self.pool.info(block).dirty {
                let (first, last) = (offset.max(block_start(block)), end.min(block_start(block) + BLOCK_BYTES));
                // SAFETY: the range lies in the spine's reserved space, which is committed, and holds nothing yet.
                unsafe { self.pool.cage.zero(first, (last - first) as usize) };
            }
        }
    }

    /// Where the leaf lies inline whose pointer is at `slot`, where that is, or has just been made, a part of the
    /// elements in one piece. The array has reserved space.
    pub(super) fn grow_to<B: WriteBarrier>(&mut self, to: &Destination<B>, slot: u32) -> Option<u32> {
        let layout = self.spines?.layout;
        // The caller may have found its parts before the array grew.
        let parts = self.parts(to.object, to.size, to.length);
        let (object, spine) = parts.spine()?;
        let number = (slot - object - spine.pointers) / POINTER_BYTES;
        let grown = parts.grown();
        debug_assert!(number >= grown, "a leaf that is inline can be written");
        let most = spine.leaves.min(grown + (MOST_AT_ONCE >> layout.leaf_log2).max(1));
        let end = if number == grown {
            let page_end = (object + layout.inline_offset(&spine, number + 1)).next_multiple_of(page_bytes());
            let is_free = |number| object + layout.inline_offset(&spine, number + 1) <= page_end;
            let stays = |&next: &u32| self.leaf_in_use(object, &spine, next).is_none() && !is_free(next);
            (number + 1..most).find(stays).unwrap_or(most)
        } else {
            let rest = spine.leaves - grown;
            if self.moving_inline.len() >= MOST_MOVING || self.moving_inline.contains(&object) {
                return None;
            }
            if DENSE * self.mapped.count_leaf(object) < rest {
                return None;
            }
            let is_used = |&number: &u32| self.leaf_in_use(object, &spine, number).is_some();
            let used = (grown..spine.leaves).filter(is_used).count() as u32 + 1;
            self.mapped.set_leaves(object, used);
            if DENSE * used < rest {
                return None;
            }
            if most < spine.leaves {
                self.moving_inline.push(object);
                self.context.raise_poll();
            }
            most
        };
        let grows = self.move_inline(to, &spine, grown..end, 0..0);
        if !grows {
            // Without memory, it is not worth asking again soon.
            self.mapped.set_leaves(object, 0);
            self.moving_inline.retain(|&other| other != object);
        }
        (grows && number < end).then(|| object + layout.inline_offset(&spine, number))
    }

    /// At a poll: moves some leaves of the array at `object` inline, the last one in the list of those that are to be
    /// in one piece. Takes it from the list once all are, or there is no memory; asks for another poll otherwise.
    pub(crate) fn move_some_inline<B: WriteBarrier>(&mut self, object: u32, barrier: B) {
        // SAFETY: the list holds arrays, and only those that the last collection has found alive.
        let array = Destination::rearranged(unsafe { self.trusted_elements(object) }, barrier);
        let step = self.spines.zip(array.parts.spine()).is_some_and(|(mode, (_, spine))| {
            let grown = array.parts.grown();
            let end = spine.leaves.min(grown + (MOST_AT_ONCE >> mode.layout.leaf_log2).max(1));
            self.move_inline(&array, &spine, grown..end, 0..0) && end < spine.leaves
        });
        if !step {
            self.moving_inline.pop();
        }
        if !self.moving_inline.is_empty() {
            self.context.raise_poll();
        }
    }

    /// Ends a collection: forgets dead arrays that were to be in one piece.
    pub(crate) fn forget_dead_moving(&mut self, is_live: impl Fn(&BlockPool, u32) -> bool) {
        let pool = &self.pool;
        self.moving_inline.retain(|&object| is_live(pool, object));
        if !self.moving_inline.is_empty() {
            self.context.raise_poll();
        }
    }

    /// Has the elements in one piece reach to the byte position `to`, where they reach to `from`, and the caller is
    /// going to write all of `[from, to)`. Returns the array as it is then.
    pub(super) fn grow_over<B: WriteBarrier>(&mut self, array: &Destination<B>, from: u64, to: u64) -> Destination<B> {
        let Some(layout) = self.spines.map(|mode| mode.layout).filter(|layout| layout.grows) else { return *array };
        let Some((_, spine)) = array.parts.spine() else { return *array };
        let inline = array.parts.inline_bytes();
        if from > inline || to <= inline {
            return *array;
        }
        let end = (to - u64::from(layout.first_n)).div_ceil(u64::from(layout.leaf_bytes())) as u32;
        self.move_inline(array, &spine, array.parts.grown()..end, from..to);
        array.with_parts(self.parts(array.object, array.size, array.length))
    }

    /// The offset of the inline leaf with the byte at `position`, which is among the elements in one piece, behind the
    /// first N bytes.
    pub(super) fn inline_offset_of(&self, elements: &Elements, position: u64) -> Option<u32> {
        let layout = self.spines.map(|mode| mode.layout).filter(|layout| layout.grows)?;
        let beyond = position.checked_sub(layout.first_n.into())?;
        let spine = layout.spine(elements.size, elements.length);
        Some(elements.object + layout.inline_offset(&spine, (beyond >> layout.leaf_log2) as u32))
    }

    /// Whether the pointer at `slot` leads to a leaf that is inline.
    pub(super) fn is_inline_leaf(&self, elements: &Elements, slot: u32) -> bool {
        // SAFETY: a part in a leaf names its pointer.
        let leaf = leaf_of(unsafe { pointer_at(self.pool.cage.memory(), slot) }.load(Ordering::Relaxed));
        self.spines.is_some_and(|mode| mode.layout.grows) && (elements.object..slot).contains(&leaf)
    }

    /// The leaf that a pointer leads to, unless it is the zero leaf.
    fn leaf_in_use(&self, object: u32, spine: &Spine, number: u32) -> Option<u32> {
        // SAFETY: the spine has so many pointers.
        let pointer = unsafe { pointer_at(self.pool.cage.memory(), object + spine.pointers + POINTER_BYTES * number) };
        Some(leaf_of(pointer.load(Ordering::Relaxed))).filter(|&leaf| leaf != ZERO_LEAF)
    }

    /// Makes the leaves that follow the elements in one piece a part of these; false where there is no memory for that.
    /// What lies in `written`, byte positions, is going to be written by the caller, where it has no leaf.
    fn move_inline<B: WriteBarrier>(
        &mut self,
        array: &Destination<B>,
        spine: &Spine,
        numbers: Range<u32>,
        written: Range<u64>,
    ) -> bool {
        let layout = self.spines.expect("spines have leaves").layout;
        let (object, leaf_bytes) = (array.object, layout.leaf_bytes());
        if !self.mapped.grow(&mut self.pool, object, layout.inline_offset(spine, numbers.end)) {
            return false;
        }
        let memory = self.pool.cage.memory();
        for number in numbers.clone() {
            let inline = object + layout.inline_offset(spine, number);
            if let Some(leaf) = self.leaf_in_use(object, spine, number) {
                self.store_elements(array, inline, leaf_bytes, false, |inline| {
                    // SAFETY: a leaf and its place in the spine, which holds nothing yet, do not overlap.
                    unsafe { std::ptr::copy_nonoverlapping(memory.address(leaf), inline, leaf_bytes as usize) }
                });
            } else {
                self.taken.grown += 1;
                let start = u64::from(layout.first_n) + (u64::from(number) << layout.leaf_log2);
                let end = start + u64::from(leaf_bytes);
                if !(written.start <= start && end <= written.end) {
                    self.zero_reserved(inline, leaf_bytes);
                }
            }
            let slot = object + spine.pointers + POINTER_BYTES * number;
            // SAFETY: the spine has so many pointers.
            unsafe { pointer_at(memory, slot) }.store(inline, Ordering::Release);
        }
        let inline = u64::from(layout.first_n) + (u64::from(numbers.end) << layout.leaf_log2);
        self.set_inline_length(object, u64::from(array.length).min(inline / u64::from(array.size)) as u32);
        let leaves = numbers.end - numbers.start;
        if array.barrier.adopts_leaves() {
            self.leaves.adopt(leaves);
            self.pacer.charge(u64::from(leaves) << layout.leaf_log2);
        }
        self.count_taken(leaves);
        true
    }

    /// The inline length of an array is the length, or ends with a leaf.
    pub(crate) fn check_inline_length(&self, object: u32, element_bytes: u32, length: u32) -> Result<(), String> {
        let Some(layout) = self.spines.map(|mode| mode.layout).filter(|layout| layout.grows) else { return Ok(()) };
        let inline_length = self.word(object + INLINE_LENGTH_OFFSET);
        if !layout.divides(element_bytes, length) {
            return match inline_length == length {
                true => Ok(()),
                false => {
                    Err(format!("the array at {object:#x} has {length} elements, but {inline_length} in one piece"))
                }
            };
        }
        let beyond = (u64::from(inline_length) * u64::from(element_bytes)).checked_sub(layout.first_n.into());
        let ends = beyond.is_some_and(|beyond| beyond.is_multiple_of(layout.leaf_bytes().into()));
        if inline_length > length || !ends && inline_length != length {
            return Err(format!("the spine at {object:#x} has {inline_length} of {length} elements in one piece"));
        }
        Ok(())
    }

    /// The leaves that the elements in one piece have grown over are inline. The inline length has been checked.
    pub(crate) fn check_grown(&self, object: u32, element_bytes: u32, length: u32) -> Result<(), String> {
        let growing = |layout: &SpineLayout| layout.grows && layout.divides(element_bytes, length);
        let Some(layout) = self.spines.map(|mode| mode.layout).filter(growing) else { return Ok(()) };
        let spine = layout.spine(element_bytes, length);
        let inline = u64::from(self.word(object + INLINE_LENGTH_OFFSET)) * u64::from(element_bytes);
        let grown = inline.saturating_sub(layout.first_n.into()).div_ceil(layout.leaf_bytes().into()) as u32;
        let astray = (0..grown).find(|&number| {
            self.leaf_in_use(object, &spine, number) != Some(object + layout.inline_offset(&spine, number))
        });
        match astray {
            None => Ok(()),
            Some(number) => Err(format!("leaf {number} of the spine at {object:#x} is not inline")),
        }
    }
}
