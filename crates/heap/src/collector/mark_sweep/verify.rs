//! What a mark-sweep heap promises besides: mark bits lie on the starts of allocated objects alone; handles and objects
//! point at each other, free handles are counted and queued once; the mutator's runs are zero and lie in swept cells of
//! their class. Right after a collection "allocated" means "marked", so the same walk then shows that nothing live was
//! lost.

use super::MarkSweep;
use crate::blocks::{BLOCK_BYTES, BlockKind, block_of, block_start};
use crate::layout::TYPE_ID_OFFSET;
use crate::references::ReferenceModel;
use crate::roots::Roots;
use crate::verify::{Check, Place, Walk};

impl<M: ReferenceModel> MarkSweep<M> {
    /// Checks the heap, and the roots if given.
    pub(super) fn check_all(&self, roots: Option<&mut dyn Roots>) -> Check {
        let core = &self.core;
        core.pool.check()?;
        core.mapped.check(&core.pool)?;
        core.check_queues()?;
        core.leaves.check(&core.pool)?;
        self.check_runs()?;
        let is_allocated = |object| core.is_marked_object(object) || self.is_allocated(object);
        let mut walk = Walk::new(core, &is_allocated);
        for block in 0..core.pool.frontier() {
            self.check_block(&mut walk, block).map_err(|problem| format!("block {block}: {problem}"))?;
        }
        let is_known = |object| self.is_allocated(object) || self.is_unswept(object);
        core.model.check(&core.pool, &core.context, &is_known)?;
        walk.finish(roots)
    }

    /// Whether an allocated object starts at `object`.
    fn is_allocated(&self, object: u32) -> bool {
        self.core.is_start(object) && self.is_taken(object)
    }

    /// Whether the cell or large object at `object` is allocated.
    fn is_taken(&self, object: u32) -> bool {
        let (block, core) = (block_of(object), &self.core);
        if core.is_condemned(object) {
            return false;
        }
        let info = core.pool.info(block);
        let by_header = match info.kind.is_head() {
            true => true,
            false => object - block_start(block) < info.swept && !core.small.is_unclassified(&core.pool, block),
        };
        if by_header { self.core.word(object + TYPE_ID_OFFSET) != 0 } else { self.core.pool.marks.get(object) }
    }

    /// Whether a dead object lies at `object` that has not been swept.
    fn is_unswept(&self, object: u32) -> bool {
        self.core.is_start(object) && !self.is_allocated(object) && self.core.word(object + TYPE_ID_OFFSET) != 0
    }

    /// The mutator's runs hold zeros in swept cells of their class.
    fn check_runs(&self) -> Check {
        for class in 0..self.core.small.classes.count() {
            let core = &self.core;
            let run = Some(core.context.run_now(class)).filter(|run| run.cursor != run.limit);
            let mut before = 0;
            for run in run.into_iter().chain(core.queues.waiting(&core.context, class)) {
                core.check_run(class, run)?;
                if let Some(dirty) = (run.cursor..run.limit).step_by(4).find(|&word| core.word(word) != 0) {
                    return Err(format!("the run {:#x}..{:#x} is not zero at {dirty:#x}", run.cursor, run.limit));
                }
                if run.cursor < before {
                    return Err(format!("the run {:#x}..{:#x} does not lie behind {before:#x}", run.cursor, run.limit));
                }
                before = run.limit;
            }
        }
        Ok(())
    }

    fn check_block(&self, walk: &mut Walk<'_, M>, block: u32) -> Check {
        let core = &self.core;
        let (info, start) = (core.pool.info(block), block_start(block));
        let mut marked = 0;
        match info.kind {
            BlockKind::Small => {
                let cell = core.small.classes.cell(info.class as usize);
                for object in (start..=start + BLOCK_BYTES - cell).step_by(cell as usize) {
                    marked += core.pool.marks.get(object) as u32;
                    if self.is_taken(object) && walk.check_old_copy(object)? {
                        continue;
                    }
                    if self.is_taken(object) {
                        walk.check_object(object, Place::Cell(info.class as usize), &mut |_, _| Ok(()))?;
                    } else if core.pool.marks.get(object) {
                        return Err(format!("{object:#x} is marked, but free"));
                    }
                }
            }
            BlockKind::LargeHead | BlockKind::MappedHead => {
                core.check_large(block)?;
                marked = core.pool.marks.get(start) as u32;
                if self.is_taken(start) {
                    walk.check_object(start, Place::Large, &mut |_, _| Ok(()))?;
                }
            }
            BlockKind::LargeTail | BlockKind::MappedTail => core.check_large(block)?,
            BlockKind::Leaves => {
                walk.check_leaf_marks(block)?;
                marked = core.pool.marks.count(block);
            }
            BlockKind::LeafTail => {}
            BlockKind::Nursery => return Err("it belongs to a nursery, which this heap has not".to_string()),
            BlockKind::Guard | BlockKind::Free | BlockKind::Immortal => {}
            // The model's check looks at each.
            BlockKind::Handles => marked = core.pool.marks.count(block),
        }
        if core.pool.marks.count(block) != marked {
            return Err("mark bits are set elsewhere than on starts of objects".to_string());
        }
        Ok(())
    }
}
