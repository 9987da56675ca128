//! Thin handles (Handles Revisited, section 3): the reference is the cage offset of a word that holds the object's
//! offset.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};

use super::{NewCell, Object};
use crate::artifact::TrapCode;
use crate::lower::Lowering;
use crate::lower::access::Region;

/// Bytes of a handle.
const HANDLE_BYTES: i64 = 4;

/// A free handle: its cage offset and the run's cursor behind it, 64 bits each.
pub(super) struct Taken {
    handle: ir::Value,
    next: ir::Value,
}

pub(super) fn object(l: &mut Lowering, reference: ir::Value, null: Option<TrapCode>) -> Object {
    let mut handle_trap = null;
    if let Some(code) = null
        && HANDLE_BYTES as u32 > l.env.plan.null_guard_bytes
    {
        l.trap_if_null(reference, code);
        handle_trap = None;
    }
    let handle = l.cage_address(reference);
    let flags = l.flags_trapping(Region::Handles, handle_trap).with_aligned();
    let offset = l.b.ins().load(types::I32, flags, handle, 0);
    Object { address: l.cage_address(offset), null_trap: None }
}

pub(super) fn prepare(l: &mut Lowering, slow: ir::Block) -> Taken {
    let run = run_offset(l);
    let mutator = l.mutator();
    let flags = l.flags(Region::Runs).with_aligned();
    let handle = l.b.ins().uload32(flags, mutator, run);
    let limit = l.b.ins().uload32(flags, mutator, run + 4);
    let next = l.b.ins().iadd_imm_s(handle, HANDLE_BYTES);
    let fits = l.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, next, limit);
    let taken = l.b.create_block();
    l.b.ins().brif(fits, taken, &[], slow, &[]);
    l.b.switch_to_block(taken);
    Taken { handle, next }
}

pub(super) fn name_cell(l: &mut Lowering, cursor: ir::Value, taken: Taken) -> NewCell {
    let run = run_offset(l);
    let mutator = l.mutator();
    let flags = l.flags(Region::Runs).with_aligned();
    l.b.ins().istore32(flags, taken.next, mutator, run);
    let cage = l.cage();
    let handle_address = l.b.ins().iadd(cage, taken.handle);
    let flags = l.flags(Region::Handles).with_aligned();
    l.b.ins().istore32(flags, cursor, handle_address, 0);
    let address = l.b.ins().iadd(cage, cursor);
    let reference = l.b.ins().ireduce(types::I32, taken.handle);
    let collector_word = l.b.ins().ishl_imm_u(taken.handle, 32);
    NewCell { address, reference, collector_word: Some(collector_word) }
}

fn run_offset(l: &Lowering) -> i32 {
    l.env.plan.allocation.handle_run_offset().expect("a plan with handles has a run of free handles") as i32
}
