//! Runs of free cells: what allocations of known and of unknown sizes bump, and the queue that the next run comes from.

use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::plan::BumpRun;

use super::Lowering;
use super::access::Region;
use super::env::POINTER;

/// The cell that is taken, as cage offsets of 64 bits: where it begins, and where the next one does.
#[derive(Clone, Copy)]
pub(super) struct Bumped {
    pub(super) cursor: ir::Value,
    pub(super) next: ir::Value,
}

/// A run and its queue: offsets from an address.
#[derive(Clone, Copy)]
pub(super) struct RunPlace {
    pub(super) base: ir::Value,
    pub(super) run: i32,
    pub(super) queue: i32,
}

impl Lowering<'_, '_> {
    /// Goes to `fast`, and on there, with a cell: that of `bump` if it `fits`, or else the first one of the next run in
    /// the queue, which becomes the run; to `slow` where the queue is empty.
    pub(super) fn bump_or_take_run(
        &mut self,
        fits: ir::Value,
        bump: Bumped,
        place: RunPlace,
        cell: ir::Value,
        fast: ir::Block,
        slow: ir::Block,
    ) -> Bumped {
        let [queue, taken] = [(); 2].map(|()| self.b.create_block());
        let [cursor, next] = [(); 2].map(|()| self.b.append_block_param(fast, POINTER));
        self.b.ins().brif(fits, fast, &[bump.cursor.into(), bump.next.into()], queue, &[]);

        self.b.set_cold_block(queue);
        self.b.switch_to_block(queue);
        let flags = self.flags(Region::Runs).with_aligned();
        let at = self.b.ins().load(POINTER, flags, place.base, place.queue);
        // Both words at once: the cursor is the low one.
        let run = self.b.ins().load(types::I64, flags, at, 0);
        self.b.ins().brif(run, taken, &[], slow, &[]);

        self.b.set_cold_block(taken);
        self.b.switch_to_block(taken);
        let behind = self.b.ins().iadd_imm_s(at, size_of::<BumpRun>() as i64);
        self.b.ins().store(flags, behind, place.base, place.queue);
        self.b.ins().store(flags, run, place.base, place.run);
        let low = self.b.ins().ireduce(types::I32, run);
        let first = self.b.ins().uextend(POINTER, low);
        let second = self.b.ins().iadd(first, cell);
        self.b.ins().jump(fast, &[first.into(), second.into()]);

        self.b.switch_to_block(fast);
        Bumped { cursor, next }
    }
}
