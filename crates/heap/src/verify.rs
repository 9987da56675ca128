//! Walks the whole heap and checks every invariant that can be checked. Trusts nothing but the side tables' sizes.
//!
//! Checked: every allocated object has a registered type with objects, fits its cell and belongs to its class; every traced
//! slot and every root is null, an immediate, or leads to the start of an allocated object; mark bits lie on the starts of allocated
//! objects alone; handles and objects point at each other, free handles are counted and queued once; host slots and
//! their objects agree; the mutator's runs are zero and lie in swept cells of their class; blocks are free or used as the
//! pool counts, and each unfinished block is queued once. Right after a collection "allocated" means "marked", so
//! the same walk then shows that nothing live was lost.

use crate::blocks::{BLOCK_BYTES, BlockKind, block_of, block_start};
use crate::collector::mark_sweep::{MarkSweep, array_object_bytes};
use crate::layout::{ARRAY_LENGTH_OFFSET, HEADER_BYTES, TYPE_ID_OFFSET, array_elements_offset};
use crate::layout::{StorageKind, TYPE_ID_OFFSET as HEADER};
use crate::reference::Reference;
use crate::references::ReferenceModel;
use crate::roots::{RootVisitor, Roots};
use crate::spaces::large;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeKind};
use std::collections::HashMap;

/// A broken invariant, described.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct VerifyError(pub String);

type Check = Result<(), String>;

impl<M: ReferenceModel> MarkSweep<M> {
    /// Checks the heap, and the roots if given.
    pub(crate) fn verify(&self, roots: Option<&mut dyn Roots>) -> Result<(), VerifyError> {
        self.check_all(roots).map_err(VerifyError)
    }

    fn check_all(&self, roots: Option<&mut dyn Roots>) -> Check {
        self.pool.check()?;
        self.check_queues()?;
        self.check_runs()?;
        let mut externals: HashMap<u32, u32> = self.externals.iter().map(|(slot, object)| (object, slot)).collect();
        for block in 0..self.pool.frontier() {
            self.check_block(block, &mut externals).map_err(|problem| format!("block {block}: {problem}"))?;
        }
        if let Some((object, slot)) = externals.iter().next() {
            return Err(format!("host slot {slot} belongs to {object:#x}, which is no allocated external"));
        }
        self.model.check(&self.pool, &self.context, &|object| self.is_allocated(object) || self.is_unswept(object))?;
        if let Some(roots) = roots {
            let mut visitor = RootCheck { heap: self, problem: None, index: 0 };
            roots.visit_roots(&mut visitor);
            if let Some(problem) = visitor.problem {
                return Err(problem);
            }
        }
        Ok(())
    }

    fn word(&self, offset: u32) -> u32 {
        // SAFETY: only words of taken blocks are asked for.
        unsafe { self.pool.cage.read(offset) }
    }

    /// Whether `object` is the first byte of a cell or large object.
    fn is_start(&self, object: u32) -> bool {
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
            BlockKind::LargeHead => inside == 0,
            _ => false,
        }
    }

    /// Whether an allocated object starts at `object`.
    fn is_allocated(&self, object: u32) -> bool {
        if !self.is_start(object) {
            return false;
        }
        let info = self.pool.info(block_of(object));
        let by_header = info.kind == BlockKind::LargeHead || object - block_start(block_of(object)) < info.swept;
        if by_header { self.word(object + HEADER) != 0 } else { self.pool.marks.get(object) }
    }

    /// Whether a dead object lies at `object` that has not been swept.
    fn is_unswept(&self, object: u32) -> bool {
        self.is_start(object) && !self.is_allocated(object) && self.word(object + TYPE_ID_OFFSET) != 0
    }

    /// A block with cells to be swept is queued once.
    fn check_queues(&self) -> Check {
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
            if info.kind == BlockKind::Small {
                let cell = self.small.classes.cell(info.class as usize);
                let unfinished = info.swept + cell <= BLOCK_BYTES;
                if unfinished && !queued.contains_key(&block) {
                    return Err(format!("block {block} is swept up to {} and not queued", info.swept));
                }
            }
        }
        Ok(())
    }

    /// The mutator's runs hold zeros in swept cells of their class.
    fn check_runs(&self) -> Check {
        for class in 0..self.small.classes.count() {
            let (run, cell) = (self.context.run_now(class), self.small.classes.cell(class));
            if run.cursor == run.limit {
                continue;
            }
            let block = block_of(run.cursor);
            let belongs = run.cursor < run.limit && block < self.pool.frontier() && {
                let (info, start) = (self.pool.info(block), block_start(block));
                info.kind == BlockKind::Small
                    && info.class as usize == class
                    && run.limit <= start + info.swept
                    && (run.cursor - start) % cell == 0
                    && (run.limit - start) % cell == 0
            };
            if !belongs {
                return Err(format!("the run {:#x}..{:#x} does not belong to class {class}", run.cursor, run.limit));
            }
            if let Some(dirty) = (run.cursor..run.limit).step_by(4).find(|&word| self.word(word) != 0) {
                return Err(format!("the run {:#x}..{:#x} is not zero at {dirty:#x}", run.cursor, run.limit));
            }
        }
        Ok(())
    }

    fn check_block(&self, block: u32, externals: &mut HashMap<u32, u32>) -> Check {
        let (info, start) = (self.pool.info(block), block_start(block));
        let mut marked = 0;
        match info.kind {
            BlockKind::Small => {
                let cell = self.small.classes.cell(info.class as usize);
                for object in (start..=start + BLOCK_BYTES - cell).step_by(cell as usize) {
                    marked += self.pool.marks.get(object) as u32;
                    if self.is_allocated(object) {
                        self.check_object(object, Some(info.class as usize), externals)?;
                    } else if self.pool.marks.get(object) {
                        return Err(format!("{object:#x} is marked, but free"));
                    }
                }
            }
            BlockKind::LargeHead => {
                let tails = start / BLOCK_BYTES + 1..block + info.extent;
                for tail in tails {
                    let part = (tail < self.pool.frontier()).then(|| self.pool.info(tail));
                    if part.is_none_or(|part| part.kind != BlockKind::LargeTail || part.extent != block) {
                        return Err(format!("its {} blocks do not all belong to it", info.extent));
                    }
                }
                marked = self.pool.marks.get(start) as u32;
                self.check_object(start, None, externals)?;
            }
            BlockKind::LargeTail => {
                let head = (info.extent < block).then(|| self.pool.info(info.extent));
                if head.is_none_or(|head| head.kind != BlockKind::LargeHead || info.extent + head.extent <= block) {
                    return Err(format!("its head {} is none", info.extent));
                }
            }
            BlockKind::Guard | BlockKind::Free | BlockKind::Immortal | BlockKind::Handles => {}
        }
        if self.pool.marks.count(block) != marked {
            return Err("mark bits are set elsewhere than on starts of objects".to_string());
        }
        Ok(())
    }

    fn check_object(&self, object: u32, class: Option<usize>, externals: &mut HashMap<u32, u32>) -> Check {
        let id = TypeId(self.word(object + TYPE_ID_OFFSET));
        if !self.types.contains(id) {
            return Err(format!("the object at {object:#x} has the unknown {id:?}"));
        }
        let record = self.types.record(id);
        let is_array = record.kind == TypeKind::Array as u32;
        let length = if is_array { self.word(object + ARRAY_LENGTH_OFFSET) } else { 0 };
        let bytes = if is_array { array_object_bytes(record.bytes, length) } else { record.bytes as u64 };
        let describe = || format!("the object at {object:#x} of {id:?} and {bytes} bytes");
        if record.kind == TypeKind::Function as u32 {
            return Err(format!("{}: functions have no objects", describe()));
        }
        let fits = u32::try_from(bytes).is_ok_and(|bytes| match class {
            Some(_) => self.small.classes.of(bytes) == class,
            None => {
                let blocks = self.pool.info(block_of(object)).extent;
                self.small.classes.of(bytes).is_none() && large::blocks_for(bytes) == blocks
            }
        });
        if !fits {
            return Err(format!("{} does not belong to class {class:?}", describe()));
        }
        if id == TypeTable::EXTERNAL && externals.remove(&object) != Some(self.word(object + HEADER_BYTES)) {
            return Err(format!("{} and its host slot disagree", describe()));
        }
        // SAFETY: the object is allocated.
        let identity = unsafe { M::reference(&self.pool.cage, object) };
        match M::check_reference(&self.pool, identity) {
            Ok(back) if back == object => {}
            Ok(back) => return Err(format!("{}: its handle names {back:#x}", describe())),
            Err(problem) => return Err(format!("{}: {identity:?}: {problem}", describe())),
        }
        let check = |offset: u32| {
            self.check_reference(Reference(self.word(object + offset)))
                .map_err(|problem| format!("{}, at byte {offset}: {problem}", describe()))
        };
        if is_array && record.reference_map != 0 {
            let elements = array_elements_offset(StorageKind::Ref);
            return (0..length).try_for_each(|index| check(elements + 4 * index));
        }
        self.types.reference_offsets(id).iter().try_for_each(|&offset| check(offset))
    }

    fn check_reference(&self, reference: Reference) -> Check {
        if !reference.is_object() {
            return Ok(());
        }
        match M::check_reference(&self.pool, reference) {
            Ok(object) if self.is_allocated(object) => Ok(()),
            Ok(object) => Err(format!("{reference:?} leads to {object:#x}, where no allocated object starts")),
            Err(problem) => Err(format!("{reference:?}: {problem}")),
        }
    }
}

/// Checks each root slot; keeps the first problem.
struct RootCheck<'a, M> {
    heap: &'a MarkSweep<M>,
    problem: Option<String>,
    index: usize,
}

impl<M: ReferenceModel> RootVisitor for RootCheck<'_, M> {
    fn visit(&mut self, slot: &mut Reference) {
        if let Err(problem) = self.heap.check_reference(*slot)
            && self.problem.is_none()
        {
            self.problem = Some(format!("root {}: {problem}", self.index));
        }
        self.index += 1;
    }
}
