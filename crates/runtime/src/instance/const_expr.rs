//! Constant expressions.

use anyhow::{Context, Result};
use legato_compiler::module::{ConstExpr, ConstOp, ValueType};
use legato_heap::{Reference, TypeId};

use crate::gc::fields;
use crate::store::StoreOpaque;

/// The bits of a constant expression of the instance's module. May collect garbage.
///
/// # Errors
/// If the heap is exhausted.
pub(crate) fn evaluate(store: &mut StoreOpaque, instance: u32, expression: &ConstExpr) -> Result<u128> {
    let base = store.state.scratch.len();
    let result = expression.iter().try_for_each(|op| step(store, instance, op));
    let value = store.state.scratch.drain(base..).next_back();
    result?;
    value.map(|(bits, _)| bits).context("a constant expression has a value")
}

/// Executes one operation on the stack, `state.scratch`, which is among the roots.
fn step(store: &mut StoreOpaque, instance: u32, op: &ConstOp) -> Result<()> {
    let plain = |store: &mut StoreOpaque, bits: u128| store.state.scratch.push((bits, false));
    match *op {
        ConstOp::I32(value) => plain(store, value as u32 as u128),
        ConstOp::I64(value) => plain(store, value as u64 as u128),
        ConstOp::F32(bits) => plain(store, bits.into()),
        ConstOp::F64(bits) => plain(store, bits.into()),
        ConstOp::V128(bits) => plain(store, bits),
        ConstOp::RefNull(_) => plain(store, 0),
        ConstOp::RefFunc(index) => {
            let offset = store.state.instances[instance as usize].func_ref(index);
            plain(store, offset.context("a function of a constant expression has a record")?.into());
        }
        ConstOp::GlobalGet(index) => {
            let global = store.state.instances[instance as usize].globals[index.index()];
            let (bits, ty) = store.read_global(global);
            let bits = if matches!(ty, ValueType::V128) { bits } else { bits as u64 as u128 };
            let traced = store.global(global).traced;
            let bits = if traced { store.heap.current(Reference(bits as u32)).0.into() } else { bits };
            store.state.scratch.push((bits, traced));
        }
        ConstOp::I32Add => binary32(store, u32::wrapping_add),
        ConstOp::I32Sub => binary32(store, u32::wrapping_sub),
        ConstOp::I32Mul => binary32(store, u32::wrapping_mul),
        ConstOp::I64Add => binary64(store, u64::wrapping_add),
        ConstOp::I64Sub => binary64(store, u64::wrapping_sub),
        ConstOp::I64Mul => binary64(store, u64::wrapping_mul),
        ConstOp::RefI31 => {
            let value = pop(store);
            plain(store, Reference::from_i31(value as i32).0.into());
        }
        ConstOp::StructNew(index) => new_struct(store, type_id(store, instance, index.index()), true)?,
        ConstOp::StructNewDefault(index) => new_struct(store, type_id(store, instance, index.index()), false)?,
        ConstOp::ArrayNew(index) => {
            let ty = type_id(store, instance, index.index());
            let length = pop(store) as u32;
            let array = store.allocate_array(ty, length)?;
            // SAFETY: the array has just been allocated.
            let array = unsafe { store.array_reserve_leaves(array, 0, length)? };
            let value = pop(store);
            // SAFETY: the array is new, and the value was a root until now.
            unsafe { store.array_fill(array, 0, value, length)? };
            store.state.scratch.push((array.0.into(), true));
        }
        ConstOp::ArrayNewDefault(index) => {
            let ty = type_id(store, instance, index.index());
            let length = pop(store) as u32;
            let array = store.allocate_array(ty, length)?;
            store.state.scratch.push((array.0.into(), true));
        }
        ConstOp::ArrayNewFixed(index, length) => {
            let array = store.allocate_array(type_id(store, instance, index.index()), length)?;
            // SAFETY: the array has just been allocated.
            let array = unsafe { store.array_reserve_leaves(array, 0, length)? };
            for element in (0..length).rev() {
                let bits = pop(store);
                // SAFETY: the array is new, and the values were roots until nothing was left to allocate.
                unsafe { store.array_fill(array, element, bits, 1)? };
            }
            store.state.scratch.push((array.0.into(), true));
        }
        // The hierarchies differ in their static types only.
        ConstOp::AnyConvertExtern | ConstOp::ExternConvertAny => {}
    }
    Ok(())
}

fn type_id(store: &StoreOpaque, instance: u32, index: usize) -> TypeId {
    store.state.instances[instance as usize].module.type_ids()[index]
}

fn pop(store: &mut StoreOpaque) -> u128 {
    store.state.scratch.pop().expect("validation has checked the stack").0
}

fn binary32(store: &mut StoreOpaque, apply: fn(u32, u32) -> u32) {
    let (b, a) = (pop(store), pop(store));
    store.state.scratch.push((apply(a as u32, b as u32).into(), false));
}

fn binary64(store: &mut StoreOpaque, apply: fn(u64, u64) -> u64) {
    let (b, a) = (pop(store), pop(store));
    store.state.scratch.push((apply(a as u64, b as u64).into(), false));
}

/// Allocates a struct; its fields are taken from the stack only after that, since until then they are roots there.
fn new_struct(store: &mut StoreOpaque, ty: TypeId, with_fields: bool) -> Result<()> {
    let object = store.allocate_struct(ty)?;
    if with_fields {
        let entry = store.engine.types().get(ty);
        let fields = entry.fields().expect("validation has checked the type");
        let layout = entry.layout.as_ref().expect("a struct has a layout");
        for (field, &offset) in fields.iter().zip(&layout.offsets).rev() {
            let bits = pop(store);
            // SAFETY: the object is new, and the values were roots until nothing was left to allocate; validation has
            // checked their types.
            unsafe { fields::initialise_bits(store, object, offset, field.storage, bits) };
        }
    }
    store.state.scratch.push((object.0.into(), true));
    Ok(())
}
