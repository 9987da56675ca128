//! Throwing.

use legato_compiler::artifact::TrapCode;
use legato_heap::Reference;
use legato_heap::layout::StorageKind;

use crate::builtins::{Failure, attempt};
use crate::store::StoreOpaque;
use crate::vm::activation;

/// `Builtin::ThrowRef`.
pub(super) unsafe extern "C" fn throw_ref(_context: *mut u8, exception: u32) -> ! {
    // SAFETY: compiled code called by way of a trampoline, with an exception of its store or null.
    unsafe {
        if exception == 0 {
            activation::set_pending_trap(TrapCode::NullReference, None);
            activation::raise()
        }
        activation::throw(exception)
    }
}

/// `Builtin::Throw`.
pub(super) unsafe extern "C" fn throw(context: *mut u8, payload: u32, tag: u32) -> ! {
    // SAFETY: a builtin; nothing here has to be dropped when the call is given up.
    unsafe {
        match attempt(context, |store, instance| make(store, instance, payload, tag)) {
            Some(exception) => activation::throw(exception as u32),
            None => activation::raise(),
        }
    }
}

/// A new exception with a tag of the instance's module and this reference as its payload.
fn make(store: &mut StoreOpaque, instance: u32, payload: u32, tag: u32) -> Result<i64, Failure> {
    let tag = store.state.instances[instance as usize].tags[tag as usize];
    let ty = store.state.tags[tag as usize].exception;
    // A root while the exception is allocated, which may move what it leads to.
    store.state.scratch.push((payload.into(), true));
    let made = store.heap.allocate_struct(ty, &mut store.state);
    let (payload, _) = store.state.scratch.pop().expect("the payload lies there");
    let exception = made?;
    let offsets = &store.heap.types().layout(ty).expect("an exception has a layout").offsets;
    let (tag_offset, payload_offset) = (offsets[0], offsets[1]);
    // SAFETY: the exception is new, nothing has been allocated since, and validation has checked the payload's type.
    unsafe {
        store.heap.store(exception, tag_offset, StorageKind::I32, tag.into());
        store.heap.initialise_reference(exception, payload_offset, Reference(payload as u32));
    }
    Ok(exception.0.into())
}
