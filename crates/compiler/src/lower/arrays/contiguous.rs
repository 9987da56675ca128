//! Contiguous arrays: header, length, elements.

use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::{ARRAY_LENGTH_OFFSET, StorageKind, array_elements_offset};

use crate::artifact::TrapCode;
use crate::lower::Lowering;
use crate::lower::access::Region;
use crate::lower::env::POINTER;

pub(super) fn length(l: &mut Lowering, array: ir::Value, null: Option<TrapCode>) -> ir::Value {
    let object = l.object(array, null, ARRAY_LENGTH_OFFSET + 4);
    let flags = l.flags_trapping(Region::Lengths, object.null_trap).with_aligned();
    l.b.ins().load(types::I32, flags, object.address, ARRAY_LENGTH_OFFSET as i32)
}

pub(super) fn element(l: &mut Lowering, kind: StorageKind, array: ir::Value, index: ir::Value) -> (ir::Value, i32) {
    let start = l.object(array, None, 0).address;
    let index = l.b.ins().uextend(POINTER, index);
    let scaled = l.b.ins().ishl_imm_u(index, i64::from(kind.bytes().trailing_zeros()));
    (l.b.ins().iadd(start, scaled), array_elements_offset(kind) as i32)
}
