//! Two planes of mark bits, for marking in slices.
//!
//! [`BlockPool::marks`] is the plane that everything reads: what the last finished marking has found, and what has
//! become an old object since. While a cycle marks, it sets bits of the other plane, in which nothing is set when it
//! begins. So lazy sweeping goes on by what the last cycle found. At the end of marking the planes change places; the
//! stale one is cleared in slices before the next cycle.
//!
//! What is allocated while a cycle marks is *born marked*: it is newer than the snapshot that is marked, and lives
//! until the next one.

use super::BlockPool;
use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::error::HeapError;
use crate::geometry::block_of;
use crate::marks::{MarkBits, SharedMarks};
use crate::plan::BumpRun;

/// The plane of marking in slices.
#[derive(Debug, Default)]
pub(crate) struct Planes {
    /// `None` where collections stop the mutator.
    next: Option<MarkBits>,
    /// Whether a cycle marks.
    is_marking: bool,
    /// Whether what is handed out meanwhile is born marked. Otherwise it is marked when it becomes old.
    marks_births: bool,
    /// Whether another thread may be marking.
    pub(super) is_shared: bool,
}

impl Planes {
    /// As [`MarkBits::cover`].
    pub(super) fn cover(&mut self, cage: &Cage, blocks: u32) -> Result<(), HeapError> {
        self.next.as_mut().map_or(Ok(()), |next| next.cover(cage, blocks))
    }

    /// The plane of marking in slices, for a thread that marks beside the mutator until [`is_back`](Self::is_back).
    pub(crate) fn share(&mut self) -> SharedMarks {
        self.is_shared = true;
        self.next.as_ref().expect("marking in slices has a plane of its own").to_be_shared()
    }

    /// No other thread marks any more.
    pub(crate) fn is_back(&mut self) {
        self.is_shared = false;
    }
}

impl BlockPool {
    /// Has a second plane of mark bits, for marking in slices.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses memory.
    pub(crate) fn add_plane(&mut self) -> Result<(), HeapError> {
        let mut next = MarkBits::new(&self.cage, 1);
        next.cover(&self.cage, self.frontier())?;
        self.planes.next = Some(next);
        Ok(())
    }

    /// Clears all bits of a block.
    pub(super) fn clear_marks(&mut self, block: u32) {
        self.marks.clear_block(block);
        if let Some(next) = &mut self.planes.next {
            next.clear_block(block);
        }
    }

    /// Begins to mark, in a plane that is clear. With `marks_births`, what is handed out from now on is born marked.
    pub(crate) fn start_marking(&mut self, marks_births: bool) {
        (self.planes.is_marking, self.planes.marks_births) = (true, marks_births);
    }

    /// Does a part of marking: meanwhile, `marks` is the plane that is being marked.
    pub(crate) fn swap_planes(&mut self) {
        std::mem::swap(&mut self.marks, self.planes.next.as_mut().expect("marking in slices has a plane of its own"));
        self.planes.is_marking = !self.planes.is_marking;
    }

    /// Ends marking: what it has found is what everything reads from now on.
    pub(crate) fn end_marking(&mut self) {
        assert!(self.planes.is_marking, "marking is under way");
        self.swap_planes();
        self.planes.marks_births = false;
    }

    /// Gives marking up. What it has found is stale.
    pub(crate) fn abandon_marking(&mut self) {
        (self.planes.is_marking, self.planes.marks_births) = (false, false);
    }

    /// Clears the plane that is not in use, from word `cursor` on, which moves on; 0 at first.
    pub(crate) fn clear_stale(&mut self, cursor: &mut usize, budget: &mut Budget) -> Done {
        self.planes.next.as_mut().map_or(Done::Yes, |next| next.clear(cursor, budget))
    }

    /// Marks what has just become old: where a cycle marks, for it too. Returns whether it was not marked yet. No
    /// helper marks meanwhile, or none marks anything in the same block: leaves have blocks of their own.
    #[inline(always)]
    pub(crate) fn mark_old(&mut self, object: u32) -> bool {
        if self.planes.is_marking
            && let Some(next) = &mut self.planes.next
        {
            next.set(object);
        }
        self.marks.set(object)
    }

    /// As [`mark_old`](Self::mark_old), of all cells of `bytes` in a run of them.
    pub(crate) fn mark_old_cells(&mut self, run: BumpRun, bytes: u32) {
        if self.planes.is_marking
            && let Some(next) = &mut self.planes.next
        {
            next.set_cells([run], bytes, false);
        }
        self.marks.set_cells([run], bytes, false);
    }

    /// Marks what is handed out, where it is to be born marked.
    #[inline]
    pub(crate) fn mark_born(&mut self, object: u32) {
        if self.planes.marks_births
            && let Some(next) = &mut self.planes.next
        {
            if self.planes.is_shared { next.set_shared(object) } else { _ = next.set(object) }
        }
    }

    /// As [`mark_born`](Self::mark_born), of all cells of `bytes` in some runs of them. All at once, and before
    /// anything is stored into them, as an atomic operation waits for every store before it.
    pub(crate) fn mark_born_cells(&mut self, runs: impl IntoIterator<Item = BumpRun>, bytes: u32) {
        if self.planes.marks_births
            && let Some(next) = &mut self.planes.next
        {
            next.set_cells(runs, bytes, self.planes.is_shared);
        }
    }

    /// Takes that back, of cells that have not been used.
    pub(crate) fn unmark_unborn(&mut self, start: u32, end: u32) {
        if self.planes.marks_births
            && let Some(next) = &mut self.planes.next
        {
            next.clear_cells(start, end);
        }
    }

    /// Begins a sweep: what is taken from now on is none of its business.
    pub(crate) fn start_sweep(&mut self) {
        self.sweeps += 1;
    }

    /// Whether a block has been taken since the last sweep began.
    #[inline]
    pub(crate) fn is_fresh(&self, block: u32) -> bool {
        self.info(block).taken == self.sweeps
    }

    /// Whether what starts at `offset` is live, once marking has ended: objects, and what has a block of its own.
    #[inline(always)]
    pub(crate) fn is_live(&self, offset: u32) -> bool {
        self.marks.get(offset) || self.is_fresh(block_of(offset))
    }
}
