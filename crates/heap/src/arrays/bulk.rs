//! Operations on ranges of elements, on every layout: strip by strip, with the look-up of the leaf, the barriers and the checks for
//! the zero leaf and for shared leaves done once for each strip (Z-Rays, section 4.6).
//!
//! A *strip* is what lies contiguously on both sides of a copy. None of these operations collects. Where one needs leaves, the caller
//! has made room for them; what is lacking all the same is `None`, and a part of the range may have been written then.

use super::Arrays;
use super::leaves::{Run, install, leaf_of, pointer_at};
use super::parts::{Part, Parts, Place};
use crate::blocks::ZERO_LEAF;
use crate::core::Core;
use crate::layout::{ARRAY_LENGTH_OFFSET, StorageKind, TYPE_ID_OFFSET, elements_offset};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::spaces::leaves::LeafKind;
use crate::types::{TypeId, TypeKind};
use std::sync::atomic::Ordering;

/// An array as bulk operations see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    pub(crate) object: u32,
    pub(crate) parts: Parts,
    /// Bytes of an element.
    size: u32,
    pub(crate) length: u32,
    pub(crate) kind: LeafKind,
}

impl Elements {
    /// The byte positions of `length` elements from `start` on; `None` where the array has fewer.
    #[inline]
    pub(crate) fn positions(&self, start: u32, length: u32) -> Option<(u64, u64)> {
        let end = u64::from(start) + u64::from(length);
        (end <= u64::from(self.length)).then(|| (u64::from(start) * u64::from(self.size), end * u64::from(self.size)))
    }

    fn checked(&self, start: u32, length: u32) -> (u64, u64) {
        self.positions(start, length).unwrap_or_else(|| {
            let end = u64::from(start) + u64::from(length);
            panic!("elements {start}..{end} of an array of {}", self.length)
        })
    }
}

/// Longer copies may share pages (`mapped`), in bytes.
const LONGEST_QUICK: u64 = 32 << 10;

impl<M: ReferenceModel> Core<M> {
    /// An array, checked to be one.
    pub(crate) fn elements(&self, array: Reference) -> Elements {
        let object = self.object(array);
        let record = self.types.record(self.type_of(array));
        assert!(record.kind == TypeKind::Array as u32, "{array:?} is no array");
        // SAFETY: as checked.
        unsafe { self.trusted_elements(object) }
    }

    /// The array at `object`.
    ///
    /// # Safety
    /// An array of this heap starts there.
    #[inline(always)]
    pub(crate) unsafe fn trusted_elements(&self, object: u32) -> Elements {
        // SAFETY: the object has a header with its type, and a length.
        let (record, length) = unsafe {
            let id = TypeId(self.pool.cage.read(object + TYPE_ID_OFFSET));
            (self.types.record_unchecked(id), self.pool.cage.read(object + ARRAY_LENGTH_OFFSET))
        };
        debug_assert_eq!(record.kind, TypeKind::Array as u32);
        Elements {
            object,
            parts: self.parts(object, record.bytes, length),
            size: record.bytes,
            length,
            kind: if record.reference_map != 0 { LeafKind::References } else { LeafKind::Numbers },
        }
    }

    /// The object that compiled code names.
    ///
    /// # Safety
    /// `object` refers to an object of this heap.
    #[inline(always)]
    pub(crate) unsafe fn trusted_object(&self, object: Reference) -> u32 {
        // SAFETY: by the contract.
        unsafe { M::object(&self.pool.cage, object) }
    }

    /// The array that compiled code names.
    ///
    /// # Safety
    /// `array` refers to an array of this heap.
    #[inline(always)]
    pub(crate) unsafe fn trusted_array(&self, array: Reference) -> Elements {
        // SAFETY: by the contract.
        unsafe { self.trusted_elements(self.trusted_object(array)) }
    }

    /// Reads an element's bits, zero-extended.
    pub(crate) fn array_get(&self, array: Reference, index: u32) -> u128 {
        let elements = self.elements(array);
        let mut bits = [0; 16];
        self.read_bytes(&elements, index, &mut bits[..elements.size as usize]);
        u128::from_le_bytes(bits)
    }

    /// Copies whole elements from `start` on out.
    pub(crate) fn read_bytes(&self, elements: &Elements, start: u32, bytes: &mut [u8]) {
        let length = u32::try_from(bytes.len() / elements.size as usize).expect("no array is longer");
        let (from, to) = elements.checked(start, length);
        for part in elements.parts.between(from, to) {
            let (first, end) = (part.start.max(from), part.end().min(to));
            let source = self.pool.cage.address(self.part_offset(part.place) + (first - part.start) as u32);
            let target = &mut bytes[(first - from) as usize..(end - from) as usize];
            // SAFETY: the part lies in the array, and the slice of the host overlaps no object.
            unsafe { std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) };
        }
    }

    /// Writes whole elements from `start` on, given by their bytes: numbers, or references where the array holds such.
    pub(crate) fn write_bytes(&mut self, elements: &Elements, start: u32, bytes: &[u8], is_old: bool) -> Option<()> {
        let length = u32::try_from(bytes.len() / elements.size as usize).expect("no array is longer");
        let (from, to) = elements.checked(start, length);
        for part in elements.parts.between(from, to) {
            let (first, end) = (part.start.max(from), part.end().min(to));
            let source = &bytes[(first - from) as usize..(end - from) as usize];
            if self.is_zero_part(part.place) && source.iter().all(|&byte| byte == 0) {
                continue;
            }
            let target = self.writable(elements, &part, first, end - first, is_old)?;
            // SAFETY: the part lies in the array, and the slice of the host overlaps no object.
            unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), self.pool.cage.address(target), source.len()) };
            self.remember(elements, target, source.len() as u32, is_old);
        }
        Some(())
    }

    /// Writes the low bits of `bits` to the elements at the byte positions `[from, to)`.
    pub(crate) fn fill(&mut self, elements: &Elements, from: u64, to: u64, bits: u128, is_old: bool) -> Option<()> {
        let size = elements.size;
        let is_zero = bits.to_le_bytes()[..size as usize].iter().all(|&byte| byte == 0);
        for part in elements.parts.between(from, to) {
            let (first, end) = (part.start.max(from), part.end().min(to));
            if is_zero && self.is_filled_with_zeros(&part, end - first) {
                continue;
            }
            let target = self.writable(elements, &part, first, end - first, is_old)?;
            // SAFETY: the elements lie in the array.
            unsafe {
                fill(self.pool.cage.address(target), size as usize, bits, ((end - first) / u64::from(size)) as usize)
            };
            if !is_zero {
                self.remember(elements, target, (end - first) as u32, is_old);
            }
        }
        Some(())
    }

    /// As [`copy`](Self::copy), of elements, where both arrays lie in one piece and nothing is to be shared or counted: most copies are short,
    /// and this is quick. `None` where they do not; else the cage offset and bytes of what has been written and whether these are
    /// references, or `None` where a range lies outside of its array.
    ///
    /// # Safety
    /// Arrays of this heap with elements of one size start at `to` and `from`.
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub(crate) unsafe fn copy_whole(
        &self,
        (to, to_start): (u32, u32),
        (from, from_start): (u32, u32),
        length: u32,
    ) -> Option<Option<(u32, u32, bool)>> {
        let memory = self.pool.cage.memory();
        // SAFETY: the objects have headers with their types, and lengths.
        let (record, to_length, from_length) = unsafe {
            let record = self.types.record_unchecked(TypeId(memory.read(to + TYPE_ID_OFFSET)));
            (record, memory.read(to + ARRAY_LENGTH_OFFSET), memory.read(from + ARRAY_LENGTH_OFFSET))
        };
        let size = record.bytes;
        let is_divided = |array_length| self.spines.is_some_and(|mode| mode.layout.divides(size, array_length));
        let bytes = u64::from(size) * u64::from(length);
        if is_divided(to_length) || is_divided(from_length) || bytes > LONGEST_QUICK || self.config.count_accesses {
            return None;
        }
        let is_outside = |start, array_length| u64::from(start) + u64::from(length) > u64::from(array_length);
        if is_outside(to_start, to_length) || is_outside(from_start, from_length) {
            return Some(None);
        }
        let (target, source) =
            (to + elements_offset(size) + size * to_start, from + elements_offset(size) + size * from_start);
        // SAFETY: both ranges lie in their arrays; they may overlap.
        unsafe { std::ptr::copy(memory.address(source), memory.address(target), bytes as usize) };
        Some(Some((target, bytes as u32, record.reference_map != 0)))
    }

    /// Copies `bytes` bytes of whole elements between arrays of equal element size, or within one. The ranges may overlap.
    pub(crate) fn copy(
        &mut self,
        to: &Elements,
        mut to_position: u64,
        from: &Elements,
        mut from_position: u64,
        bytes: u64,
        is_old: bool,
    ) -> Option<()> {
        self.count_copy(to_position, to_position + bytes);
        if bytes == 0 || to.object == from.object && to_position == from_position {
            return Some(());
        }
        if let Some(true) =
            u32::try_from(bytes).ok().map(|bytes| self.share_pages(to, to_position, from, from_position, bytes))
        {
            self.remember(to, self.part_offset(to.parts.at(0).place) + to_position as u32, bytes as u32, is_old);
            return Some(());
        }
        if let (Some(target), Some(source)) = (to.parts.whole(), from.parts.whole()) {
            let (target, source) = (target + to_position as u32, source + from_position as u32);
            let cage = &self.pool.cage;
            // SAFETY: both ranges lie in their arrays; they may overlap.
            unsafe { std::ptr::copy(cage.address(source), cage.address(target), bytes as usize) };
            self.remember(to, target, bytes as u32, is_old);
            return Some(());
        }
        // Backwards where the source would be overwritten before it is read.
        let (forward, shift) =
            (to.object != from.object || to_position < from_position, from_position.abs_diff(to_position));
        let strip = match self.spines {
            Some(mode) if !mode.fast_copy => u64::from(to.size),
            // Whole leaves are shared, one by one.
            Some(mode) if mode.copy_on_write && shift.is_multiple_of(u64::from(mode.layout.leaf_bytes())) => u64::MAX,
            _ => return self.copy_runs(to, to_position, from, from_position, bytes, is_old, forward),
        };
        if forward {
            let end = to_position + bytes;
            while to_position < end {
                let left = end - to_position;
                let copied = self.copy_first_strip(to, to_position, from, from_position, left.min(strip), is_old)?;
                (to_position, from_position) = (to_position + copied, from_position + copied);
            }
        } else {
            let mut left = bytes;
            while left > 0 {
                let (to_end, from_end) = (to_position + left, from_position + left);
                left -= self.copy_last_strip(to, to_end, from, from_end, left.min(strip), is_old)?;
            }
        }
        Some(())
    }

    /// Copies between mapped arrays by sharing pages, where that pays; says whether it has.
    #[inline]
    fn share_pages(
        &mut self,
        to: &Elements,
        to_position: u64,
        from: &Elements,
        from_position: u64,
        bytes: u32,
    ) -> bool {
        if self.config.arrays != Arrays::Mapped {
            return false;
        }
        let at = |elements: &Elements, position| self.part_offset(elements.parts.at(0).place) + position as u32;
        let (to, from) = (at(to, to_position), at(from, from_position));
        self.mapped.copy(&self.pool, to, from, bytes)
    }

    /// Copies by the longest runs that are contiguous on both sides: over several leaves, where these follow each other.
    #[allow(clippy::too_many_arguments)]
    fn copy_runs(
        &mut self,
        to: &Elements,
        mut to_position: u64,
        from: &Elements,
        mut from_position: u64,
        mut left: u64,
        is_old: bool,
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
                let cage = &self.pool.cage;
                // SAFETY: both runs lie in their arrays; they may overlap.
                unsafe { std::ptr::copy(cage.address(from_offset), cage.address(to_offset), bytes as usize) };
                self.remember(to, to_offset, bytes as u32, is_old);
                (target, source) = (target.after(bytes, forward), source.after(bytes, forward));
            } else {
                bytes = match forward {
                    true => self.copy_first_strip(to, to_position, from, from_position, left, is_old)?,
                    false => self.copy_last_strip(to, to_position, from, from_position, left, is_old)?,
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
    fn copy_first_strip(
        &mut self,
        to: &Elements,
        to_position: u64,
        from: &Elements,
        from_position: u64,
        limit: u64,
        is_old: bool,
    ) -> Option<u64> {
        let (target, source) = (to.parts.at(to_position), from.parts.at(from_position));
        let bytes = (target.end() - to_position).min(source.end() - from_position).min(limit);
        self.copy_strip((to, &target, to_position), (from, &source, from_position), bytes, is_old)?;
        Some(bytes)
    }

    /// Copies the last strip of a range that ends at these positions, of at most `limit` bytes; returns its bytes.
    fn copy_last_strip(
        &mut self,
        to: &Elements,
        to_end: u64,
        from: &Elements,
        from_end: u64,
        limit: u64,
        is_old: bool,
    ) -> Option<u64> {
        let (target, source) = (to.parts.at(to_end - 1), from.parts.at(from_end - 1));
        let bytes = (to_end - target.start).min(from_end - source.start).min(limit);
        self.copy_strip((to, &target, to_end - bytes), (from, &source, from_end - bytes), bytes, is_old)?;
        Some(bytes)
    }

    /// Copies a strip of `bytes` bytes. Either side is an array, a part of it, and a position in that part.
    #[inline]
    fn copy_strip(
        &mut self,
        (to, target, to_position): (&Elements, &Part, u64),
        (from, source, from_position): (&Elements, &Part, u64),
        bytes: u64,
        is_old: bool,
    ) -> Option<()> {
        if let Place::Leaf(slot) = target.place {
            let mode = self.spines.expect("spines have leaves");
            let from_zero = self.is_zero_part(source.place);
            if from_zero && self.is_zero_part(target.place) {
                return Some(());
            }
            let is_whole = bytes == u64::from(mode.layout.leaf_bytes());
            if is_whole && mode.fast_copy && !self.has_view(to) && !self.has_view(from) {
                match source.place {
                    Place::Leaf(from) if mode.copy_on_write => {
                        self.share_leaf(slot, from, is_old);
                        let leaf = self.part_offset(target.place);
                        self.remember(to, leaf, bytes as u32, is_old);
                        return Some(());
                    }
                    Place::Leaf(_) if from_zero => {
                        self.give_up_leaf(slot);
                        return Some(());
                    }
                    _ => {}
                }
            }
        }
        let to_offset = self.writable(to, target, to_position, bytes, is_old)?;
        let from_offset = self.part_offset(source.place) + (from_position - source.start) as u32;
        let cage = &self.pool.cage;
        // SAFETY: both strips lie in their arrays; they may overlap.
        unsafe { std::ptr::copy(cage.address(from_offset), cage.address(to_offset), bytes as usize) };
        self.remember(to, to_offset, bytes as u32, is_old);
        Some(())
    }

    /// Whether the part is a leaf of zeros that has never been allocated.
    #[inline]
    fn is_zero_part(&self, place: Place) -> bool {
        matches!(place, Place::Leaf(_)) && self.part_offset(place) == ZERO_LEAF
    }

    /// Whether writing zeros to `bytes` bytes of a part takes no memory: there are zeros, or the whole leaf is shared and given up.
    fn is_filled_with_zeros(&mut self, part: &Part, bytes: u64) -> bool {
        let (Place::Leaf(slot), Some(mode)) = (part.place, self.spines) else { return false };
        // SAFETY: a part in a leaf names its pointer.
        let pointer = unsafe { pointer_at(self.pool.cage.memory(), slot) }.load(Ordering::Acquire);
        if leaf_of(pointer) == ZERO_LEAF {
            return true;
        }
        let gives_up = mode.is_unwritable(pointer) && mode.has_zero_leaf() && bytes == part.bytes;
        if gives_up {
            self.give_up_leaf(slot);
        }
        gives_up
    }

    /// Lets a pointer lead to the zero leaf.
    fn give_up_leaf(&mut self, slot: u32) {
        let mode = self.spines.expect("spines have leaves");
        // SAFETY: a part in a leaf names its pointer.
        let pointer = unsafe { pointer_at(self.pool.cage.memory(), slot) };
        let seen = pointer.load(Ordering::Acquire);
        install(pointer, seen, mode.zero_pointer());
    }

    /// Where `bytes` bytes from `position` on can be written, which lie in `part`.
    #[inline]
    pub(crate) fn writable(
        &mut self,
        elements: &Elements,
        part: &Part,
        position: u64,
        bytes: u64,
        is_old: bool,
    ) -> Option<u32> {
        let start = match part.place {
            Place::Object(offset) => offset,
            Place::Leaf(slot) => {
                let overwritten = bytes == u64::from(self.leaves.leaf_bytes());
                self.writable_leaf(slot, elements.kind, is_old, overwritten)?
            }
        };
        Some(start + (position - part.start) as u32)
    }

    /// The barrier of references written to `bytes` bytes from an offset on.
    #[inline]
    fn remember(&self, elements: &Elements, offset: u32, bytes: u32, is_old: bool) {
        if is_old && elements.kind == LeafKind::References {
            self.pool.cage.mark_cards(offset, bytes);
        }
    }

    /// The leaf that the element at `index` is to be written to, by its offset: the zero leaf where `is_zero` says that zero is
    /// written to zeros. The element lies in a leaf.
    ///
    /// # Safety
    /// `object` is a spine of this heap, and the element lies beyond its first N bytes.
    pub(crate) unsafe fn leaf_for_store(
        &mut self,
        object: u32,
        index: u32,
        is_zero: bool,
        is_old: bool,
    ) -> Option<u32> {
        // SAFETY: by the contract.
        let elements = unsafe { self.trusted_elements(object) };
        let part = elements.parts.at(u64::from(index) * u64::from(elements.size));
        match part.place {
            Place::Object(offset) => Some(offset),
            place if is_zero && self.is_zero_part(place) => Some(leaf_of(ZERO_LEAF)),
            Place::Leaf(slot) => self.writable_leaf(slot, elements.kind, is_old, false),
        }
    }

    /// The element kind of an array.
    pub(crate) fn element_kind(&self, array: Reference) -> StorageKind {
        match &self.types.info(self.type_of(array)).shape {
            crate::TypeShape::Array(kind) => *kind,
            _ => panic!("{array:?} is no array"),
        }
    }

    /// Writes the low bits of `bits` to checked elements.
    pub(crate) fn array_fill(
        &mut self,
        array: Reference,
        start: u32,
        bits: u128,
        length: u32,
        is_old: bool,
    ) -> Option<()> {
        let elements = self.elements(array);
        let (from, to) = elements.checked(start, length);
        self.fill(&elements, from, to, bits, is_old)
    }

    /// Copies checked elements.
    pub(crate) fn array_copy(
        &mut self,
        (destination, destination_start): (Reference, u32),
        (source, source_start): (Reference, u32),
        length: u32,
        is_old: bool,
    ) -> Option<()> {
        let (to, from) = (self.elements(destination), self.elements(source));
        assert!(to.size == from.size, "arrays of different element sizes");
        let (to_position, to_end) = to.checked(destination_start, length);
        let (from_position, _) = from.checked(source_start, length);
        self.copy(&to, to_position, &from, from_position, to_end - to_position, is_old)
    }
}

/// Writes the low bits of `bits` to `length` elements of `size` bytes.
///
/// # Safety
/// The elements are memory to be written, each aligned to its size up to 8.
unsafe fn fill(address: *mut u8, size: usize, bits: u128, length: usize) {
    let bytes = bits.to_le_bytes();
    // SAFETY: by the contract.
    unsafe {
        match size {
            1 => std::ptr::write_bytes(address, bytes[0], length),
            2 => std::slice::from_raw_parts_mut(address.cast::<u16>(), length).fill(bits as u16),
            4 => std::slice::from_raw_parts_mut(address.cast::<u32>(), length).fill(bits as u32),
            8 => std::slice::from_raw_parts_mut(address.cast::<u64>(), length).fill(bits as u64),
            _ => (0..length).for_each(|index| {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), address.add(index * size), size);
            }),
        }
    }
}
