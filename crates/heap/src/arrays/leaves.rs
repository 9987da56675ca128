//! Leaves and the pointers that lead to them: installing, sharing, marking, compressing (Z-Rays, sections 4.4, 4.5 and
//! 4.7).

use super::bulk::Destination;
use super::parts::{Parts, Place};
use super::{SpineMode, TakenLeaves};
use crate::barrier::WriteBarrier;
use crate::blocks::{BlockPool, ZERO_LEAF};
use crate::cage::Memory;
use crate::core::{Contents, Core};
use crate::layout::{POINTER_BYTES, TAINT};
use crate::references::ReferenceModel;
use crate::spaces::leaves::LeafKind;
use crate::views::DoubleMaps;
use std::sync::atomic::{AtomicU32, Ordering};

impl SpineMode {
    /// The pointer to the zero leaf.
    #[inline(always)]
    pub(crate) fn zero_pointer(&self) -> u32 {
        ZERO_LEAF | if self.copy_on_write { TAINT } else { 0 }
    }

    /// Whether the leaf must not be written through this pointer.
    #[inline(always)]
    pub(crate) fn is_unwritable(&self, pointer: u32) -> bool {
        pointer & TAINT != 0 || pointer == ZERO_LEAF
    }
}

/// The leaf that a pointer leads to.
#[inline(always)]
pub(crate) fn leaf_of(pointer: u32) -> u32 {
    pointer & !TAINT
}

/// The pointer at a cage offset. Helper threads of the heap may install leaves too: pointers are atomic words.
///
/// # Safety
/// A pointer of a spine lies there.
#[inline(always)]
pub(crate) unsafe fn pointer_at<'a>(memory: Memory, slot: u32) -> &'a AtomicU32 {
    // SAFETY: by the contract; an aligned word of committed memory, reached as an atomic word alone while others may.
    unsafe { AtomicU32::from_ptr(memory.address(slot).cast()) }
}

/// Replaces the pointer that was seen, unless somebody else was faster; returns the pointer that is there now, and
/// whether it is the new one.
#[inline]
pub(crate) fn install(pointer: &AtomicU32, seen: u32, new: u32) -> (u32, bool) {
    match pointer.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => (new, true),
        Err(current) => (current, false),
    }
}

/// Whether `bytes` bytes, a multiple of 64 aligned to 8, are all zero.
///
/// # Safety
/// The memory is readable.
unsafe fn is_zero(address: *const u8, bytes: u32) -> bool {
    let line = |number: usize| {
        // SAFETY: by the contract.
        let words = unsafe { address.cast::<[u64; 8]>().add(number).read() };
        words.iter().fold(0, |all, word| all | word) == 0
    };
    (0..bytes as usize / 64).all(line)
}

/// The cage offsets of the bytes `[from, to)` of an array, strip by strip; zeros that take no memory are left out.
pub(crate) fn strips(parts: Parts, memory: Memory, from: u64, to: u64) -> impl Iterator<Item = (u32, u32)> {
    parts.between(from, to).filter_map(move |part| {
        let offset = match part.place {
            Place::Object(offset) => offset,
            // SAFETY: a part in a leaf names its pointer.
            Place::Leaf(slot) => leaf_of(unsafe { pointer_at(memory, slot) }.load(Ordering::Relaxed)),
        };
        let (first, end) = (part.start.max(from) - part.start, part.end().min(to) - part.start);
        (offset != ZERO_LEAF).then_some((offset + first as u32, offset + end as u32))
    })
}

/// Contiguous bytes of an array, possibly over several leaves that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Run {
    /// The cage offset of the first byte; of the end, where the run leads backwards.
    pub(crate) offset: u32,
    pub(crate) bytes: u64,
}

impl Run {
    /// What is left of the run behind its first `bytes` bytes, in its direction.
    #[inline(always)]
    pub(crate) fn after(self, bytes: u64, forward: bool) -> Run {
        let offset = if forward { self.offset + bytes as u32 } else { self.offset - bytes as u32 };
        Run { offset, bytes: self.bytes - bytes }
    }
}

/// What marking the leaves of spines has found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafTally {
    /// Leaves marked, in leaves.
    pub(crate) marked: u64,
    /// Leaves of zeros that spines have given up.
    pub(crate) compressed: u64,
}

/// Marks the leaves of a spine, and lets go of those that hold zeros alone, unless they are mapped a second time. The
/// mutator stands.
pub(crate) fn mark_leaves(
    pool: &mut BlockPool,
    mode: &SpineMode,
    views: &DoubleMaps,
    parts: &Parts,
    tally: &mut LeafTally,
) {
    let Some((object, spine)) = parts.spine() else { return };
    let memory = pool.cage.memory();
    // SAFETY: the spine has so many pointers.
    let pointer = |number| unsafe { pointer_at(memory, object + spine.pointers + 4 * number) };
    let has_view = !views.is_empty() && spine.leaves > 0 && views.find(pointer(0).load(Ordering::Relaxed)).is_some();
    let compresses = mode.zero_compression && !has_view;
    for number in parts.grown()..spine.leaves {
        let pointer = pointer(number);
        let leaf = leaf_of(pointer.load(Ordering::Relaxed));
        if leaf == ZERO_LEAF {
            continue;
        }
        // SAFETY: a pointer leads to a leaf.
        if compresses && unsafe { is_zero(memory.address(leaf), mode.layout.leaf_bytes()) } {
            pointer.store(mode.zero_pointer(), Ordering::Relaxed);
            tally.compressed += 1;
        } else if pool.marks.set(leaf) {
            tally.marked += 1;
        }
    }
}

/// Points the remainder's pointer of a spine that has been moved at where the remainder is now.
///
/// # Safety
/// The spine has been copied, and nobody else reaches the copy.
pub(crate) unsafe fn follow_remainder(memory: Memory, parts: &Parts) {
    if let Some((object, spine)) = parts.spine()
        && spine.remainder_bytes > 0
    {
        // SAFETY: the last pointer is the remainder's.
        unsafe { memory.write(object + spine.pointers + 4 * spine.leaves, object + spine.remainder) };
    }
}

impl<M: ReferenceModel> Core<M> {
    /// The parts of an array of `length` elements.
    #[inline(always)]
    pub(crate) fn parts(&self, object: u32, element_bytes: u32, length: u32) -> Parts {
        Parts::of(self.pool.cage.memory(), self.spines.map(|mode| mode.layout), object, element_bytes, length)
    }

    /// Where the bytes of a part begin.
    #[inline]
    pub(crate) fn part_offset(&self, place: Place) -> u32 {
        match place {
            Place::Object(offset) => offset,
            // SAFETY: a part in a leaf names its pointer.
            Place::Leaf(slot) => leaf_of(unsafe { pointer_at(self.pool.cage.memory(), slot) }.load(Ordering::Acquire)),
        }
    }

    /// The longest run of at most `limit` bytes from `position` on, or backwards from there. Empty where it would begin
    /// with zeros that take no memory, or, if it is to be `written`, with a leaf that must not be.
    #[inline]
    pub(crate) fn run(&self, parts: &Parts, position: u64, limit: u64, forward: bool, written: bool) -> Run {
        let part = parts.at(if forward { position } else { position - 1 });
        let inside = (position - part.start) as u32;
        let bytes = limit.min(if forward { part.end() - position } else { position - part.start });
        let slot = match part.place {
            Place::Object(offset) => return Run { offset: offset + inside, bytes },
            Place::Leaf(slot) => slot,
        };
        let (mode, memory) = (self.spines.expect("spines have leaves"), self.pool.cage.memory());
        let leaf_at = |slot| {
            // SAFETY: a part in a leaf names its pointer.
            let pointer = unsafe { pointer_at(memory, slot) }.load(Ordering::Acquire);
            let usable = if written { !mode.is_unwritable(pointer) } else { leaf_of(pointer) != ZERO_LEAF };
            usable.then_some(leaf_of(pointer))
        };
        let Some(mut leaf) = leaf_at(slot) else { return Run::default() };
        let mut run = Run { offset: leaf + inside, bytes };
        let Some((object, spine)) = parts.spine() else { return run };
        let first = object + spine.pointers;
        let (mut next, end, step) = match forward {
            true => (slot + POINTER_BYTES, first + POINTER_BYTES * spine.leaves, mode.layout.leaf_bytes()),
            false => (slot - POINTER_BYTES, first - POINTER_BYTES, mode.layout.leaf_bytes().wrapping_neg()),
        };
        while run.bytes < limit && next != end && leaf_at(next) == Some(leaf.wrapping_add(step)) {
            leaf = leaf.wrapping_add(step);
            run.bytes = limit.min(run.bytes + u64::from(mode.layout.leaf_bytes()));
            next = if forward { next + POINTER_BYTES } else { next - POINTER_BYTES };
        }
        run
    }

    /// Takes a leaf, from the reserve if need be, and asks for a collection soon where enough has been taken.
    fn take_leaf(&mut self, kind: LeafKind, contents: Contents) -> Option<u32> {
        let leaf = self.leaves.allocate(&mut self.pool, kind, contents, true)?;
        self.count_taken(0);
        Some(leaf)
    }

    /// Counts leaves that have been made at home, and asks for a collection soon where enough has been taken.
    pub(super) fn count_taken(&mut self, at_home: u32) {
        self.leaves.count(at_home);
        if self.leaves.allocated_bytes() > self.leaf_budget {
            self.context.raise_poll();
        }
    }

    /// The leaf behind the pointer at `slot`, which may be written from now on; `None` where there is no memory for one
    /// of its own. With `overwritten`, the caller writes all of it.
    pub(crate) fn writable_leaf<B: WriteBarrier>(
        &mut self,
        to: &Destination<B>,
        slot: u32,
        overwritten: bool,
    ) -> Option<u32> {
        let mode = self.spines.expect("spines have leaves");
        let memory = self.pool.cage.memory();
        // SAFETY: a part in a leaf names its pointer.
        let pointer = unsafe { pointer_at(memory, slot) };
        let seen = pointer.load(Ordering::Acquire);
        if !mode.is_unwritable(seen) {
            return Some(seen);
        }
        if mode.layout.grows
            && let Some(home) = self.grow_to(to, slot)
        {
            return Some(home);
        }
        let old = leaf_of(seen);
        let is_copied = old != ZERO_LEAF && !overwritten;
        let contents = if is_copied || overwritten { Contents::Unwritten } else { Contents::Zeroed };
        let new = self.take_leaf(to.kind, contents)?;
        let bytes = mode.layout.leaf_bytes();
        if is_copied {
            self.store_elements(to, new, bytes, false, |new| {
                // SAFETY: two different leaves, of which nobody reads the new one yet.
                unsafe { std::ptr::copy_nonoverlapping(memory.address(old), new, bytes as usize) }
            });
        }
        let (current, installed) = install(pointer, seen, new);
        if !installed {
            return Some(current);
        }
        self.taken.count(old == ZERO_LEAF);
        if to.barrier.adopts_leaves() {
            self.adopt(new);
        }
        Some(new)
    }

    /// Lets a leaf that a spine has taken count as live.
    fn adopt(&mut self, leaf: u32) {
        if self.pool.marks.set(leaf) {
            self.leaves.adopt(1);
            self.pacer.charge(u64::from(self.leaves.leaf_bytes()));
        }
    }

    /// Lets a pointer of the destination lead to the leaf behind the source's, which nobody may write through either
    /// from then on.
    pub(super) fn share_leaf<B: WriteBarrier>(&mut self, to: &Destination<B>, slot: u32, source: u32) {
        let memory = self.pool.cage.memory();
        // SAFETY: both are pointers of spines.
        let (pointer, source) = unsafe { (pointer_at(memory, slot), pointer_at(memory, source)) };
        let seen = source.load(Ordering::Acquire);
        let shared = seen | TAINT;
        if seen != shared {
            install(source, seen, shared);
        }
        let leaf = leaf_of(shared);
        self.store_elements(to, leaf, self.leaves.leaf_bytes(), false, |_| pointer.store(shared, Ordering::Release));
        if leaf != ZERO_LEAF {
            self.taken.shared += 1;
            if to.barrier.adopts_leaves() {
                self.adopt(leaf);
            }
        }
    }

    /// Points the pointers of a new spine somewhere: to the zero leaf, or to leaves of its own. False where there is no
    /// memory for them; the spine is sound then all the same.
    pub(crate) fn initialise_spine(&mut self, parts: &Parts, kind: LeafKind, contents: Contents) -> bool {
        let Some((object, spine)) = parts.spine() else { return true };
        let mode = self.spines.expect("spines have leaves");
        let memory = self.pool.cage.memory();
        // SAFETY: the object has been allocated with room for the pointers.
        unsafe {
            let pointers = memory.address(object + spine.pointers).cast::<u32>();
            std::slice::from_raw_parts_mut(pointers, spine.leaves as usize).fill(mode.zero_pointer());
            follow_remainder(memory, parts);
        }
        if mode.lazy {
            self.taken.lazy += u64::from(spine.leaves);
            return true;
        }
        debug_assert!(!mode.layout.grows, "arrays with room are whole at once");
        for number in 0..spine.leaves {
            let Some(leaf) = self.take_leaf(kind, contents) else { return false };
            // SAFETY: as above.
            unsafe { memory.write(object + spine.pointers + 4 * number, leaf) };
        }
        self.taken.eager += u64::from(spine.leaves);
        true
    }

    /// How many leaves would be needed to write the bytes `[from, to)` of an array.
    pub(crate) fn leaves_needed(&self, parts: &Parts, from: u64, to: u64) -> u64 {
        let Some(mode) = self.spines.filter(|_| parts.spine().is_some()) else { return 0 };
        let memory = self.pool.cage.memory();
        let is_unwritable = |place| match place {
            Place::Object(_) => false,
            // SAFETY: a part in a leaf names its pointer.
            Place::Leaf(slot) => mode.is_unwritable(unsafe { pointer_at(memory, slot) }.load(Ordering::Relaxed)),
        };
        parts.between(from, to).filter(|part| is_unwritable(part.place)).count() as u64
    }
}

impl TakenLeaves {
    /// Counts a leaf of a spine's own in place of the zero leaf, or of a shared one.
    fn count(&mut self, was_zero: bool) {
        if was_zero {
            self.on_store += 1;
        } else {
            self.unshared += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many threads install a leaf in one place: one wins, and all go on with its leaf.
    #[test]
    fn racing_installations_agree() {
        for round in 0..200u32 {
            let pointer = AtomicU32::new(ZERO_LEAF);
            let barrier = std::sync::Barrier::new(4);
            let install_one = |number: u32| {
                barrier.wait();
                install(&pointer, ZERO_LEAF, (round * 4 + number + 100) << 10)
            };
            let results: Vec<(u32, bool)> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || install_one(number))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let leaf = pointer.load(Ordering::Relaxed);
            assert!(results.iter().all(|&(seen, _)| seen == leaf), "{results:?}");
            assert_eq!(results.iter().filter(|(_, won)| *won).count(), 1);
        }
    }

    #[test]
    fn zeros_are_told_to_the_last_byte() {
        let mut memory = vec![0u64; 32];
        // SAFETY: so many bytes.
        let ask = |memory: &[u64]| unsafe { is_zero(memory.as_ptr().cast(), 256) };
        assert!(ask(&memory));
        for word in [0, 7, 8, 31] {
            memory[word] = 1 << 63;
            assert!(!ask(&memory), "word {word}");
            memory[word] = 0;
        }
    }
}
