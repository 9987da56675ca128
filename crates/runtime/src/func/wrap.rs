//! Closures as host functions.

use std::sync::Arc;

use anyhow::Result;

use crate::func::{HostFunction, WasmResults, WasmTy};
use crate::store::StoreOpaque;
use crate::values::Cell;
use crate::vm::ValueCell;
use crate::{Caller, Engine, FuncType, ValType};

mod sealed {
    /// Implemented here alone: what a closure returns must have the types that it says.
    pub trait Sealed {}
}
use sealed::Sealed;

/// What a wrapped closure may return: a [`WasmTy`], a tuple of them, or a [`Result`] of one of these.
pub trait WasmRet: Sealed {
    /// The Wasm types.
    #[doc(hidden)]
    fn valtypes() -> Vec<ValType>;
    /// Writes the values to cells, one for each.
    #[doc(hidden)]
    fn store(self, store: &StoreOpaque, cells: &mut [ValueCell]) -> Result<()>;
}

impl<R: WasmResults> Sealed for R {}

impl<R: WasmResults> WasmRet for R {
    fn valtypes() -> Vec<ValType> {
        <R as crate::WasmParams>::valtypes()
    }

    #[inline]
    fn store(self, store: &StoreOpaque, cells: &mut [ValueCell]) -> Result<()> {
        crate::WasmParams::store(self, store, cells)
    }
}

impl<R: WasmResults> Sealed for Result<R> {}

impl<R: WasmResults> WasmRet for Result<R> {
    fn valtypes() -> Vec<ValType> {
        <R as WasmRet>::valtypes()
    }

    #[inline]
    fn store(self, store: &StoreOpaque, cells: &mut [ValueCell]) -> Result<()> {
        WasmRet::store(self?, store, cells)
    }
}

/// A closure that can be a host function: its parameters are [`WasmTy`]s, the first may be a [`Caller`]; it returns a
/// [`WasmRet`].
pub trait IntoFunc<T, Params, Results>: Send + Sync + 'static {
    /// The host function.
    #[doc(hidden)]
    fn into_host_function(self, engine: &Engine) -> Arc<HostFunction>;
}

macro_rules! closures {
    ($(($($name:ident $index:tt),*);)*) => { $(
        impl<T: 'static, Code, R, $($name),*> IntoFunc<T, ($($name,)*), R> for Code
        where
            Code: Fn($($name),*) -> R + Send + Sync + 'static,
            R: WasmRet,
            $($name: WasmTy,)*
        {
            fn into_host_function(self, engine: &Engine) -> Arc<HostFunction> {
                let code = move |_: Caller<'_, T>, $($name: $name),*| self($($name),*);
                IntoFunc::<T, (Caller<'_, T>, $($name,)*), R>::into_host_function(code, engine)
            }
        }

        impl<T: 'static, Code, R, $($name),*> IntoFunc<T, (Caller<'_, T>, $($name,)*), R> for Code
        where
            Code: for<'a> Fn(Caller<'a, T>, $($name),*) -> R + Send + Sync + 'static,
            R: WasmRet,
            $($name: WasmTy,)*
        {
            fn into_host_function(self, engine: &Engine) -> Arc<HostFunction> {
                let params: Vec<ValType> = vec![$($name::valtype()),*];
                let results = R::valtypes();
                let count = results.len();
                let ty = FuncType::new(engine, params, results);
                let code = move |store: *mut StoreOpaque, instance: Option<u32>, cells: *mut ValueCell| {
                    // SAFETY: the trampoline gives a cell for each parameter, and the store exclusively; it is a `T`'s,
                    // as host functions are called in stores of their own data type.
                    let result = unsafe {
                        $(let $name = $name::from_bits(&mut *store, (*cells.add($index)).u128());)*
                        self(Caller::new(store, instance), $($name),*)
                    };
                    // SAFETY: the trampoline gives a cell for each result, and the closure's borrow of the store has
                    // ended.
                    let (store, cells) = unsafe { (&*store, std::slice::from_raw_parts_mut(cells, count)) };
                    result.store(store, cells)
                };
                HostFunction::new(ty, Box::new(code))
            }
        }
    )* };
}

closures! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
}
