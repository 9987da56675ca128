//! Defragmentation in steps: objects are moved out of the candidates (`spaces::candidates`) that a sweep has set
//! aside, one at a time, until their blocks are empty.
//!
//! The mutator stands while an object is moved, and finds it by the reference that it has (Handles Revisited,
//! section 3). Under handles nothing else leads to an object, so its old cell is free at once. Where references are
//! forwarded, the old copy stays until the next cycle has healed all references to it: then nothing in the block is
//! marked, and it is swept.

use super::schedule::Defragment;
use crate::blocks::{BLOCK_BYTES, block_of, block_start};
use crate::budget::{Budget, Done};
use crate::core::Core;
use crate::layout::{ARRAY_LENGTH_OFFSET, TYPE_ID_OFFSET};
use crate::plan::BumpRun;
use crate::references::ReferenceModel;
use crate::spaces::candidates::Choice;
use crate::spaces::small::{Fit, release_dead};
use crate::types::{TypeId, TypeKind};

/// Bytes copied that count as much as one object.
const BYTES_PER_UNIT: u32 = 256;
/// Cells without an object that count as much as one object.
const CELLS_PER_UNIT: u32 = 8;

/// Defragmentation under way.
#[derive(Debug)]
pub(crate) struct Defragmenting {
    class: usize,
    /// Whether the class's surplus of candidates has been given up.
    is_chosen: bool,
    /// Cells of the block being emptied that have been looked at.
    cells: u32,
    /// Where objects are moved to.
    run: BumpRun,
    pub(crate) moved_objects: u64,
    pub(crate) moved_bytes: u64,
}

impl Defragmenting {
    /// Before the first step.
    pub(crate) fn new() -> Defragmenting {
        Defragmenting {
            class: 0,
            is_chosen: false,
            cells: 0,
            run: BumpRun::default(),
            moved_objects: 0,
            moved_bytes: 0,
        }
    }
}

impl<M: ReferenceModel> Core<M> {
    /// Which blocks the sweep that begins is to set aside.
    pub(crate) fn candidates(&self, thorough: bool) -> Choice {
        match self.config.defragment() {
            _ if !M::PLAN.lets_objects_move() => Choice::None,
            _ if self.config.stress_move => Choice::All,
            Some(Defragment::Eager) => Choice::Most,
            Some(Defragment::Auto) if thorough => Choice::Most,
            Some(Defragment::Auto) => Choice::Sparse,
            Some(Defragment::Off) | None => Choice::None,
        }
    }

    /// Goes on with moving objects out of the candidates.
    pub(crate) fn defragment(&mut self, state: &mut Defragmenting, budget: &mut Budget) -> Done {
        while M::PLAN.lets_objects_move() && state.class < self.small.classes.count() {
            if budget.is_exhausted() {
                return Done::No;
            }
            if !state.is_chosen {
                let class = state.class;
                let cells = BLOCK_BYTES / self.small.classes.cell(class);
                let marks = &self.pool.marks;
                match self.small.candidates.take_surplus(class, cells, |block| marks.count(block)) {
                    Some(block) => self.small.requeue(class, block),
                    None => state.is_chosen = true,
                }
                budget.spend(1);
            } else if let Some(block) = self.small.candidates.emptying(state.class) {
                if self.empty(block, state, budget) == Done::No {
                    return Done::No;
                }
            } else {
                self.leave_class(state);
            }
        }
        Done::Yes
    }

    /// Goes on to the next class.
    fn leave_class(&mut self, state: &mut Defragmenting) {
        if state.run.cursor < state.run.limit {
            self.small.take_back(state.class, &mut self.pool, state.run);
        }
        let Defragmenting { moved_objects, moved_bytes, .. } = *state;
        *state = Defragmenting { class: state.class + 1, moved_objects, moved_bytes, ..Defragmenting::new() };
    }

    /// Moves objects out of a block. Where there is no memory to move them to, the class's candidates are given up.
    fn empty(&mut self, block: u32, state: &mut Defragmenting, budget: &mut Budget) -> Done {
        let cell = self.small.classes.cell(state.class);
        let cells = BLOCK_BYTES / cell;
        while state.cells < cells {
            if budget.is_exhausted() {
                return Done::No;
            }
            let object = block_start(block) + state.cells * cell;
            if !self.pool.marks.get(object) {
                release_dead(&mut self.pool, &mut self.model, object);
                // SAFETY: the cell is free.
                unsafe { self.pool.cage.write(object + TYPE_ID_OFFSET, 0) };
                if state.cells.is_multiple_of(CELLS_PER_UNIT) {
                    budget.spend(1);
                }
            } else if self.move_object(object, cell, state) {
                budget.spend(u64::from(1 + cell / BYTES_PER_UNIT));
            } else {
                self.give_up(state);
                if !M::FORWARDS {
                    state.cells = 0;
                    self.small.candidates.emptied();
                    self.small.requeue(state.class, block);
                    return Done::Yes;
                }
            }
            state.cells += 1;
        }
        state.cells = 0;
        self.small.candidates.emptied();
        if M::FORWARDS {
            self.pool.info_mut(block).swept = cells * cell;
            self.replicas.emptied(block);
        } else {
            self.pool.give_back(block, 1);
        }
        Done::Yes
    }

    /// Makes the other candidates of the class blocks to allocate in.
    fn give_up(&mut self, state: &mut Defragmenting) {
        while let Some(candidate) = self.small.candidates.take_fullest(state.class) {
            self.small.requeue(state.class, candidate);
        }
    }

    /// Moves a live object out of its cell; false where there is no memory.
    fn move_object(&mut self, object: u32, cell: u32, state: &mut Defragmenting) -> bool {
        if state.run.cursor == state.run.limit {
            let found = self.small.next_run(state.class, Fit::Tight, &mut self.pool, &mut self.model);
            let Some(run) = found else { return false };
            // What is left of it may stay free.
            self.pool.zero_run(run);
            state.run = run;
        }
        let to = state.run.cursor;
        state.run.cursor += cell;
        let cage = &self.pool.cage;
        // SAFETY: the cell at `to` is free and as large. The mutator stands, so nobody sees the object twice.
        unsafe {
            std::ptr::copy_nonoverlapping(cage.address(object), cage.address(to), cell as usize);
            M::retarget(cage, object, to);
            self.context.set_replicas(M::REPLICATES);
            if !M::FORWARDS {
                cage.write(object + TYPE_ID_OFFSET, 0);
            }
        }
        self.pool.marks.clear_cells(object, object + 8);
        self.pool.info_mut(block_of(to)).lent |= self.pool.info(block_of(object)).lent;
        self.pool.mark_old(to);
        self.follow_spine(to);
        state.moved_objects += 1;
        state.moved_bytes += u64::from(cell);
        true
    }

    /// Has a spine that has been moved find its own parts.
    fn follow_spine(&self, object: u32) {
        if self.spines.is_none() {
            return;
        }
        // SAFETY: an object is there, whose header names a registered type.
        let id = TypeId(unsafe { self.pool.cage.read(object + TYPE_ID_OFFSET) });
        let record = self.types.record(id);
        if record.kind == TypeKind::Array as u32 {
            // SAFETY: arrays have a length.
            let length = unsafe { self.pool.cage.read(object + ARRAY_LENGTH_OFFSET) };
            let parts = self.parts(object, record.bytes, length);
            // SAFETY: the mutator stands, and the spine is where it will be.
            unsafe { crate::arrays::pointers::follow_remainder(self.pool.cage.memory(), &parts) };
        }
    }
}
