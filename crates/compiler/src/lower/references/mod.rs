//! From a reference to its object (axis `references`): one file per value.

mod direct;
mod thin_handles;

use cranelift_codegen::ir::{self, InstBuilder};
use legato_heap::plan::ReferencePlan;

use super::Lowering;
use super::access::trap;
use crate::artifact::TrapCode;

/// An object's address, and the trap that an access to its first bytes raises where the reference was null.
#[derive(Clone, Copy)]
pub(super) struct Object {
    pub(super) address: ir::Value,
    pub(super) null_trap: Option<TrapCode>,
}

/// A new cell: its address, its reference, and the collector word of its header (64 bits, in the upper half; `None`:
/// 0).
pub(super) struct NewCell {
    pub(super) address: ir::Value,
    pub(super) reference: ir::Value,
    pub(super) collector_word: Option<ir::Value>,
}

/// Free handles at hand, for reference models that have them.
pub(super) struct HandleRun(Option<thin_handles::Taken>);

impl Lowering<'_, '_> {
    /// The object of a reference. `null` is the trap to raise where the reference is null, `None` where it is known not
    /// to be. `reach` is the offset just behind the bytes that the caller is about to access: where a null reference
    /// makes that access fault, nothing else is checked.
    pub(super) fn object(&mut self, reference: ir::Value, null: Option<TrapCode>, reach: u32) -> Object {
        match self.env.plan.references {
            ReferencePlan::Direct => direct::object(self, reference, null, reach),
            ReferencePlan::ThinHandles => thin_handles::object(self, reference, null),
        }
    }

    /// Checks, before a cell is taken, that a handle is free; otherwise goes to `slow`.
    pub(super) fn prepare_handle(&mut self, slow: ir::Block) -> HandleRun {
        match self.env.plan.references {
            ReferencePlan::Direct => HandleRun(None),
            ReferencePlan::ThinHandles => HandleRun(Some(thin_handles::prepare(self, slow))),
        }
    }

    /// Makes the reference of the cell at cage offset `cursor` (64 bits).
    pub(super) fn name_cell(&mut self, cursor: ir::Value, handles: HandleRun) -> NewCell {
        match handles.0 {
            None => direct::name_cell(self, cursor),
            Some(taken) => thin_handles::name_cell(self, cursor, taken),
        }
    }

    /// An explicit check for null.
    pub(super) fn trap_if_null(&mut self, reference: ir::Value, code: TrapCode) {
        self.b.ins().trapz(reference, trap(code));
    }
}
