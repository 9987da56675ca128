//! First N bytes that grow.

use legato_compiler::module::CompositeType;
use legato_heap::layout::{INLINE_LENGTH_OFFSET, SpineLayout, StorageKind, TAINT};
use legato_heap::plan::ArrayPlan;

use super::World;

/// What a leaf that has been grown over is overwritten with.
const STALE: u8 = 0x3d;
/// One of so many demands for a leaf makes the array lie in one piece altogether.
const DEMANDS_FOR_ALL: u32 = 101;
/// One of so many collections lets arrays grow.
const COLLECTIONS_TO_GROW: u32 = 7;

impl World {
    /// Whether arrays have inline lengths, and how they are divided then.
    pub(super) fn growing_layout(&self) -> Option<SpineLayout> {
        match self.module.plan.arrays {
            ArrayPlan::Spines(plan) if plan.layout.grows => Some(plan.layout),
            _ => None,
        }
    }

    pub(super) fn inline_length(&self, object: u32) -> u32 {
        self.read(object + INLINE_LENGTH_OFFSET)
    }

    /// Whether an object is a spine that has room: such never move.
    pub(super) fn has_homes(&self, ty: usize, object: u32) -> bool {
        self.growing_layout().is_some()
            && matches!(self.module.info.types[ty].composite, CompositeType::Array(_))
            && self.spine_plan(self.element_kind(ty), self.read(object + 8)).is_some()
    }

    /// Writes the inline length of a new array.
    pub(super) fn start_inline_length(&self, ty: usize, object: u32, length: u32) {
        let Some(layout) = self.growing_layout() else { return };
        let size = self.element_kind(ty).bytes();
        let inline = if layout.divides(size, length) { layout.first_n / size } else { length };
        self.write(object + INLINE_LENGTH_OFFSET, inline);
    }

    /// Checks what compiled code has written into the header of an array in one piece.
    pub(super) fn check_inline_length(&self, ty: usize, object: u32) {
        if self.growing_layout().is_some() && matches!(self.module.info.types[ty].composite, CompositeType::Array(_)) {
            assert!(!self.has_homes(ty, object), "an array that is divided has been allocated inline");
            assert_eq!(self.inline_length(object), self.read(object + 8), "the inline length of a new array");
        }
    }

    /// Where a leaf lies once it is inline.
    pub(super) fn inline_offset(&self, ty: usize, object: u32, leaf: u32) -> u32 {
        let layout = self.growing_layout().expect("the first bytes grow");
        let spine = layout.spine(self.element_kind(ty).bytes(), self.read(object + 8));
        object + spine.elements + layout.first_n + (leaf << layout.leaf_log2)
    }

    /// Whether the leaf that a slot leads to is inline.
    pub(super) fn is_inline_leaf(&self, object: u32, ty: usize, slot: u32) -> bool {
        let at = self.read(slot) & !TAINT;
        self.growing_layout().is_some() && (object..object + self.size(ty, object)).contains(&at)
    }

    /// The number of the first leaf that an array has not grown over.
    fn first_leaf(&self, ty: usize, object: u32) -> u32 {
        let layout = self.growing_layout().expect("arrays grow");
        (self.inline_length(object) * self.element_kind(ty).bytes() - layout.first_n) >> layout.leaf_log2
    }

    /// Decides whether an array grows where a leaf is asked for: over the leaf in question, if that is the next one, or
    /// over all. One demand of three gets a leaf of its own, so that the next ones are not in order.
    pub(super) fn grow_for_store(&mut self, ty: usize, object: u32, index: u32) -> bool {
        let layout = self.growing_layout().expect("arrays grow");
        let size = self.element_kind(ty).bytes();
        let spine = layout.spine(size, self.read(object + 8));
        let leaf = (index * size - layout.first_n) >> layout.leaf_log2;
        let turn = self.leaves + self.grown;
        if turn % DEMANDS_FOR_ALL == DEMANDS_FOR_ALL - 1 {
            self.grow(ty, object, spine.leaves);
            return true;
        }
        let grows = turn % 3 != 2 && leaf == self.first_leaf(ty, object);
        if grows {
            self.grow(ty, object, leaf + 1);
        }
        grows
    }

    /// Lets the arrays that are in use grow by a leaf now and then.
    pub(super) fn grow_at_collection(&mut self, marked: &[bool]) {
        if self.growing_layout().is_none() || !self.collections.is_multiple_of(COLLECTIONS_TO_GROW) {
            return;
        }
        for (number, _) in marked.iter().enumerate().filter(|(_, marked)| **marked) {
            let (_, object, ty) = self.objects[number];
            if self.has_homes(ty, object) && self.inline_length(object) < self.read(object + 8) {
                let leaf = self.first_leaf(ty, object);
                self.grow(ty, object, leaf + 1);
            }
        }
    }

    /// Makes the first `leaves` leaves of an array lie inline.
    fn grow(&mut self, ty: usize, object: u32, leaves: u32) {
        let layout = self.growing_layout().expect("arrays grow");
        let (kind, length) = (self.element_kind(ty), self.read(object + 8));
        let spine = layout.spine(kind.bytes(), length);
        let ArrayPlan::Spines(plan) = self.module.plan.arrays else { unreachable!("arrays grow") };
        self.grown += 1;
        for number in self.first_leaf(ty, object)..leaves {
            let (slot, inline) = (object + spine.pointers + 4 * number, self.inline_offset(ty, object, number));
            let pointer = self.read(slot);
            let leaf = pointer & !TAINT;
            self.write(slot, inline);
            if leaf == inline {
                continue;
            }
            for offset in (0..layout.leaf_bytes()).step_by(4) {
                let (from, to) = (leaf + offset, inline + offset);
                self.write(to, self.read(from));
                if self.moving && kind == StorageKind::Ref {
                    self.move_element(object, from, to);
                }
            }
            // Nobody else has a leaf that is not tainted.
            if pointer & TAINT == 0 && Some(leaf) != plan.zero_leaf {
                let leaf = self.cage.wrapping_add(leaf as usize);
                // SAFETY: leaves lie in the cage.
                unsafe { leaf.write_bytes(STALE, layout.leaf_bytes() as usize) };
            }
        }
        let inline = (layout.first_n + (leaves << layout.leaf_log2)) / kind.bytes();
        self.write(object + INLINE_LENGTH_OFFSET, inline.min(length));
    }

    /// Has the element at `to` be as old as it was at `from`, and remembered as it was there.
    fn move_element(&mut self, object: u32, from: u32, to: u32) {
        // SAFETY: the tables of ages and cards lie below the cage.
        unsafe {
            if *self.age(object) == 0 {
                let before = self.fields_before.get(&from).copied().unwrap_or(self.read(from));
                self.fields_before.insert(to, before);
            }
            if *self.card(from) == 1 {
                self.card(to).write(1);
            }
        }
    }
}
