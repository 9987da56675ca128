//! Leaves of arrays: taking, sharing, giving each spine its own (Z-Rays, sections 4.4 and 4.7).

use super::TakenLeaves;
use super::elements::{Destination, Elements};
use super::parts::{PartPlace, Parts};
use super::pointers::{follow_remainder, install, leaf_of, pointer_at};
use crate::barrier::WriteBarrier;
use crate::blocks::ZERO_LEAF;
use crate::core::Core;
use crate::layout::{POINTER_BYTES, TAINT};
use crate::references::ReferenceModel;
use crate::spaces::Contents;
use crate::spaces::leaves::LeafKind;
use std::sync::atomic::Ordering;

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

impl<M: ReferenceModel> Core<M> {
    /// The parts of an array of `length` elements.
    #[inline(always)]
    pub(crate) fn parts(&self, object: u32, element_bytes: u32, length: u32) -> Parts {
        Parts::of(self.pool.cage.memory(), self.spines.map(|mode| mode.layout), object, element_bytes, length)
    }

    /// Where the bytes of a part begin.
    #[inline]
    pub(crate) fn part_offset(&self, place: PartPlace) -> u32 {
        match place {
            PartPlace::Object(offset) => offset,
            PartPlace::Leaf(slot) => {
                // SAFETY: a part in a leaf names its pointer.
                leaf_of(unsafe { pointer_at(self.pool.cage.memory(), slot) }.load(Ordering::Acquire))
            }
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
            PartPlace::Object(offset) => return Run { offset: offset + inside, bytes },
            PartPlace::Leaf(slot) => slot,
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

    /// Takes a leaf, from the reserve if need be, and asks for a collection soon where enough has been taken, the
    /// reserve runs low, or there is none.
    fn take_leaf(&mut self, kind: LeafKind, contents: Contents) -> Option<u32> {
        let was_low = self.pool.is_reserve_low();
        let leaf = self.leaves.allocate(&mut self.pool, kind, contents, true);
        if leaf.is_none() || !was_low && self.pool.is_reserve_low() {
            self.lacking = Some(kind);
            self.context.raise_poll();
        }
        self.count_taken(0);
        leaf
    }

    /// Counts leaves that have been made inline, and asks for a collection soon where enough has been taken.
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
            && let Some(inline) = self.grow_to(to, slot)
        {
            return Some(inline);
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
        self.mirror(to.object, slot..slot + POINTER_BYTES);
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
        if self.pool.mark_old(leaf) {
            self.leaves.adopt(1);
            self.pacer.charge(u64::from(self.leaves.leaf_bytes()));
        }
    }

    /// Lets a pointer of the destination lead to the leaf behind the source's, which nobody may write through either
    /// from then on.
    pub(super) fn share_leaf<B: WriteBarrier>(
        &mut self,
        to: &Destination<B>,
        slot: u32,
        from: &Elements,
        source_slot: u32,
    ) {
        let memory = self.pool.cage.memory();
        // SAFETY: both are pointers of spines.
        let (pointer, source) = unsafe { (pointer_at(memory, slot), pointer_at(memory, source_slot)) };
        let seen = source.load(Ordering::Acquire);
        let shared = seen | TAINT;
        if seen != shared {
            install(source, seen, shared);
            self.mirror(from.object, source_slot..source_slot + POINTER_BYTES);
        }
        let leaf = leaf_of(shared);
        self.store_elements(to, leaf, self.leaves.leaf_bytes(), false, |_| pointer.store(shared, Ordering::Release));
        self.mirror(to.object, slot..slot + POINTER_BYTES);
        if leaf != ZERO_LEAF {
            self.taken.shared += 1;
            // The source may give it up before its turn to be marked comes.
            self.pool.mark_born(leaf);
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
        debug_assert!(!mode.layout.grows, "arrays with reserved space are whole at once");
        for number in 0..spine.leaves {
            let Some(leaf) = self.take_leaf(kind, contents) else { return false };
            // SAFETY: the object has been allocated with room for the pointers.
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
            PartPlace::Object(_) => false,
            // SAFETY: a part in a leaf names its pointer.
            PartPlace::Leaf(slot) => mode.is_unwritable(unsafe { pointer_at(memory, slot) }.load(Ordering::Relaxed)),
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
