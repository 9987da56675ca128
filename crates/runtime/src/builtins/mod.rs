//! The runtime side of every [`Builtin`]: what compiled code calls.
//!
//! Each takes the caller's instance context first. Those that fail return -1 after noting why, as the conventions in
//! [`legato_compiler::abi`] say. None of them unwinds into compiled code: all that may panic is done in [`attempt`],
//! which notes a panic, so that it is resumed on the host's side. Those that never return look for frames and handlers
//! outside of it: only a broken stack can stop them, and the process with them, since no panic leaves an `extern "C"`
//! function.

mod control;
mod exceptions;
mod float;
mod gc;
mod memory;
mod pieces;
mod table;

pub(crate) use pieces::Pieces;

use std::panic::{AssertUnwindSafe, catch_unwind};

use legato_compiler::abi::{Builtin, ContextHead};
use legato_compiler::artifact::TrapCode;

use crate::store::{ContextMemory, StoreOpaque};
use crate::trap::with_frames_of_now;
use crate::vm::{TrapRecord, Unwind, activation};

/// Addresses of the builtins, in order of [`Builtin`].
struct Table([*const u8; Builtin::ALL.len()]);

// SAFETY: addresses of functions.
unsafe impl Sync for Table {}

static TABLE: Table = Table(addresses());

/// What [`ContextHead::builtins`] points to.
pub(crate) fn table() -> *const *const u8 {
    TABLE.0.as_ptr()
}

const fn addresses() -> [*const u8; Builtin::ALL.len()] {
    let mut addresses = [std::ptr::null(); Builtin::ALL.len()];
    let mut index = 0;
    while index < addresses.len() {
        addresses[index] = address(Builtin::ALL[index]);
        index += 1;
    }
    addresses
}

const fn address(builtin: Builtin) -> *const u8 {
    match builtin {
        Builtin::Raise => control::raise as *const u8,
        Builtin::Trap => control::trap as *const u8,
        Builtin::ThrowRef => exceptions::throw_ref as *const u8,
        Builtin::Throw => exceptions::throw as *const u8,
        Builtin::Poll => control::poll as *const u8,
        Builtin::OsrEntry => control::osr_entry as *const u8,
        Builtin::FlushStoreBuffer => gc::flush_store_buffer as *const u8,
        Builtin::RecordOverwritten => gc::flush_overwritten as *const u8,
        Builtin::StoreField => gc::store_field as *const u8,
        Builtin::StoreElement => gc::store_element as *const u8,
        Builtin::StoreFunctions => gc::store_functions as *const u8,
        Builtin::InitialiseElements => gc::initialise_elements as *const u8,
        Builtin::AllocateStruct => gc::allocate_struct as *const u8,
        Builtin::AllocateArray => gc::allocate_array as *const u8,
        Builtin::ArrayNew => gc::array_new as *const u8,
        Builtin::LeafForStore => gc::leaf_for_store as *const u8,
        Builtin::ArrayNewData => gc::array_new_data as *const u8,
        Builtin::ArrayNewElem => gc::array_new_elem as *const u8,
        Builtin::ArrayInitData => gc::array_init_data as *const u8,
        Builtin::ArrayInitElem => gc::array_init_elem as *const u8,
        Builtin::ArrayFill => gc::array_fill as *const u8,
        Builtin::ArrayCopy => gc::array_copy as *const u8,
        Builtin::MemoryGrow => memory::grow as *const u8,
        Builtin::MemoryCopy => memory::copy as *const u8,
        Builtin::MemoryFill => memory::fill as *const u8,
        Builtin::MemoryInit => memory::init as *const u8,
        Builtin::DataDrop => memory::data_drop as *const u8,
        Builtin::TableGrow => table::grow as *const u8,
        Builtin::TableFill => table::fill as *const u8,
        Builtin::TableCopy => table::copy as *const u8,
        Builtin::TableInit => table::init as *const u8,
        Builtin::ElemDrop => table::elem_drop as *const u8,
        Builtin::CeilF64 => float::ceil_f64 as *const u8,
        Builtin::FloorF64 => float::floor_f64 as *const u8,
        Builtin::TruncF64 => float::trunc_f64 as *const u8,
        Builtin::NearestF64 => float::nearest_f64 as *const u8,
        Builtin::CeilF32 => float::ceil_f32 as *const u8,
        Builtin::FloorF32 => float::floor_f32 as *const u8,
        Builtin::TruncF32 => float::trunc_f32 as *const u8,
        Builtin::NearestF32 => float::nearest_f32 as *const u8,
    }
}

/// Why a builtin fails.
pub(crate) enum Failure {
    /// A trap.
    Trap(TrapCode),
    /// A trap, with more to say.
    Explained(TrapCode, String),
    /// An error of the host's.
    Error(anyhow::Error),
}

impl From<TrapCode> for Failure {
    fn from(code: TrapCode) -> Failure {
        Failure::Trap(code)
    }
}

impl From<legato_heap::AllocationError> for Failure {
    fn from(error: legato_heap::AllocationError) -> Failure {
        let (code, message) = crate::store::allocation_trap(error);
        Failure::Explained(code, message)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Error(error)
    }
}

/// Runs a builtin for the instance of `context`. The result, which is not -1, or -1 after noting why it failed.
///
/// # Safety
/// Compiled code of the instance that `context` belongs to called out by way of a trampoline.
unsafe fn run(context: *mut u8, work: impl FnOnce(&mut StoreOpaque, u32) -> Result<i64, Failure>) -> i64 {
    // SAFETY: passed on to the caller.
    unsafe { attempt(context, work) }.unwrap_or(-1)
}

/// Runs a builtin that has no result by which it could say that it failed: if it panics, the call is given up at once.
///
/// # Safety
/// As [`run`].
unsafe fn run_without_result(context: *mut u8, work: impl FnOnce(&mut StoreOpaque, u32)) {
    // SAFETY: passed on to the caller; nothing here has to be dropped when the call is given up.
    unsafe {
        let done = attempt(context, |store, instance| {
            work(store, instance);
            Ok(0)
        });
        if done.is_none() {
            activation::raise()
        }
    }
}

/// As [`run`], with `None` after noting why it failed.
///
/// # Safety
/// As [`run`].
unsafe fn attempt(context: *mut u8, work: impl FnOnce(&mut StoreOpaque, u32) -> Result<i64, Failure>) -> Option<i64> {
    // SAFETY: by the caller's promise; the store is this thread's while its code runs, and nobody holds a borrow of it.
    let (store, instance) = unsafe {
        let store = StoreOpaque::of_words((*context.cast::<ContextHead>()).store);
        (&mut *store, ContextMemory::instance_of(context))
    };
    let outcome =
        catch_unwind(AssertUnwindSafe(|| work(store, instance).map_err(|failure| unwind_here(store, failure))));
    let unwind = match outcome {
        Ok(Ok(result)) => return Some(result),
        Ok(Err(unwind)) => unwind,
        Err(panic) => Unwind::Panic(panic),
    };
    activation::set_pending(unwind);
    None
}

/// The reason to unwind that a failure is, with the frames of now.
#[cold]
fn unwind_here(store: &StoreOpaque, failure: Failure) -> Unwind {
    let (code, message) = match failure {
        Failure::Trap(code) => (code, None),
        Failure::Explained(code, message) => (code, Some(message)),
        Failure::Error(error) => return Unwind::Error(with_frames_of_now(store, error)),
    };
    // SAFETY: compiled code of the store called out by way of a trampoline.
    Unwind::Trap(unsafe { TrapRecord::capture(store.words(), code, message) })
}
