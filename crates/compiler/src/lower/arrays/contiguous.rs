//! Contiguous arrays: header, length, elements.

use cranelift_codegen::ir::{self, InstBuilder};
use legato_heap::layout::array_elements_offset;

use super::Element;
use crate::lower::Lowering;
use crate::lower::barrier::Store;
use crate::lower::env::POINTER;
use crate::mir::Extension;

/// The address of an element less its constant offset from the array's start, and that offset.
pub(super) fn address(l: &mut Lowering, element: Element) -> (ir::Value, i32) {
    let start = l.object(element.array, None, 0).address;
    address_in(l, element, start)
}

/// The same, in the array at this address.
pub(super) fn address_in(l: &mut Lowering, element: Element, start: ir::Value) -> (ir::Value, i32) {
    let first = array_elements_offset(element.kind);
    if let Some(offset) = constant_offset(l, element).and_then(|offset| i32::try_from(offset).ok()) {
        return (start, offset);
    }
    let index = l.b.ins().uextend(POINTER, element.index);
    let scaled = l.b.ins().ishl_imm_u(index, i64::from(element.kind.bytes().trailing_zeros()));
    (l.b.ins().iadd(start, scaled), first as i32)
}

pub(super) fn load(l: &mut Lowering, element: Element, extension: Extension) -> ir::Value {
    let (address, offset) = address(l, element);
    let flags = l.element_flags(element.kind);
    l.load_storage(element.kind, extension, flags, address, offset)
}

pub(super) fn store(l: &mut Lowering, element: Element, store: &Store) {
    let (address, offset) = address(l, element);
    let flags = l.element_flags(element.kind);
    l.store_in_object(store, flags, address, offset, |l, other| address_in(l, element, other));
}

/// The cage offset (32 bits) of an element.
pub(super) fn cage_offset(l: &mut Lowering, element: Element) -> ir::Value {
    let array = l.object_offset(element.array);
    let first = array_elements_offset(element.kind);
    if let Some(offset) = constant_offset(l, element) {
        return l.b.ins().iadd_imm_s(array, i64::from(offset));
    }
    let scaled = l.b.ins().ishl_imm_u(element.index, i64::from(element.kind.bytes().trailing_zeros()));
    let start = l.b.ins().iadd(array, scaled);
    l.b.ins().iadd_imm_s(start, i64::from(first))
}

/// Bytes from the array's start to an element whose index is a constant, where they can be counted. Code that is
/// compiled quickly is not simplified later.
fn constant_offset(l: &Lowering, element: Element) -> Option<u32> {
    let function = &l.b.func.dfg;
    let inst = function.value_def(element.index).inst()?;
    let ir::InstructionData::UnaryImm { opcode: ir::Opcode::Iconst, imm } = function.insts[inst] else { return None };
    (imm.bits() as u32).checked_mul(element.kind.bytes())?.checked_add(array_elements_offset(element.kind))
}
