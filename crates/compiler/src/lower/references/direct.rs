//! Direct references: the reference is the object's offset in the cage.

use cranelift_codegen::ir::{self, InstBuilder, types};

use super::{NewCell, Object};
use crate::artifact::TrapCode;
use crate::lower::Lowering;

pub(super) fn object(l: &mut Lowering, reference: ir::Value, null: Option<TrapCode>, reach: u32) -> Object {
    let mut null_trap = null;
    if let Some(code) = null
        && reach > l.env.plan.null_guard_bytes
    {
        l.trap_if_null(reference, code);
        null_trap = None;
    }
    Object { address: l.cage_address(reference), null_trap }
}

pub(super) fn name_cell(l: &mut Lowering, cursor: ir::Value) -> NewCell {
    let cage = l.cage();
    let address = l.b.ins().iadd(cage, cursor);
    let reference = l.b.ins().ireduce(types::I32, cursor);
    NewCell { address, reference, collector_word: None }
}
