//! Functions.

mod caller;
mod host;
mod typed;
#[allow(non_snake_case, reason = "in its macro, a variable is named as its type")]
mod wrap;

pub use caller::Caller;
pub(crate) use host::HostCallee;
pub use host::HostFunction;
pub use typed::{TypedFunc, WasmParams, WasmResults, WasmTy};
pub use wrap::{IntoFunc, WasmRet};

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use legato_compiler::abi::{FuncRef, HOST_FUNCTION};
use legato_heap::TypeId;
use smallvec::{SmallVec, smallvec};

use crate::store::{StoreId, StoreOpaque};
use crate::trap::error_of;
use crate::values::Cell;
use crate::values::val::lower_all;
use crate::vm::{ValueCell, activation, interrupt};
use crate::{AsContext, AsContextMut, FuncType, Trap, Val};

/// Cells for a call.
pub(crate) type Cells = SmallVec<[ValueCell; 8]>;

/// A function of a store: compiled code or a host function.
///
/// ```
/// use legato::{Engine, Func, FuncType, Store, Val, ValType};
///
/// let engine = Engine::default();
/// let mut store = Store::new(&engine, ());
/// let ty = FuncType::new(&engine, [ValType::I32, ValType::I32], [ValType::I32]);
/// let largest = Func::new(&mut store, ty, |_caller, params, results| {
///     results[0] = Val::I32(params.iter().filter_map(|value| value.i32()).max().unwrap_or(0));
///     Ok(())
/// });
/// let mut results = [Val::I32(0)];
/// largest.call(&mut store, &[Val::I32(3), Val::I32(8)], &mut results)?;
/// assert_eq!(results[0].i32(), Some(8));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Func {
    store: StoreId,
    /// Offset of its record in the store's table.
    offset: u32,
}

impl Func {
    /// A host function of type `ty`. It receives the parameters, and writes the results over values that are zero or
    /// null at first. An error that it returns becomes the error of the outermost call; see also
    /// [`StoreContextMut::throw`](crate::StoreContextMut::throw).
    ///
    /// # Panics
    /// If the type belongs to another engine, or no memory is left for one more function.
    pub fn new<T: 'static>(
        mut store: impl AsContextMut<Data = T>,
        ty: FuncType,
        func: impl Fn(Caller<'_, T>, &[Val], &mut [Val]) -> Result<()> + Send + Sync + 'static,
    ) -> Func {
        let function = HostFunction::untyped(ty, func);
        Func::host(&mut store.as_context_mut().0.opaque, function).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// A host function whose type follows from a closure's. Parameters and results are those of [`WasmTy`]; the first
    /// parameter may be a [`Caller`], the result may be a [`Result`].
    ///
    /// # Panics
    /// If no memory is left for one more function.
    pub fn wrap<T: 'static, Params, Results>(
        mut store: impl AsContextMut<Data = T>,
        func: impl IntoFunc<T, Params, Results>,
    ) -> Func {
        let store = store.as_context_mut();
        let function = func.into_host_function(&store.0.opaque.engine);
        Func::host(&mut store.0.opaque, function).unwrap_or_else(|error| panic!("{error:#}"))
    }

    pub(crate) fn from_offset(store: &StoreOpaque, offset: u32) -> Func {
        Func { store: store.id, offset }
    }

    /// Makes a host function a function of this store.
    pub(crate) fn host(store: &mut StoreOpaque, function: Arc<HostFunction>) -> Result<Func> {
        ensure!(
            crate::Engine::same(&store.engine, function.ty.engine()),
            "the function type belongs to another engine"
        );
        let key = Arc::as_ptr(&function);
        if let Some(&offset) = store.state.host_functions.get(&key) {
            return Ok(Func::from_offset(store, offset));
        }
        let image = store.engine.trampolines(function.ty.signature())?;
        let code = image.exit_trampoline(function.ty.signature()).context("an exit trampoline is missing")?;
        store.state.keep_image(&image);
        let type_id = function.ty.id().0;
        let context = HostCallee::make(store, function, None).cast();
        let record = FuncRef { code, context, type_id, number: HOST_FUNCTION, data: 0 };
        let offset = store.add_func_refs(1)?;
        store.set_func_ref(offset, record);
        store.state.host_functions.insert(key, offset);
        Ok(Func::from_offset(store, offset))
    }

    /// The offset of its record.
    pub(crate) fn offset(&self, store: &StoreOpaque) -> Result<u32> {
        store.check_id(self.store, "function")?;
        Ok(self.offset)
    }

    /// Its record.
    ///
    /// # Panics
    /// If the store is another.
    pub(crate) fn record(&self, store: &StoreOpaque) -> FuncRef {
        *store.func_ref(self.offset(store).unwrap_or_else(|error| panic!("{error:#}")))
    }

    /// Its type.
    ///
    /// # Panics
    /// If the store is another.
    pub fn ty(&self, store: impl AsContext) -> FuncType {
        self.type_in(&store.as_context().0.opaque)
    }

    pub(crate) fn type_in(&self, store: &StoreOpaque) -> FuncType {
        FuncType::from_id(&store.engine, TypeId(self.record(store).type_id))
    }

    /// Whether it belongs to a type.
    ///
    /// # Panics
    /// If the store is another.
    pub fn matches_ty(&self, store: impl AsContext, ty: &FuncType) -> bool {
        self.ty(store).matches(ty)
    }

    /// Calls the function. References among the results are rooted in the current scope.
    ///
    /// # Errors
    /// If the parameters do not have the function's types, if `results` has another length than its results; else what
    /// ended the call: a [`Trap`](crate::Trap), a [`ThrownException`](crate::ThrownException), or a host function's
    /// error.
    ///
    /// # Panics
    /// If the store is another, or a host function panics.
    pub fn call(&self, mut store: impl AsContextMut, params: &[Val], results: &mut [Val]) -> Result<()> {
        let mut store = store.as_context_mut();
        let raw = store.raw();
        // SAFETY: exclusive through `store`, which is not used otherwise below.
        let opaque = unsafe { &mut *raw };
        let record = self.record(opaque);
        let entry = opaque.engine.types().get(TypeId(record.type_id));
        let ty = entry.func().expect("a function has a function type");
        let expected = ty.results.len();
        ensure!(
            results.len() == expected,
            "wrong number of results: expected room for {expected}, found {}",
            results.len()
        );
        let bits = lower_all(opaque, params, &ty.params, "parameter")?;
        let mut cells: Cells = smallvec![ValueCell::default(); bits.len().max(expected)];
        cells.iter_mut().zip(bits).for_each(|(cell, bits)| cell.set(bits));
        // SAFETY: the cells hold the parameters, checked against the function's type.
        unsafe { call_record(raw, &record, &mut cells)? };
        // SAFETY: exclusive through `store`, and the call's own borrow has ended.
        let opaque = unsafe { &mut *raw };
        for ((result, cell), &ty) in results.iter_mut().zip(&cells).zip(&ty.results) {
            *result = Val::from_bits(opaque, cell.u128(), ty);
        }
        Ok(())
    }

    /// The function with the types of its parameters and results known to the Rust compiler.
    ///
    /// # Errors
    /// If they differ from the function's.
    ///
    /// # Panics
    /// If the store is another.
    pub fn typed<Params: WasmParams, Results: WasmResults>(
        &self,
        store: impl AsContext,
    ) -> Result<TypedFunc<Params, Results>> {
        TypedFunc::new(*self, self.ty(store))
    }
}

impl StoreOpaque {
    /// The trampoline into functions of a type.
    pub(crate) fn entry(&mut self, ty: TypeId) -> Result<*const u8> {
        if let Some(&entry) = self.state.entries.get(&ty) {
            return Ok(entry);
        }
        let described = self.engine.types().get(ty);
        let signature = described.signature.as_ref().context("not a function type")?;
        let image = self.engine.trampolines(signature)?;
        let entry = image.entry_trampoline(signature).context("an entry trampoline is missing")?;
        self.state.keep_image(&image);
        self.state.entries.insert(ty, entry);
        Ok(entry)
    }
}

/// Calls a function with its parameters in `cells`, where the results are afterwards.
///
/// # Safety
/// The store is borrowed exclusively, by way of a pointer to the whole of it. The record is one of its functions, and
/// the cells hold values of its parameters' types and have room for its results.
pub(crate) unsafe fn call_record(store: *mut StoreOpaque, record: &FuncRef, cells: &mut [ValueCell]) -> Result<()> {
    // SAFETY: exclusive by the caller's promise; no reference to the store is held over the call itself.
    unsafe {
        if record.number == HOST_FUNCTION {
            (*store).state.begin_call();
            let outer = (*store).set_address(store);
            let result = host::invoke(store, record.context.cast(), cells.as_mut_ptr());
            (*store).set_address(outer);
            return result.map_err(|unwind| error_of(&mut *store, *unwind));
        }
        let entry = (*store).entry(TypeId(record.type_id))?;
        call_code(store, entry, record.context, record.code, cells)
    }
}

/// As [`call_record`], for compiled code.
///
/// # Safety
/// As [`call_record`]; `entry` is a trampoline for the code's signature, `context` its instance's.
pub(crate) unsafe fn call_code(
    store: *mut StoreOpaque,
    entry: *const u8,
    context: *mut u8,
    code: *const u8,
    cells: &mut [ValueCell],
) -> Result<()> {
    // SAFETY: by the caller's promise.
    unsafe {
        (*store).state.begin_call();
        let words = (*store).words();
        if let Some(outer) = activation::innermost_of(words, activation::current()) {
            ensure!(
                interrupt::is_same_stack(outer.entry_fp()),
                "a call of this store is under way on another stack: all of its calls have to lie on one"
            );
        } else {
            let limit = interrupt::stack_limit_here((*store).engine.config().max_wasm_stack);
            let mutator = (*store).heap.mutator_context();
            (*store).interrupt.set_stack_limit(mutator, limit);
            (*words).stack_floor = limit;
            // Code without a loop or a large frame would not ask.
            if (*store).interrupt.is_requested() && (*store).interrupt.answer() {
                return Err(Trap::Interrupt.into());
            }
        }
        let outer = (*store).set_address(store);
        let result = activation::enter(words, entry, context, code, cells.as_mut_ptr());
        (*store).set_address(outer);
        result.map_err(|unwind| error_of(&mut *store, unwind))
    }
}
