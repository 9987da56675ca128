//! What a generational heap promises besides.
//!
//! In the mature space and among old large objects exactly the marked ones are allocated; mark bits lie on their starts
//! and on the survivors of kept blocks alone. Beyond what the last collection has left, a nursery block holds objects
//! one after the other up to where it was filled. Every slot of an old object that leads to a young one is covered: by
//! a dirty card, or by the slot's entry in the store buffer.

use super::Generational;
use crate::ages::{Age, Ages};
use crate::blocks::{BLOCK_BYTES, BlockKind, block_of, block_start};
use crate::reference::Reference;
use crate::references::direct::Direct;
use crate::roots::{RootVisitor, Roots};
use crate::types::TypeKind;
use crate::verify::{Check, Place, Starts, Walk};
use std::collections::HashSet;

/// Counts roots that lead to young objects.
struct YoungRoots<'a> {
    ages: &'a Ages,
    count: usize,
}

impl RootVisitor for YoungRoots<'_> {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        let is_young = slot.is_object() && self.ages.of(slot.0) != Age::Old;
        self.count += usize::from(is_young);
        is_young
    }
}

impl Generational {
    /// Checks the heap, and the roots if given.
    pub(super) fn check_all(&self, roots: Option<&mut dyn Roots>) -> Check {
        let core = &self.core;
        core.pool.check()?;
        core.mapped.check(&core.pool)?;
        core.check_queues()?;
        core.leaves.check(&core.pool)?;
        for (class, run) in self.runs.free() {
            if run.cursor != run.limit {
                core.check_run(class, run)?;
                if (run.cursor..run.limit).step_by(8).any(|offset| core.pool.marks.get(offset)) {
                    return Err(format!("the run {:#x}..{:#x} holds marked objects", run.cursor, run.limit));
                }
            }
        }
        self.check_nursery_blocks()?;
        let fresh = self.fresh_objects()?;
        let is_allocated = |object: u32| {
            let is_young_large = self.nursery.ages.of(object) == Age::YoungLarge && object.is_multiple_of(BLOCK_BYTES);
            core.is_marked_object(object)
                || fresh.contains(object)
                || is_young_large && block_of(object) < core.pool.frontier()
        };
        let stored: HashSet<u32> = self.store_buffer.iter(&core.context).collect();
        if let Some(slot) = stored.iter().find(|&&slot| self.nursery.ages.of(slot) != Age::Old) {
            return Err(format!("the store buffer holds {slot:#x}, which is no slot of an old object"));
        }
        let mut walk = Walk::new(core, &is_allocated);
        for block in 0..core.pool.frontier() {
            self.check_block(&mut walk, &stored, block).map_err(|problem| format!("block {block}: {problem}"))?;
        }
        for (block, marked_end, end) in self.nursery.filled(&core.pool, &core.context) {
            let start = block_start(block);
            let fresh = (marked_end..end).step_by(8).filter(|&object| fresh.contains(object));
            let marked = (start..marked_end).step_by(8).filter(|&object| core.pool.marks.get(object));
            for object in marked.chain(fresh) {
                walk.check_object(object, Place::Nursery(end), &mut |_, _| Ok(()))
                    .map_err(|problem| format!("nursery block {block}: {problem}"))?;
            }
        }
        let Some(roots) = roots else { return walk.finish(None) };
        walk.finish(Some(&mut *roots))?;
        self.check_young_roots(roots)
    }

    /// No young object is left out where the embedder leaves roots out for a nursery collection.
    fn check_young_roots(&self, roots: &mut dyn Roots) -> Check {
        let [mut asked, mut all] = [(); 2].map(|()| YoungRoots { ages: &self.nursery.ages, count: 0 });
        roots.visit_young_roots(&mut asked);
        roots.visit_roots(&mut all);
        match asked.count == all.count {
            true => Ok(()),
            false => Err(format!(
                "{} roots lead to young objects; a nursery collection would visit {}",
                all.count, asked.count
            )),
        }
    }

    /// Blocks of the nursery belong to it alone and have the right ages; those without objects have no marks.
    fn check_nursery_blocks(&self) -> Check {
        let core = &self.core;
        let mut listed = HashSet::new();
        for (block, _, end) in self.nursery.filled(&core.pool, &core.context) {
            if !matches!(self.nursery.ages.of_block(block), Age::Young | Age::Kept) {
                return Err(format!("nursery block {block} is {:?}", self.nursery.ages.of_block(block)));
            }
            if end > block_start(block) + BLOCK_BYTES || !listed.insert(block) {
                return Err(format!("nursery block {block} is filled up to {end:#x}, or listed twice"));
            }
        }
        for &block in self.nursery.unused() {
            if self.nursery.ages.of_block(block) != Age::Old || core.pool.marks.count(block) > 0 {
                return Err(format!("the unused nursery block {block} is not empty"));
            }
            if !listed.insert(block) {
                return Err(format!("nursery block {block} is both used and unused"));
            }
        }
        for block in 0..core.pool.frontier() {
            if (core.pool.info(block).kind == BlockKind::Nursery) != listed.contains(&block) {
                return Err(format!("the nursery and the side table disagree about block {block}"));
            }
        }
        for &head in self.nursery.large() {
            if self.nursery.ages.of_block(head) != Age::YoungLarge {
                return Err(format!("the new large object of block {head} is not young"));
            }
        }
        Ok(())
    }

    /// The objects that have been allocated in the nursery since the last collection.
    fn fresh_objects(&self) -> Result<Starts, String> {
        let walk = Walk::new(&self.core, &|_| false);
        let mut objects = Starts::within(self.core.pool.frontier());
        for (block, start, end) in self.nursery.filled(&self.core.pool, &self.core.context) {
            let mut object = start;
            while object < end {
                let shape = walk.shape(object).map_err(|problem| format!("nursery block {block}: {problem}"))?;
                objects.insert(object);
                object = u32::try_from(object as u64 + shape.bytes.next_multiple_of(8)).unwrap_or(u32::MAX);
            }
            if object != end {
                return Err(format!("the last object of nursery block {block} ends at {object:#x}, not at {end:#x}"));
            }
        }
        Ok(objects)
    }

    fn check_block(&self, walk: &mut Walk<'_, Direct>, stored: &HashSet<u32>, block: u32) -> Check {
        let core = &self.core;
        let (info, start) = (core.pool.info(block), block_start(block));
        let is_young_large = self.nursery.ages.of_block(block) == Age::YoungLarge;
        let mut marked = 0;
        match info.kind {
            BlockKind::Small => {
                let cell = core.small.classes.cell(info.class as usize);
                for object in (start..=start + BLOCK_BYTES - cell).step_by(cell as usize) {
                    if core.pool.marks.get(object) {
                        marked += 1;
                        self.check_old(walk, stored, object, Place::Cell(info.class as usize))?;
                    }
                }
            }
            BlockKind::LargeHead | BlockKind::MappedHead => {
                core.check_large(block)?;
                marked = core.pool.marks.get(start) as u32;
                if core.is_condemned(start) {
                    return Ok(());
                }
                if marked == is_young_large as u32 {
                    return Err("a large object is marked where it is old, and only there".to_string());
                }
                if is_young_large {
                    walk.check_object(start, Place::Large, &mut |_, _| Ok(()))?;
                } else {
                    self.check_old(walk, stored, start, Place::Large)?;
                }
            }
            BlockKind::LargeTail | BlockKind::MappedTail => core.check_large(block)?,
            // Its objects are checked apart.
            BlockKind::Nursery => return Ok(()),
            BlockKind::Leaves => {
                walk.check_leaf_marks(block)?;
                marked = core.pool.marks.count(block);
            }
            BlockKind::LeafTail => {}
            BlockKind::Handles => return Err("it holds handles, which this heap has not".to_string()),
            BlockKind::Guard | BlockKind::Free | BlockKind::Immortal => {}
        }
        if self.nursery.ages.of_block(block) != Age::Old && !is_young_large {
            return Err(format!("it is {:?}, though a {:?} block", self.nursery.ages.of_block(block), info.kind));
        }
        if core.pool.marks.count(block) != marked {
            return Err("mark bits are set elsewhere than on starts of objects".to_string());
        }
        Ok(())
    }

    /// Checks an old object, and that its slots that lead to young ones are covered.
    fn check_old(&self, walk: &mut Walk<'_, Direct>, stored: &HashSet<u32>, object: u32, place: Place) -> Check {
        let core = &self.core;
        let is_array = walk.shape(object)?.record.kind == TypeKind::Array as u32;
        if is_array {
            walk.check_old_leaves(object)?;
        }
        walk.check_object(object, place, &mut |slot, target: Reference| {
            let is_old = self.nursery.ages.of(target.0) == Age::Old;
            if is_old || core.pool.cage.is_dirty(if is_array { slot } else { object }) || stored.contains(&slot) {
                return Ok(());
            }
            Err(format!("the young object at {:#x} is not remembered", target.0))
        })
    }
}
