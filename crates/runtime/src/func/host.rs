//! Host functions, and how compiled code reaches them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use anyhow::Result;
use legato_compiler::abi::{HOST_MAGIC, HostContext};
use smallvec::SmallVec;

use crate::store::StoreOpaque;
use crate::trap::unwind_of;
use crate::values::Cell;
use crate::vm::{Unwind, ValueCell, activation};
use crate::{Caller, FuncType, Val, ValType};

/// Takes the store, the calling instance, and the cells with the parameters and for the results.
pub(crate) type HostCode = dyn Fn(*mut StoreOpaque, Option<u32>, *mut ValueCell) -> Result<()> + Send + Sync;

/// A host function, for any number of stores of one data type.
pub struct HostFunction {
    pub(crate) ty: FuncType,
    code: Box<HostCode>,
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFunction").field("ty", &self.ty).finish_non_exhaustive()
    }
}

impl HostFunction {
    /// A function of type `ty`. `code` reads and writes cells as that type says, and leads to a store of its data type
    /// only.
    pub(crate) fn new(ty: FuncType, code: Box<HostCode>) -> Arc<HostFunction> {
        Arc::new(HostFunction { ty, code })
    }

    /// A function that works on values of any type.
    pub(crate) fn untyped<T: 'static>(
        ty: FuncType,
        func: impl Fn(Caller<'_, T>, &[Val], &mut [Val]) -> Result<()> + Send + Sync + 'static,
    ) -> Arc<HostFunction> {
        let types = ty.clone();
        // Each reference is null at first, and each number zero.
        let defaults: SmallVec<[Val; 2]> = ty
            .raw()
            .results
            .iter()
            .map(|&result| match result {
                legato_compiler::module::ValueType::Ref(result) => {
                    Val::null_ref(crate::RefType::from_engine(ty.engine(), result).heap_type())
                }
                number => {
                    Val::default_for_ty(&ValType::from_engine(ty.engine(), number)).expect("numbers have a default")
                }
            })
            .collect();
        let code = move |store: *mut StoreOpaque, instance: Option<u32>, cells: *mut ValueCell| {
            let raw = types.raw();
            let mut values: SmallVec<[Val; 8]> = SmallVec::new();
            for (index, &ty) in raw.params.iter().enumerate() {
                // SAFETY: the trampoline gives a cell for each parameter, and the store exclusively.
                values.push(unsafe { Val::from_bits(&mut *store, (*cells.add(index)).u128(), ty) });
            }
            let first = values.len();
            values.extend_from_slice(&defaults);
            let (params, results) = values.split_at_mut(first);
            // SAFETY: the store is a `T`'s: host functions are called in stores of their own data type.
            func(unsafe { Caller::new(store, instance) }, params, results)?;
            for (index, (value, &ty)) in results.iter().zip(&raw.results).enumerate() {
                // SAFETY: the exit trampoline gives a cell for each result.
                unsafe { (*cells.add(index)).set(value.to_bits(&*store, ty)?) };
            }
            Ok(())
        };
        HostFunction::new(ty, Box::new(code))
    }
}

/// The context of a host function as one instance, or none, imported it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct HostCallee {
    abi: HostContext,
    instance: Option<u32>,
    pub(crate) function: Arc<HostFunction>,
}

impl HostCallee {
    /// Makes a context that lives as long as the store.
    pub(crate) fn make(store: &mut StoreOpaque, function: Arc<HostFunction>, instance: Option<u32>) -> *mut HostCallee {
        let abi = HostContext { head: store.context_head(HOST_MAGIC, 0), call: call_from_code };
        store.state.host_callees.push(Box::new(HostCallee { abi, instance, function }));
        let callee = store.state.host_callees.last_mut().expect("just pushed");
        &raw mut **callee
    }
}

/// What exit trampolines call.
///
/// # Safety
/// `context` is a [`HostCallee`], and the cells are those of its function's type.
unsafe extern "C" fn call_from_code(context: *mut HostContext, cells: *mut u8) -> u32 {
    // SAFETY: by the caller's promise.
    let result = unsafe {
        let store = StoreOpaque::of_words((*context).head.store);
        invoke(store, context.cast(), cells.cast())
    };
    match result {
        Ok(()) => 0,
        Err(unwind) => {
            activation::set_pending(*unwind);
            1
        }
    }
}

/// Runs a host function in a scope of roots of its own. What is pending outside is none of its business, and what
/// becomes pending in it and is not thrown ends with it. Never panics: whatever may is done under `catch_unwind`.
///
/// # Errors
/// Why the function did not return, in a box: a result of one word stays in a register, where that of a larger reason
/// would be copied through memory at every call, also of those that succeed.
///
/// # Safety
/// The store is used by this thread alone; `callee` is one of its; the cells are those of its function's type.
pub(crate) unsafe fn invoke(
    store: *mut StoreOpaque,
    callee: *const HostCallee,
    cells: *mut ValueCell,
) -> Result<(), Box<Unwind>> {
    // SAFETY: by the caller's promise; a callee lives as long as its store.
    unsafe {
        let callee = &*callee;
        let entered = (*store).state.enter_host();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            (callee.function.code)(store, callee.instance, cells).map_err(|error| boxed_unwind_of(&mut *store, error))
        }));
        let StoreOpaque { state, heap, .. } = &mut *store;
        state.exit_host(entered, heap);
        outcome.unwrap_or_else(|panic| Err(Box::new(Unwind::Panic(panic))))
    }
}

/// [`unwind_of`] out of the way of calls that succeed.
#[cold]
fn boxed_unwind_of(store: &mut StoreOpaque, error: anyhow::Error) -> Box<Unwind> {
    Box::new(unwind_of(store, error))
}
