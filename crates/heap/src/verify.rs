//! Walks the heap and checks every invariant that can be checked. Trusts nothing but the side tables' sizes.
//!
//! Here is what holds under every collector: an allocated object has a registered type with objects, fits its cell and
//! belongs to its class; a traced slot or root is null, an immediate, or leads to the start of an allocated object;
//! host slots and their objects agree; a weak reference that is not cleared leads to an allocated object; a large
//! object's blocks belong to it; blocks with cells or leaves to be swept are queued once; a spine's pointers lead to
//! leaves of its own, or tainted to shared ones. Each collector's own `verify` module says which offsets hold allocated
//! objects, and adds what it promises besides.

pub(crate) mod due;

use crate::arrays::parts::{PartPlace, Parts};
use crate::arrays::pointers::{leaf_of, strips};
use crate::blocks::{BLOCK_BYTES, BlockKind, ZERO_LEAF, block_of, block_start};
use crate::core::Core;
use crate::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, HEADER_BYTES, Spine, TAINT, TYPE_ID_OFFSET};
use crate::plan::BumpRun;
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::{RootVisitor, Roots};
use crate::spaces::large;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind, TypeRecord};
use std::cell::Cell;
use std::collections::HashMap;

/// A broken invariant, described.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct VerifyError(pub String);

/// The result of one check.
pub(crate) type Check = Result<(), String>;

/// Where an object lies, and so which sizes it may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In a cell of this class.
    Cell(usize),
    /// In blocks of its own.
    Large,
    /// In the nursery, before this offset.
    Nursery(u32),
}

/// Starts of objects: a bit for each 8 bytes of the cage.
pub(crate) struct Starts(Vec<u64>);

impl Starts {
    /// None, of the objects in this many blocks.
    pub(crate) fn within(blocks: u32) -> Starts {
        Starts(vec![0; blocks as usize * (BLOCK_BYTES as usize / 8 / 64)])
    }

    /// Adds a start.
    pub(crate) fn insert(&mut self, object: u32) {
        self.0[object as usize / 8 / 64] |= 1 << (object / 8 % 64);
    }

    /// Whether an object starts here.
    pub(crate) fn contains(&self, object: u32) -> bool {
        let word = self.0.get(object as usize / 8 / 64);
        object.is_multiple_of(8) && word.is_some_and(|word| word >> (object / 8 % 64) & 1 != 0)
    }
}

/// What the header of an object says.
pub(crate) struct Shape<'a> {
    id: TypeId,
    pub(crate) record: &'a TypeRecord,
    /// Where a struct's or exception's traced fields lie.
    references: &'a [u32],
    /// The object's size.
    pub(crate) bytes: u64,
    /// 0 but for arrays.
    length: u32,
}

/// One walk over a heap.
pub(crate) struct Walk<'a, M> {
    pub(crate) core: &'a Core<M>,
    /// Whether an allocated object starts at an offset.
    pub(crate) is_allocated: &'a dyn Fn(u32) -> bool,
    /// Host slots by the reference to their object, of objects that have not been met yet.
    externals: HashMap<Reference, u32>,
    /// Leaves that have been met, and whether through tainted pointers.
    leaves: HashMap<u32, bool>,
    /// Types that were found last, each at a place that its id says: most objects are of few types.
    found: [Cell<Option<FoundType<'a>>>; FOUND_TYPES],
}

type FoundType<'a> = (TypeId, &'a TypeRecord, &'a [u32]);
const FOUND_TYPES: usize = 64;

impl<M: ReferenceModel> Core<M> {
    /// The word at an offset of a taken block.
    pub(crate) fn word(&self, offset: u32) -> u32 {
        // SAFETY: only words of taken blocks are asked for.
        unsafe { self.pool.cage.read(offset) }
    }

    /// Whether `object` is the first byte of a cell or large object.
    pub(crate) fn is_start(&self, object: u32) -> bool {
        let block = block_of(object);
        if block >= self.pool.frontier() {
            return false;
        }
        let (info, inside) = (self.pool.info(block), object - block_start(block));
        match info.kind {
            BlockKind::Small => {
                let cell = self.small.classes.cell(info.class as usize);
                inside % cell == 0 && inside + cell <= BLOCK_BYTES
            }
            kind if kind.is_head() => inside == 0,
            _ => false,
        }
    }

    /// Whether an object at `object` is marked. (That mark bits lie on starts alone is checked block by block.)
    pub(crate) fn is_marked_object(&self, object: u32) -> bool {
        let block = block_of(object);
        block < self.pool.frontier()
            && object.is_multiple_of(8)
            && self.pool.marks.get(object)
            && !matches!(self.pool.info(block).kind, BlockKind::Leaves | BlockKind::LeafTail)
    }

    /// Every block with cells to be swept is queued once.
    pub(crate) fn check_queues(&self) -> Check {
        let mut queued = HashMap::new();
        for (class, block) in self.small.unfinished() {
            let info = self.pool.info(block);
            if info.kind != BlockKind::Small || info.class as usize != class {
                return Err(format!(
                    "class {class} is to sweep block {block}, a {:?} of class {}",
                    info.kind, info.class
                ));
            }
            if queued.insert(block, class).is_some() {
                return Err(format!("block {block} is queued twice for sweeping"));
            }
        }
        for block in 0..self.pool.frontier() {
            let info = self.pool.info(block);
            if info.kind == BlockKind::Small && !self.small.is_unclassified(&self.pool, block) {
                let cell = self.small.classes.cell(info.class as usize);
                let unfinished = info.swept + cell <= BLOCK_BYTES;
                if unfinished && !queued.contains_key(&block) {
                    return Err(format!("block {block} is swept up to {} and not queued", info.swept));
                }
            }
        }
        Ok(())
    }

    /// A run of free cells lies in swept cells of its class.
    pub(crate) fn check_run(&self, class: usize, run: BumpRun) -> Check {
        let cell = self.small.classes.cell(class);
        let block = block_of(run.cursor);
        let belongs = run.cursor < run.limit && block < self.pool.frontier() && {
            let (info, start) = (self.pool.info(block), block_start(block));
            let (own, offset) = (info.class as usize, run.cursor - start);
            let is_borrowed = info.lent && own > class && run.limit - run.cursor == cell;
            info.kind == BlockKind::Small
                && (own == class && (run.limit - start).is_multiple_of(cell) || is_borrowed)
                && run.limit <= start + info.swept
                && offset.is_multiple_of(self.small.classes.cell(own))
        };
        if belongs {
            return Ok(());
        }
        Err(format!("the run {:#x}..{:#x} does not belong to class {class}", run.cursor, run.limit))
    }

    /// The blocks of the large object at `head`, or the head of the tail at `block`, agree.
    pub(crate) fn check_large(&self, block: u32) -> Check {
        let info = self.pool.info(block);
        if info.kind.is_head() {
            for tail in block + 1..block + info.extent {
                let part = (tail < self.pool.frontier()).then(|| self.pool.info(tail));
                if part.is_none_or(|part| !part.kind.is_tail() || part.extent != block) {
                    return Err(format!("its {} blocks do not all belong to it", info.extent));
                }
            }
        } else {
            let head = (info.extent < block).then(|| self.pool.info(info.extent));
            if head.is_none_or(|head| !head.kind.is_head() || info.extent + head.extent <= block) {
                return Err(format!("its head {} is none", info.extent));
            }
        }
        Ok(())
    }
}

impl<'a, M: ReferenceModel> Walk<'a, M> {
    /// A walk that takes for allocated what `is_allocated` says.
    pub(crate) fn new(core: &'a Core<M>, is_allocated: &'a dyn Fn(u32) -> bool) -> Walk<'a, M> {
        // Of objects that a sweep under way is going to free, the values are still there.
        let is_live = |&(_, reference): &(u32, Reference)| !core.is_condemned(core.object(core.current(reference)));
        let of_object = |(slot, reference)| (core.current(reference), slot);
        let externals = core.externals.iter().filter(is_live).map(of_object).collect();
        Walk { core, is_allocated, externals, leaves: HashMap::new(), found: [const { Cell::new(None) }; FOUND_TYPES] }
    }

    /// Whether there is an old copy of an object that has been moved. It is not marked, and leads to the object.
    pub(crate) fn check_old_copy(&self, object: u32) -> Result<bool, String> {
        // SAFETY: objects and old copies have a header.
        let now = unsafe { M::current(&self.core.pool.cage, Reference(object)) };
        if !M::FORWARDS || now.0 == object {
            return Ok(false);
        }
        match !self.core.pool.marks.get(object) && (self.is_allocated)(now.0) {
            true => self.check_replica(object, now.0).map(|()| true),
            false => Err(format!("the old copy at {object:#x} of {now:?} is marked, or leads to no object")),
        }
    }

    /// The two copies of an object are equal, while both may be read.
    fn check_replica(&self, old: u32, new: u32) -> Check {
        let core = self.core;
        if !M::REPLICATES || !core.context.has_replicas() {
            return Ok(());
        }
        let Shape { record, references, bytes, length, .. } = self.shape(new)?;
        let is_array = record.kind == TypeKind::Array as u32;
        let parts = is_array.then(|| core.parts(new, record.bytes, length));
        let spine = parts.and_then(|parts| parts.spine()).map(|(_, spine)| spine);
        for offset in (TYPE_ID_OFFSET..bytes as u32).step_by(4) {
            let (was, is) = (core.word(old + offset), core.word(new + offset));
            let is_reference = match is_array {
                true => {
                    let table = spine.map(|spine| spine.pointers..spine.pointers + 4 * (spine.leaves + 1));
                    let is_element = offset > ARRAY_LENGTH_OFFSET && record.reference_map != 0;
                    is_element && table.is_none_or(|table| !table.contains(&offset))
                }
                false => references.contains(&offset),
            };
            let own_remainder = |spine: Spine| {
                spine.remainder_bytes > 0
                    && offset == spine.pointers + 4 * spine.leaves
                    && (was, is) == (old + spine.remainder, new + spine.remainder)
            };
            let is_equal = match offset {
                COLLECTOR_WORD_OFFSET => (was, is) == (new | 1, old),
                _ if was == is => true,
                _ if is_reference => core.current(Reference(was)) == core.current(Reference(is)),
                _ => spine.is_some_and(own_remainder),
            };
            if !is_equal {
                return Err(format!("the copies at {old:#x} and {new:#x} differ at byte {offset}: {was:#x}, {is:#x}"));
            }
        }
        Ok(())
    }

    fn find_type(&self, id: TypeId) -> Option<(&'a TypeRecord, &'a [u32])> {
        let found = &self.found[id.0 as usize / size_of::<TypeRecord>() % FOUND_TYPES];
        if let Some((last, record, references)) = found.get()
            && last == id
        {
            return Some((record, references));
        }
        let (record, references) = self.core.types.find(id)?;
        found.set(Some((id, record, references)));
        Some((record, references))
    }

    /// What the header of an object says.
    pub(crate) fn shape(&self, object: u32) -> Result<Shape<'a>, String> {
        let id = TypeId(self.core.word(object + TYPE_ID_OFFSET));
        let Some((record, references)) = self.find_type(id) else {
            return Err(format!("the object at {object:#x} has the unknown {id:?}"));
        };
        if record.kind == TypeKind::Function as u32 {
            return Err(format!("the object at {object:#x} of {id:?}: functions have no objects"));
        }
        let is_array = record.kind == TypeKind::Array as u32;
        let length = if is_array { self.core.word(object + ARRAY_LENGTH_OFFSET) } else { 0 };
        let bytes = if is_array { self.core.array_object_bytes(record.bytes, length) } else { record.bytes as u64 };
        Ok(Shape { id, record, references, bytes, length })
    }

    /// Checks an allocated object; `slot` is called with the offset of each traced slot and the object that it leads
    /// to.
    pub(crate) fn check_object(
        &mut self,
        object: u32,
        place: Place,
        slot: &mut dyn FnMut(u32, Reference) -> Check,
    ) -> Check {
        let Shape { id, record, references, bytes, length } = self.shape(object)?;
        let describe = || format!("the object at {object:#x} of {id:?} and {bytes} bytes");
        let classes = &self.core.small.classes;
        let fits = u32::try_from(bytes).is_ok_and(|bytes| match place {
            Place::Cell(class) => {
                let lent = self.core.pool.info(block_of(object)).lent;
                classes.of(bytes).is_some_and(|own| own == class || own < class && lent)
            }
            Place::Nursery(end) => classes.of(bytes).is_some() && object + bytes <= end,
            Place::Large => {
                let blocks = self.core.pool.info(block_of(object)).extent;
                classes.of(bytes).is_none() && large::blocks_for(bytes) == blocks
            }
        });
        if !fits {
            return Err(format!("{} does not fit its place, {place:?}", describe()));
        }
        // SAFETY: the object is allocated.
        let identity = unsafe { M::reference(&self.core.pool.cage, object) };
        let slot_in_object = || self.core.word(object + HEADER_BYTES);
        if id == TypeTable::EXTERNAL && self.externals.remove(&identity) != Some(slot_in_object()) {
            return Err(format!("{} and its host slot disagree", describe()));
        }
        if M::REPLICATES && !self.core.has_stale && self.core.word(object + COLLECTOR_WORD_OFFSET) != object {
            return Err(format!("{} has another copy, but all are gone", describe()));
        }
        match M::check_reference(&self.core.pool, identity) {
            Ok(back) if back == object => {}
            Ok(back) => return Err(format!("{}: its handle names {back:#x}", describe())),
            Err(problem) => return Err(format!("{}: {identity:?}: {problem}", describe())),
        }
        if record.kind == TypeKind::Array as u32 {
            let parts = self.core.parts(object, record.bytes, length);
            self.core.check_inline_length(object, record.bytes, length)?;
            self.core.check_grown(object, record.bytes, length)?;
            self.check_leaves(&parts, record).map_err(|problem| format!("{}: {problem}", describe()))?;
        }
        let is_array = record.kind == TypeKind::Array as u32;
        let mut check = |offset: u32| {
            let at = object.wrapping_add(offset);
            let reference = Reference(self.core.word(at));
            let bit = if is_array { 0 } else { offset.wrapping_sub(HEADER_BYTES) / 4 };
            let is_reference_free = bit < u32::BITS && record.reference_free >> bit & 1 == 1;
            self.check_reference(reference)
                .and_then(|()| if is_reference_free { self.check_reference_free(reference) } else { Ok(()) })
                .and_then(|()| if reference.is_object() { slot(at, reference) } else { Ok(()) })
                .map_err(|problem| format!("{}, at byte {offset}: {problem}", describe()))
        };
        if is_array && record.reference_map != 0 {
            let parts = self.core.parts(object, record.bytes, length);
            let mut strips = strips(parts, self.core.pool.cage.memory(), 0, parts.bytes);
            return strips.try_for_each(|(first, end)| {
                (first..end).step_by(4).try_for_each(|element| check(element.wrapping_sub(object)))
            });
        }
        references.iter().try_for_each(|&offset| check(offset))
    }

    /// The pointers of a spine lead to the zero leaf, to allocated leaves of the right kind that are its own unless
    /// tainted, and to its remainder.
    fn check_leaves(&mut self, parts: &Parts, record: &TypeRecord) -> Check {
        let core = self.core;
        let (Some((object, spine)), Some(mode)) = (parts.spine(), core.spines) else { return Ok(()) };
        if spine.remainder_bytes > 0 {
            let remainder = core.word(object + spine.pointers + 4 * spine.leaves);
            if remainder != object + spine.remainder {
                return Err(format!("its remainder is at {:#x}, not at {remainder:#x}", object + spine.remainder));
            }
        }
        let mut pointers = Vec::new();
        for part in parts.between(0, parts.bytes) {
            let PartPlace::Leaf(slot) = part.place else { continue };
            let pointer = core.word(slot);
            pointers.push(pointer);
            let (leaf, is_tainted) = (leaf_of(pointer), pointer & TAINT != 0);
            if is_tainted && !mode.copy_on_write {
                return Err(format!("the pointer {pointer:#x} at byte {} is tainted", part.start));
            }
            if leaf == ZERO_LEAF {
                if pointer != mode.zero_pointer() {
                    return Err(format!("the zero leaf is writable at byte {}", part.start));
                }
                continue;
            }
            let found = core.leaves.leaf_at(&core.pool, leaf);
            if found.is_none_or(|(start, kind)| start != leaf || (kind as u8 == 1) != (record.reference_map != 0)) {
                return Err(format!("the pointer at byte {} leads to {leaf:#x}: {found:x?}", part.start));
            }
            if !core.pool.marks.get(leaf) && !core.leaves.is_taken(leaf) {
                return Err(format!("the leaf {leaf:#x} at byte {} is free", part.start));
            }
            if let Some(before) = self.leaves.insert(leaf, is_tainted)
                && !(before && is_tainted)
            {
                return Err(format!("the leaf {leaf:#x} at byte {} is another's too, and not tainted", part.start));
            }
        }
        core.views.check(&core.pool.cage, &pointers)
    }

    /// The leaves of an old spine are marked.
    pub(crate) fn check_old_leaves(&self, object: u32) -> Check {
        let Shape { record, length, .. } = self.shape(object)?;
        if record.kind != TypeKind::Array as u32 {
            return Ok(());
        }
        let parts = self.core.parts(object, record.bytes, length);
        let places = parts.between(0, if parts.spine().is_some() { parts.bytes } else { 0 }).map(|part| part.place);
        for place in places {
            let PartPlace::Leaf(slot) = place else { continue };
            let leaf = leaf_of(self.core.word(slot));
            if leaf != ZERO_LEAF && !self.core.pool.marks.get(leaf) {
                return Err(format!("the leaf {leaf:#x} of the old spine at {object:#x} is not marked"));
            }
        }
        Ok(())
    }

    /// A block of leaves has marks on their starts alone.
    pub(crate) fn check_leaf_marks(&self, block: u32) -> Check {
        let step = self.core.leaves.leaf_bytes().min(BLOCK_BYTES);
        let starts = (block_start(block)..block_start(block) + BLOCK_BYTES).step_by(step as usize);
        let on_starts = starts.filter(|&leaf| self.core.pool.marks.get(leaf)).count() as u32;
        if on_starts != self.core.pool.marks.count(block) {
            return Err("mark bits are set elsewhere than on starts of leaves".to_string());
        }
        Ok(())
    }

    /// Checks that a reference is null, an immediate, or leads to an allocated object.
    pub(crate) fn check_reference(&self, reference: Reference) -> Check {
        if !reference.is_object() {
            return Ok(());
        }
        match M::check_reference(&self.core.pool, reference) {
            Ok(object) if M::FORWARDS && !self.core.has_stale && object != reference.0 => {
                Err(format!("{reference:?} leads to an old copy of {object:#x}, but all have been healed"))
            }
            Ok(object) if (self.is_allocated)(object) => Ok(()),
            Ok(object) => Err(format!("{reference:?} leads to {object:#x}, where no allocated object starts")),
            Err(problem) => Err(format!("{reference:?}: {problem}")),
        }
    }

    /// Checks that what a type says holds no references holds none.
    fn check_reference_free(&self, reference: Reference) -> Check {
        if !reference.is_object() {
            return Ok(());
        }
        let object = self.core.object(reference);
        match self.core.types.find(TypeId(self.core.word(object + TYPE_ID_OFFSET))) {
            Some((record, _)) if record.reference_map == 0 => Ok(()),
            _ => Err(format!("{reference:?} leads to {object:#x}, which is said to hold no references, and does")),
        }
    }

    /// Checks the roots and the weak references, and that every host slot's object has been met.
    pub(crate) fn finish(&self, roots: Option<&mut dyn Roots>) -> Check {
        if let Some((reference, slot)) = self.externals.iter().next() {
            return Err(format!("host slot {slot} belongs to {reference:?}, which is no allocated external"));
        }
        let core = self.core;
        if !core.externals.are_counted() {
            return Err("the memory behind host values is not what is counted".to_string());
        }
        let left =
            |reference: &Reference| !reference.is_object() || !core.is_condemned(core.object(core.current(*reference)));
        for reference in core.weak.iter().filter(left) {
            self.check_reference(reference).map_err(|problem| format!("a weak reference: {problem}"))?;
        }
        let Some(roots) = roots else { return Ok(()) };
        let mut visitor = RootCheck { walk: self, problem: None, index: 0 };
        roots.visit_roots(&mut visitor);
        visitor.problem.map_or(Ok(()), Err)
    }
}

/// Checks each root slot; keeps the first problem.
struct RootCheck<'a, 'b, M> {
    walk: &'a Walk<'b, M>,
    problem: Option<String>,
    index: usize,
}

impl<M: ReferenceModel> RootVisitor for RootCheck<'_, '_, M> {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        if let Err(problem) = self.walk.check_reference(*slot)
            && self.problem.is_none()
        {
            self.problem = Some(format!("root {}: {problem}", self.index));
        }
        self.index += 1;
        false
    }
}
