//! Objects, spines and leaves.

use std::sync::atomic::Ordering;

use legato_compiler::module::CompositeType;
use legato_heap::layout::{
    ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, HEADER_BYTES, StorageKind, StructLayout, TAINT, array_bytes,
    array_elements_offset,
};
use legato_heap::plan::{AllocationPlan, ArrayPlan, BumpRun, CollectorWord, HeaderWord, ObjectAt, SpinePlan};

use super::{Polls, RECORD_BYTES, World};
use crate::support::{AGES_BELOW, CARDS_BELOW};

/// Bytes that compiled code may allocate inline between collections.
const RUN_BYTES: u32 = 2048;
/// What memory holds where it is not zeroed before it is allocated.
const NOT_ZERO: u8 = 0xc7;

impl World {
    pub(super) fn read(&self, offset: u32) -> u32 {
        // SAFETY: offsets of objects and handles lie in the cage.
        unsafe { self.cage.add(offset as usize).cast::<u32>().read() }
    }

    pub(super) fn write(&self, offset: u32, value: u32) {
        // SAFETY: as in `read`.
        unsafe { self.cage.add(offset as usize).cast::<u32>().write(value) }
    }

    fn bytes(&self, offset: u32, length: u32) -> Vec<u8> {
        // SAFETY: as in `read`.
        unsafe { std::slice::from_raw_parts(self.cage.add(offset as usize), length as usize) }.to_vec()
    }

    fn write_bytes(&self, offset: u32, bytes: &[u8]) {
        // SAFETY: as in `read`; the bytes are no part of the cage.
        unsafe { self.cage.add(offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// The kind of an array type's elements.
    pub(super) fn element_kind(&self, ty: usize) -> StorageKind {
        match &self.module.info.types[ty].composite {
            CompositeType::Array(element) => self.module.info.storage_kind(element.storage),
            _ => panic!("type {ty} is no array"),
        }
    }

    /// How an array of this length is divided, if it is.
    pub(super) fn spine_plan(&self, kind: StorageKind, length: u32) -> Option<SpinePlan> {
        match self.module.plan.arrays {
            ArrayPlan::Spines(plan) if plan.layout.divides(kind.bytes(), length) => Some(plan),
            _ => None,
        }
    }

    pub(super) fn size(&self, ty: usize, object: u32) -> u32 {
        match &self.module.info.types[ty].composite {
            CompositeType::Struct(fields) => {
                StructLayout::new(fields.iter().map(|field| self.module.info.storage_kind(field.storage))).bytes
            }
            CompositeType::Array(_) => {
                let (kind, length) = (self.element_kind(ty), self.read(object + 8));
                match self.spine_plan(kind, length) {
                    Some(plan) => plan.layout.spine(kind.bytes(), length).bytes as u32,
                    None => array_bytes(kind, length).unwrap(),
                }
            }
            CompositeType::Func(_) => unreachable!("functions are no objects"),
        }
    }

    /// Where the pointer lies through which element `index` may be reached, and the element's offset behind what it
    /// points to.
    fn pointer(&self, ty: usize, object: u32, index: u32) -> Option<(u32, u32)> {
        let (kind, length) = (self.element_kind(ty), self.read(object + 8));
        assert!(index < length, "element {index} of {length}");
        let layout = self.spine_plan(kind, length)?.layout;
        let beyond = (index * kind.bytes()).checked_sub(layout.first_n)?;
        let pointers = object + layout.spine(kind.bytes(), length).pointers;
        Some((pointers + 4 * (beyond >> layout.leaf_log2), beyond & (layout.leaf_bytes() - 1)))
    }

    /// The cage offset of an element.
    pub(super) fn element(&self, ty: usize, object: u32, index: u32) -> u32 {
        let kind = self.element_kind(ty);
        let is_inline = self.growing_layout().is_some() && index < self.inline_length(object);
        match self.pointer(ty, object, index) {
            Some((slot, within)) if !is_inline => (self.read(slot) & !TAINT) + within,
            _ => object + array_elements_offset(kind) + index * kind.bytes(),
        }
    }

    /// Offsets of the references in an object.
    pub(super) fn references(&self, ty: usize, object: u32) -> Vec<u32> {
        match &self.module.info.types[ty].composite {
            CompositeType::Struct(fields) => {
                let kinds: Vec<_> = fields.iter().map(|field| self.module.info.storage_kind(field.storage)).collect();
                let layout = StructLayout::new(kinds.iter().copied());
                let traced = layout.offsets.iter().zip(kinds).filter(|(_, kind)| *kind == StorageKind::Ref);
                traced.map(|(offset, _)| object + offset).collect()
            }
            CompositeType::Array(_) if self.element_kind(ty) == StorageKind::Ref => {
                (0..self.read(object + 8)).map(|index| self.element(ty, object, index)).collect()
            }
            CompositeType::Array(_) => Vec::new(),
            CompositeType::Func(_) => unreachable!("functions are no objects"),
        }
    }

    pub(super) fn allocate(&mut self, type_id: u32, length: Option<u32>) -> u32 {
        self.collect(&[]);
        let ty = (type_id / RECORD_BYTES) as usize - 1;
        let object = self.next_object;
        self.write(object, type_id);
        if let Some(length) = length {
            self.write(object + 8, length);
            self.start_inline_length(ty, object, length);
            self.create_pointers(ty, object, length);
        }
        self.next_object += self.size(ty, object);
        self.make_young(object, self.next_object);
        let reference = self.name(object, type_id, length);
        self.objects.push((reference, object, ty));
        self.alive.push(true);
        self.open_run();
        reference
    }

    /// Gives a new object its reference.
    fn name(&mut self, object: u32, type_id: u32, length: Option<u32>) -> u32 {
        let plan = self.module.plan.references;
        let mut reference = object;
        if let Some(handle) = plan.handles {
            reference = self.next_handle;
            self.next_handle += handle.run(length.is_some()).bytes.next_multiple_of(8);
            if let ObjectAt::Through { offset } = plan.object {
                self.write(reference + offset, object);
            }
            for (word, value) in [(plan.type_id, Some(type_id)), (plan.array_length, length)] {
                if let (HeaderWord::AtReference { offset }, Some(value)) = (word, value) {
                    self.write(reference + offset, value);
                }
            }
        }
        if plan.collector_word == CollectorWord::Reference {
            self.write(object + COLLECTOR_WORD_OFFSET, reference);
        }
        reference
    }

    /// Moves the object of a live reference as a collector does that rewrites no slots, where that is possible.
    /// Returns the reference that it has now.
    pub fn move_object(&mut self, reference: u32) -> u32 {
        let plan = self.module.plan.references;
        if plan.mirror().is_some() {
            return self.replicate(reference);
        }
        let ObjectAt::Through { offset } = plan.object else { return reference };
        let number = self.objects.binary_search_by_key(&reference, |object| object.0).expect("an object");
        let (_, object, ty) = self.objects[number];
        let (bytes, copy) = (self.size(ty, object), self.next_object);
        self.next_object += bytes;
        self.write_bytes(copy, &self.bytes(object, bytes));
        self.point_to_remainder(ty, copy);
        self.write(reference + offset, copy);
        // Without handles, header and length are read from old copies.
        let is_struct = matches!(self.module.info.types[ty].composite, CompositeType::Struct(_));
        let kept = match plan.handles {
            Some(_) => 0,
            None if is_struct => HEADER_BYTES,
            None => ARRAY_LENGTH_OFFSET + 4,
        };
        self.write_bytes(object + kept, &vec![NOT_ZERO; (bytes - kept) as usize]);
        if plan.handles.is_some() {
            self.objects[number].1 = copy;
            return reference;
        }
        self.write(copy + COLLECTOR_WORD_OFFSET, copy);
        self.objects.push((copy, copy, ty));
        self.alive.push(true);
        copy
    }

    /// Makes another copy of an object, which both say of each other.
    fn replicate(&mut self, reference: u32) -> u32 {
        let (object, ty) = self.resolve(reference);
        let (bytes, copy) = (self.size(ty, object), self.next_object);
        self.next_object += bytes;
        self.write_bytes(copy, &self.bytes(object, bytes));
        self.point_to_remainder(ty, copy);
        self.write(object + COLLECTOR_WORD_OFFSET, copy | 1);
        self.write(copy + COLLECTOR_WORD_OFFSET, object);
        self.objects.push((copy, copy, ty));
        self.alive.push(true);
        copy
    }

    /// The bytes of an object and of a copy of it, from their headers on; what leads to a remainder of its own is left
    /// out, and what lies in leaves.
    pub fn copies(&self, object: u32, copy: u32) -> [Vec<u8>; 2] {
        let (_, ty) = self.resolve(object);
        let mut bytes =
            [object, copy].map(|copy| self.bytes(copy, self.size(ty, object))[HEADER_BYTES as usize..].to_vec());
        if let CompositeType::Array(_) = &self.module.info.types[ty].composite {
            let (kind, length) = (self.element_kind(ty), self.read(object + 8));
            let spine = self.spine_plan(kind, length).map(|plan| plan.layout.spine(kind.bytes(), length));
            if let Some(spine) = spine.filter(|spine| spine.remainder_bytes > 0) {
                let slot = (spine.pointers + 4 * spine.leaves - HEADER_BYTES) as usize;
                bytes.iter_mut().for_each(|bytes| bytes[slot..slot + 4].fill(0));
            }
        }
        bytes
    }

    /// A global that holds a reference, counted among those.
    pub fn global(&self, number: usize) -> u32 {
        // SAFETY: the context lives as long as the instance.
        unsafe { self.globals[number].read() }
    }

    /// Writes such a global.
    pub fn set_global(&mut self, number: usize, reference: u32) {
        // SAFETY: as in `global`.
        unsafe { self.globals[number].write(reference) }
    }

    /// Points a new spine to its remainder and to leaves, or to the zero leaf.
    fn create_pointers(&mut self, ty: usize, object: u32, length: u32) {
        let kind = self.element_kind(ty);
        let Some(plan) = self.spine_plan(kind, length) else { return };
        let spine = plan.layout.spine(kind.bytes(), length);
        for number in 0..spine.leaves {
            let pointer = match plan.zero_leaf {
                Some(zero_leaf) => zero_leaf | if plan.copy_on_write { TAINT } else { 0 },
                // Some leaves are inline from the start.
                None if plan.layout.grows && number % 2 == 0 => self.inline_offset(ty, object, number),
                None => self.new_leaf(plan),
            };
            self.write(object + spine.pointers + 4 * number, pointer);
        }
        self.point_to_remainder(ty, object);
    }

    /// Points a spine to its remainder, where it has one.
    pub(super) fn point_to_remainder(&self, ty: usize, object: u32) {
        if !matches!(self.module.info.types[ty].composite, CompositeType::Array(_)) {
            return;
        }
        let (kind, length) = (self.element_kind(ty), self.read(object + 8));
        let Some(plan) = self.spine_plan(kind, length) else { return };
        let spine = plan.layout.spine(kind.bytes(), length);
        if spine.remainder_bytes > 0 {
            self.write(object + spine.pointers + 4 * spine.leaves, object + spine.remainder);
        }
    }

    fn new_leaf(&mut self, plan: SpinePlan) -> u32 {
        self.leaves += 1;
        let leaf = self.next_leaf;
        self.next_leaf += plan.layout.leaf_bytes();
        leaf
    }

    /// The object and the type of a reference.
    fn resolve(&self, reference: u32) -> (u32, usize) {
        let number = self.objects.binary_search_by_key(&reference, |object| object.0);
        let Ok(number) = number else {
            // Allocated inline since the last collection.
            return (reference, (self.read(reference) / RECORD_BYTES) as usize - 1);
        };
        assert!(self.alive[number], "{reference:#x} is dead");
        (self.objects[number].1, self.objects[number].2)
    }

    /// As `Heap::leaf_for_store` is specified.
    pub(super) fn leaf_for_store(&mut self, array: u32, index: u32, is_zero: bool) -> u32 {
        let (object, ty) = self.resolve(array);
        let ArrayPlan::Spines(plan) = self.module.plan.arrays else { panic!("no array has leaves") };
        let (slot, _) = self.pointer(ty, object, index).expect("an element in a leaf");
        let pointer = self.read(slot);
        let leaf = pointer & !TAINT;
        let is_zero_leaf = Some(leaf) == plan.zero_leaf;
        if pointer & TAINT == 0 && !is_zero_leaf || is_zero_leaf && is_zero {
            return leaf;
        }
        if plan.layout.grows && self.grow_for_store(ty, object, index) {
            let beyond = index * self.element_kind(ty).bytes() - plan.layout.first_n;
            return self.inline_offset(ty, object, beyond >> plan.layout.leaf_log2);
        }
        let new = self.new_leaf(plan);
        let bytes = plan.layout.leaf_bytes();
        self.write_bytes(new, &self.bytes(leaf, bytes));
        self.write(slot, new);
        if self.module.plan.store_barrier.mirror.is_some() {
            let other = self.read(object + COLLECTOR_WORD_OFFSET) & !1;
            self.write(slot - object + other, new);
        }
        if self.moving && self.element_kind(ty) == StorageKind::Ref {
            // SAFETY: the table of ages lies below the cage.
            let is_old = unsafe { *self.age(object) } == 0;
            for offset in (0..bytes).step_by(4).filter(|_| is_old) {
                self.fields_before.insert(new + offset, self.read(new + offset));
            }
        }
        if self.polls == Polls::AfterLeaves {
            // SAFETY: the mutator context lives as long as the world.
            unsafe { (*self.mutator).poll.store(1, Ordering::Relaxed) };
        }
        new
    }

    fn store_element(&mut self, array: u32, index: u32, value: &[u8]) {
        let (object, ty) = self.resolve(array);
        let mut at = self.element(ty, object, index);
        if let Some((_, within)) = self.pointer(ty, object, index)
            && matches!(self.module.plan.arrays, ArrayPlan::Spines(plan) if plan.checks_stores())
            && !self.is_remainder(ty, object, index)
        {
            at = self.leaf_for_store(array, index, value.iter().all(|&byte| byte == 0)) + within;
        }
        if self.element_kind(ty) == StorageKind::Ref {
            // SAFETY: the card table lies below the cage.
            unsafe { self.card(at).write(1) };
            self.record_overwritten(self.read(at));
        }
        self.write_bytes(at, value);
    }

    /// Whether an element lies in the spine itself.
    fn is_remainder(&self, ty: usize, object: u32, index: u32) -> bool {
        let at = self.element(ty, object, index);
        (object..object + self.size(ty, object)).contains(&at)
    }

    pub(super) fn fill(&mut self, array: u32, start: u32, bits: u64, length: u32) {
        let size = self.element_kind(self.resolve(array).1).bytes() as usize;
        for index in start..start + length {
            self.store_element(array, index, &bits.to_le_bytes()[..size]);
        }
    }

    /// Shares whole leaves at the same place of both arrays where leaves may be shared; copies the rest.
    pub(super) fn copy(&mut self, to: u32, to_start: u32, from: u32, from_start: u32, length: u32) {
        let ((to_object, ty), (from_object, from_ty)) = (self.resolve(to), self.resolve(from));
        let size = self.element_kind(ty).bytes();
        let ArrayPlan::Spines(plan) = self.module.plan.arrays else { panic!("no array has leaves") };
        let in_leaf = plan.layout.leaf_bytes() / size;
        let elements: Vec<Vec<u8>> = (0..length)
            .map(|number| self.bytes(self.element(from_ty, from_object, from_start + number), size))
            .collect();
        let mut number = 0;
        while number < length {
            let (index, from_index) = (to_start + number, from_start + number);
            let slots = self.pointer(ty, to_object, index).zip(self.pointer(from_ty, from_object, from_index));
            if let Some(((slot, 0), (from_slot, 0))) = slots
                && plan.copy_on_write
                && length - number >= in_leaf
                && !self.is_inline_leaf(to_object, ty, slot)
                && !self.is_inline_leaf(from_object, from_ty, from_slot)
            {
                self.shared += 1;
                let tainted = self.read(from_slot) | TAINT;
                self.write(slot, tainted);
                self.write(from_slot, tainted);
                number += in_leaf;
                continue;
            }
            self.store_element(to, index, &elements[number as usize]);
            number += 1;
        }
    }

    /// Opens a run for inline allocation, where the plan has such.
    pub(super) fn open_run(&mut self) {
        let AllocationPlan::Bump { .. } = self.module.plan.allocation else { return };
        let start = self.next_object;
        self.next_object += RUN_BYTES;
        if !self.module.plan.fresh_memory_is_zero {
            self.write_bytes(start, &[NOT_ZERO; RUN_BYTES as usize]);
        }
        self.make_young(start, self.next_object);
        self.run = Some(start);
        // SAFETY: the mutator context lives as long as the world.
        unsafe { (*self.mutator).runs[0] = BumpRun { cursor: start, limit: start + RUN_BYTES } };
    }

    /// Takes note of what has been allocated inline, and closes the run.
    pub(super) fn close_run(&mut self) {
        let Some(mut object) = self.run.take() else { return };
        // SAFETY: as in `open_run`.
        let run = unsafe { std::mem::take(&mut (*self.mutator).runs[0]) };
        while object < run.cursor {
            let ty = (self.read(object) / RECORD_BYTES) as usize - 1;
            self.objects.push((object, object, ty));
            self.alive.push(true);
            self.check_inline_length(ty, object);
            object += self.size(ty, object);
        }
        assert_eq!(
            object, run.cursor,
            "an object that was allocated inline is of another size than the heap takes it for"
        );
        // A run lies behind the object whose allocation opened it and before all others.
        assert!(self.objects.is_sorted());
    }

    pub(super) fn holds_references(&self, array: u32) -> bool {
        self.element_kind(self.resolve(array).1) == StorageKind::Ref
    }

    /// Collects, as a bulk builtin may where there are leaves, which keeps its operands itself. Returns what has become
    /// of them.
    pub(super) fn collect_for_bulk(&mut self, references: &[u32]) -> Vec<u32> {
        if self.module.plan.arrays == ArrayPlan::Contiguous {
            return references.to_vec();
        }
        let moved = self.collect(references);
        self.open_run();
        references.iter().map(|reference| moved.get(reference).copied().unwrap_or(*reference)).collect()
    }

    fn make_young(&mut self, start: u32, end: u32) {
        for block in start >> 15..=(end - 1) >> 15 {
            // SAFETY: the table of ages lies below the cage.
            unsafe { self.age(block << 15).write(1) };
        }
    }

    pub(super) fn card(&self, offset: u32) -> *mut u8 {
        self.cage.wrapping_sub(CARDS_BELOW as usize).wrapping_add((offset >> 9) as usize)
    }

    /// The age of the block that an offset lies in: 1 where objects are younger than the last collection.
    pub(super) fn age(&self, offset: u32) -> *mut u8 {
        self.cage.wrapping_sub(AGES_BELOW as usize).wrapping_add((offset >> 15) as usize)
    }
}
