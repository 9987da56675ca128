//! Copying between arrays of every layout (Z-Rays, section 4.6): at once where both lie in one piece, by runs of leaves
//! that follow each other otherwise, by sharing whole leaves (section 4.7) or pages where that is asked for.
//!
//! A *strip* is what lies contiguously on both sides. As for all bulk operations, nothing here collects: see
//! [`bulk`](super::bulk).

use super::elements::{Destination, Elements};
use super::leaves::Run;
use super::parts::{Part, PartPlace};
use crate::barrier::WriteBarrier;
use crate::core::Core;
use crate::layout::{ARRAY_LENGTH_OFFSET, INLINE_LENGTH_OFFSET, TYPE_ID_OFFSET, elements_offset};
use crate::references::ReferenceModel;
use crate::types::TypeId;

/// Longer copies may share pages (`mapped`), in bytes.
const LONGEST_QUICK: u64 = 32 << 10;

/// What becomes of a copy that is to be quick.
pub(crate) enum QuickCopy {
    /// It takes the general path.
    NotQuick,
    /// A range lies outside of its array.
    OutOfBounds,
    /// `bytes` bytes are to be copied between these cage offsets.
    Quick {
        /// Where to.
        target: u32,
        /// Where from.
        source: u32,
        /// Bytes to copy.
        bytes: u32,
        /// Whether they are references.
        references: bool,
    },
}

impl<M: ReferenceModel> Core<M> {
    /// Whether elements lie in one piece in both arrays, and nothing is to be shared or counted, and where: most copies
    /// are short, and this is quick. [`copy_quickly`](Self::copy_quickly) copies then.
    ///
    /// # Safety
    /// Arrays of this heap with elements of one size start at `to` and `from`.
    #[inline(always)]
    pub(crate) unsafe fn find_quick_copy(
        &self,
        (to, to_start): (u32, u32),
        (from, from_start): (u32, u32),
        length: u32,
    ) -> QuickCopy {
        let memory = self.pool.cage.memory();
        // SAFETY: the objects have headers with their types, and lengths.
        let (record, to_length, from_length) = unsafe {
            let record = self.types.record_unchecked(TypeId(memory.read(to + TYPE_ID_OFFSET)));
            (record, memory.read(to + ARRAY_LENGTH_OFFSET), memory.read(from + ARRAY_LENGTH_OFFSET))
        };
        let size = record.bytes;
        // How many elements lie in one piece.
        let inline_length = |object, array_length| match self.spines.map(|mode| mode.layout) {
            None => array_length,
            // SAFETY: the objects have headers.
            Some(layout) if layout.grows => unsafe { memory.read(object + INLINE_LENGTH_OFFSET) },
            Some(layout) if layout.divides(size, array_length) => layout.first_n / size,
            Some(_) => array_length,
        };
        let reaches = |object, start, array_length| {
            let inline = inline_length(object, array_length);
            inline == array_length || u64::from(start) + u64::from(length) <= u64::from(inline)
        };
        let bytes = u64::from(size) * u64::from(length);
        if !reaches(to, to_start, to_length)
            || !reaches(from, from_start, from_length)
            || bytes > LONGEST_QUICK
            || self.config.count_accesses
        {
            return QuickCopy::NotQuick;
        }
        let is_outside = |start, array_length| u64::from(start) + u64::from(length) > u64::from(array_length);
        if is_outside(to_start, to_length) || is_outside(from_start, from_length) {
            return QuickCopy::OutOfBounds;
        }
        let (target, source) =
            (to + elements_offset(size) + size * to_start, from + elements_offset(size) + size * from_start);
        QuickCopy::Quick { target, source, bytes: bytes as u32, references: record.reference_map != 0 }
    }

    /// Copies elements of a quick copy to the array at `to`, with its barrier.
    ///
    /// # Safety
    /// As [`find_quick_copy`](Self::find_quick_copy) has found them.
    #[inline(always)]
    pub(crate) unsafe fn copy_quickly<B: WriteBarrier>(
        &mut self,
        to: u32,
        (target, source, bytes): (u32, u32, u32),
        barrier: B,
    ) {
        let cage = &self.pool.cage;
        barrier.before(cage, &mut self.overwritten, target..target + bytes);
        // SAFETY: both ranges lie in their arrays; they may overlap. Where there is a barrier, they hold references.
        unsafe {
            match B::HAS_BEFORE && self.helper.is_given() {
                true => cage.memory().copy_words(source, target, bytes),
                false => std::ptr::copy(cage.address(source), cage.address(target), bytes as usize),
            }
        }
        barrier.after_elements(cage, target..target + bytes, false);
        self.mirror(to, target..target + bytes);
    }

    /// Copies `bytes` bytes of whole elements between arrays of equal element size, or within one. The ranges may
    /// overlap.
    pub(crate) fn copy<B: WriteBarrier>(
        &mut self,
        to: &Destination<B>,
        mut to_position: u64,
        from: &Elements,
        mut from_position: u64,
        bytes: u64,
    ) -> Option<()> {
        self.count_copy(to_position, to_position + bytes);
        // Of two copies of one object, what is written to one is written to the other, and they have the same leaves.
        let is_within = to.object == from.object || self.replica(to.object) == Some(from.object);
        if bytes == 0 || is_within && to_position == from_position {
            return Some(());
        }
        if self.share_pages(to, to_position, from, from_position, bytes) {
            return Some(());
        }
        // What is in one piece is copied in one; what is not may be sparse, or shared.
        let in_one_piece = from_position + bytes <= from.parts.inline_bytes();
        let grown = in_one_piece.then(|| self.grow_over(to, to_position, to_position + bytes));
        let to = grown.as_ref().unwrap_or(to);
        if in_one_piece && to_position + bytes <= to.parts.inline_bytes() {
            let (target, source) = (to.elements(), from.elements());
            self.copy_bytes(to, target + to_position as u32, source + from_position as u32, bytes);
            return Some(());
        }
        // Backwards where the source would be overwritten before it is read.
        let (forward, shift) = (!is_within || to_position < from_position, from_position.abs_diff(to_position));
        let strip = match self.spines {
            Some(mode) if !mode.fast_copy => u64::from(to.size),
            // Whole leaves are shared, one by one.
            Some(mode) if mode.copy_on_write && shift.is_multiple_of(u64::from(mode.layout.leaf_bytes())) => u64::MAX,
            _ => return self.copy_runs(to, to_position, from, from_position, bytes, forward),
        };
        if forward {
            let end = to_position + bytes;
            while to_position < end {
                let left = end - to_position;
                let copied = self.copy_first_strip(to, to_position, from, from_position, left.min(strip))?;
                (to_position, from_position) = (to_position + copied, from_position + copied);
            }
        } else {
            let mut left = bytes;
            while left > 0 {
                let (to_end, from_end) = (to_position + left, from_position + left);
                left -= self.copy_last_strip(to, to_end, from, from_end, left.min(strip))?;
            }
        }
        Some(())
    }

    /// Copies what lies in one piece at these cage offsets.
    #[inline]
    fn copy_bytes<B: WriteBarrier>(&self, to: &Destination<B>, target: u32, source: u32, bytes: u64) {
        self.store_elements(to, target, bytes as u32, false, |address| {
            // SAFETY: both ranges lie in their arrays; they may overlap.
            unsafe {
                match self.is_read_beside(to) {
                    true => self.pool.cage.memory().copy_words(source, target, bytes as u32),
                    false => std::ptr::copy(self.pool.cage.address(source), address, bytes as usize),
                }
            }
        });
    }

    /// Copies between mapped arrays by sharing pages, where that pays; says whether it has.
    #[inline]
    fn share_pages<B: WriteBarrier>(
        &mut self,
        to: &Destination<B>,
        to_position: u64,
        from: &Elements,
        from_position: u64,
        bytes: u64,
    ) -> bool {
        // What moves to other pages, a helper that reads it would miss.
        let is_mapped = self.config.arrays.mapped().is_some() && !self.is_read_beside(to);
        let Some(bytes) = u32::try_from(bytes).ok().filter(|_| is_mapped) else { return false };
        let at = |elements: &Elements, position| self.part_offset(elements.parts.at(0).place) + position as u32;
        let (target, source) = (at(to, to_position), at(from, from_position));
        let shared = self.mapped.copy(&self.pool, target, source, bytes);
        if shared {
            self.store_elements(to, target, bytes, false, |_| {});
        }
        shared
    }

    /// Copies by the longest runs that are contiguous on both sides: over several leaves, where these follow each
    /// other.
    fn copy_runs<B: WriteBarrier>(
        &mut self,
        to: &Destination<B>,
        mut to_position: u64,
        from: &Elements,
        mut from_position: u64,
        mut left: u64,
        forward: bool,
    ) -> Option<()> {
        let (mut target, mut source) = (Run::default(), Run::default());
        if !forward {
            (to_position, from_position) = (to_position + left, from_position + left);
        }
        while left > 0 {
            if target.bytes == 0 {
                target = self.run(&to.parts, to_position, left, forward, true);
            }
            if source.bytes == 0 {
                source = self.run(&from.parts, from_position, left, forward, false);
            }
            let mut bytes = target.bytes.min(source.bytes);
            if bytes > 0 {
                let (to_offset, from_offset) = match forward {
                    true => (target.offset, source.offset),
                    false => (target.offset - bytes as u32, source.offset - bytes as u32),
                };
                self.copy_bytes(to, to_offset, from_offset, bytes);
                (target, source) = (target.after(bytes, forward), source.after(bytes, forward));
            } else {
                bytes = match forward {
                    true => self.copy_first_strip(to, to_position, from, from_position, left)?,
                    false => self.copy_last_strip(to, to_position, from, from_position, left)?,
                };
                (target, source) = (Run::default(), Run::default());
            }
            left -= bytes;
            (to_position, from_position) = match forward {
                true => (to_position + bytes, from_position + bytes),
                false => (to_position - bytes, from_position - bytes),
            };
        }
        Some(())
    }

    /// Copies the first strip of a range, of at most `limit` bytes; returns its bytes.
    fn copy_first_strip<B: WriteBarrier>(
        &mut self,
        to: &Destination<B>,
        to_position: u64,
        from: &Elements,
        from_position: u64,
        limit: u64,
    ) -> Option<u64> {
        let (target, source) = (to.parts.at(to_position), from.parts.at(from_position));
        let bytes = (target.end() - to_position).min(source.end() - from_position).min(limit);
        self.copy_strip((to, &target, to_position), (from, &source, from_position), bytes)?;
        Some(bytes)
    }

    /// Copies the last strip of a range that ends at these positions, of at most `limit` bytes; returns its bytes.
    fn copy_last_strip<B: WriteBarrier>(
        &mut self,
        to: &Destination<B>,
        to_end: u64,
        from: &Elements,
        from_end: u64,
        limit: u64,
    ) -> Option<u64> {
        let (target, source) = (to.parts.at(to_end - 1), from.parts.at(from_end - 1));
        let bytes = (to_end - target.start).min(from_end - source.start).min(limit);
        self.copy_strip((to, &target, to_end - bytes), (from, &source, from_end - bytes), bytes)?;
        Some(bytes)
    }

    /// Copies a strip of `bytes` bytes. Either side is an array, a part of it, and a position in that part.
    #[inline]
    fn copy_strip<B: WriteBarrier>(
        &mut self,
        (to, target, to_position): (&Destination<B>, &Part, u64),
        (from, source, from_position): (&Elements, &Part, u64),
        bytes: u64,
    ) -> Option<()> {
        if let PartPlace::Leaf(slot) = target.place {
            let mode = self.spines.expect("spines have leaves");
            let from_zero = self.is_zero_part(source.place);
            if from_zero && self.is_zero_part(target.place) {
                return Some(());
            }
            let is_whole = bytes == u64::from(mode.layout.leaf_bytes());
            let may_share = is_whole && mode.fast_copy && !self.is_inline_leaf(to, slot);
            if may_share && !self.has_view(to) && !self.has_view(from) {
                match source.place {
                    // Within one array, the first N bytes may have grown over the source on the way.
                    PartPlace::Leaf(source) if mode.copy_on_write && !self.is_inline_leaf(from, source) => {
                        self.share_leaf(to, slot, from, source);
                        return Some(());
                    }
                    PartPlace::Leaf(_) if from_zero => {
                        self.give_up_leaf(to, slot);
                        return Some(());
                    }
                    _ => {}
                }
            }
        }
        let to_offset = self.writable(to, target, to_position, bytes)?;
        let from_offset = self.part_offset(source.place) + (from_position - source.start) as u32;
        self.copy_bytes(to, to_offset, from_offset, bytes);
        Some(())
    }
}
