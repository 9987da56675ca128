//! [`TypedFunc`], and the Rust types that stand for Wasm types.

use std::fmt;
use std::marker::PhantomData;

use anyhow::{Result, bail, ensure};
use legato_compiler::module as wasm;
use legato_heap::Reference;
use smallvec::smallvec;

use crate::func::{Cells, call_record};
use crate::store::StoreOpaque;
use crate::values::Cell;
use crate::vm::ValueCell;
use crate::{
    AnyRef, ArrayRef, AsContextMut, EqRef, ExnRef, ExternRef, Func, FuncType, HeapType, I31, Ref, RefType, Rooted,
    StructRef, V128, ValType,
};

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A Rust type that stands for a Wasm type: `i32`, `u32`, `i64`, `u64`, `f32`, `f64`, [`V128`], [`Func`], [`I31`],
/// [`Rooted<T>`](Rooted) of any reference type, and [`Option`]s of references, for types with null.
pub trait WasmTy: Sealed + Sized {
    /// The Wasm type.
    #[doc(hidden)]
    fn valtype() -> ValType;
    /// The bits of the value.
    #[doc(hidden)]
    fn into_bits(self, store: &StoreOpaque) -> Result<u128>;
    /// The value with these bits, which belong to the type.
    #[doc(hidden)]
    fn from_bits(store: &mut StoreOpaque, bits: u128) -> Self;
}

macro_rules! numbers {
    ($($ty:ty, $valtype:expr, $value:ident => $to:expr, $bits:ident => $from:expr;)*) => { $(
        impl Sealed for $ty {}

        impl WasmTy for $ty {
            fn valtype() -> ValType {
                $valtype
            }

            #[inline]
            fn into_bits(self, _: &StoreOpaque) -> Result<u128> {
                let $value = self;
                Ok($to)
            }

            #[inline]
            fn from_bits(_: &mut StoreOpaque, $bits: u128) -> $ty {
                $from
            }
        }
    )* };
}

numbers! {
    i32, ValType::I32, value => value as u32 as u128, bits => bits as i32;
    u32, ValType::I32, value => value as u128, bits => bits as u32;
    i64, ValType::I64, value => value as u64 as u128, bits => bits as i64;
    u64, ValType::I64, value => value as u128, bits => bits as u64;
    f32, ValType::F32, value => value.to_bits() as u128, bits => f32::from_bits(bits as u32);
    f64, ValType::F64, value => value.to_bits() as u128, bits => f64::from_bits(bits as u64);
    V128, ValType::V128, value => value.as_u128(), bits => V128::from(bits);
}

macro_rules! references {
    ($($ty:ty, $heap:expr, ($value:ident, $store:ident) => $to:expr, ($bits:ident, $from_store:ident) => $from:expr;)*) => { $(
        impl Sealed for $ty {}
        impl Sealed for Option<$ty> {}

        impl WasmTy for $ty {
            fn valtype() -> ValType {
                ValType::Ref(RefType::new(false, $heap))
            }

            fn into_bits(self, $store: &StoreOpaque) -> Result<u128> {
                let $value = self;
                Ok(u128::from($to))
            }

            fn from_bits($from_store: &mut StoreOpaque, bits: u128) -> $ty {
                let $bits = bits as u32;
                $from
            }
        }

        impl WasmTy for Option<$ty> {
            fn valtype() -> ValType {
                ValType::Ref(RefType::new(true, $heap))
            }

            fn into_bits(self, store: &StoreOpaque) -> Result<u128> {
                self.map_or(Ok(0), |value| value.into_bits(store))
            }

            fn from_bits(store: &mut StoreOpaque, bits: u128) -> Option<$ty> {
                (bits as u32 != 0).then(|| <$ty>::from_bits(store, bits))
            }
        }
    )* };
}

references! {
    Func, HeapType::Func, (value, store) => value.offset(store)?, (bits, store) => Func::from_offset(store, bits);
    I31, HeapType::I31, (value, _store) => Reference::from_i31(value.get_i32()).0,
        (bits, _store) => I31::wrapping_u32(bits >> 1);
    Rooted<ExternRef>, HeapType::Extern, (value, store) => value.bits(store)?,
        (bits, store) => Rooted::new(store, Reference(bits));
    Rooted<AnyRef>, HeapType::Any, (value, store) => value.bits(store)?,
        (bits, store) => Rooted::new(store, Reference(bits));
    Rooted<EqRef>, HeapType::Eq, (value, store) => value.bits(store)?,
        (bits, store) => Rooted::new(store, Reference(bits));
    Rooted<StructRef>, HeapType::Struct, (value, store) => value.bits(store)?,
        (bits, store) => Rooted::new(store, Reference(bits));
    Rooted<ArrayRef>, HeapType::Array, (value, store) => value.bits(store)?,
        (bits, store) => Rooted::new(store, Reference(bits));
    Rooted<ExnRef>, HeapType::Exn, (value, store) => value.bits(store)?,
        (bits, store) => Rooted::new(store, Reference(bits));
}

/// The parameters of a [`TypedFunc`]: a [`WasmTy`] or a tuple of them.
pub trait WasmParams: Sealed {
    /// The Wasm types.
    #[doc(hidden)]
    fn valtypes() -> Vec<ValType>;
    /// Writes the values to cells.
    #[doc(hidden)]
    fn store(self, store: &StoreOpaque, cells: &mut [ValueCell]) -> Result<()>;
}

/// The results of a [`TypedFunc`]: a [`WasmTy`] or a tuple of them.
pub trait WasmResults: WasmParams {
    /// Reads the values from cells.
    #[doc(hidden)]
    fn load(store: &mut StoreOpaque, cells: &[ValueCell]) -> Self;
}

impl<T: WasmTy> WasmParams for T {
    fn valtypes() -> Vec<ValType> {
        vec![T::valtype()]
    }

    #[inline]
    fn store(self, store: &StoreOpaque, cells: &mut [ValueCell]) -> Result<()> {
        cells[0].set(self.into_bits(store)?);
        Ok(())
    }
}

impl<T: WasmTy> WasmResults for T {
    #[inline]
    fn load(store: &mut StoreOpaque, cells: &[ValueCell]) -> T {
        T::from_bits(store, cells[0].u128())
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*);)*) => { $(
        impl<$($name: WasmTy),*> Sealed for ($($name,)*) {}

        impl<$($name: WasmTy),*> WasmParams for ($($name,)*) {
            fn valtypes() -> Vec<ValType> {
                vec![$($name::valtype()),*]
            }

            #[inline]
            fn store(self, _store: &StoreOpaque, _cells: &mut [ValueCell]) -> Result<()> {
                $(_cells[$index].set(self.$index.into_bits(_store)?);)*
                Ok(())
            }
        }

        impl<$($name: WasmTy),*> WasmResults for ($($name,)*) {
            #[inline]
            #[allow(clippy::unused_unit, reason = "the empty tuple")]
            fn load(_store: &mut StoreOpaque, _cells: &[ValueCell]) -> Self {
                ($($name::from_bits(_store, _cells[$index].u128()),)*)
            }
        }
    )* };
}

tuples! {
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

/// A function whose parameters and results are known to the Rust compiler.
///
/// ```
/// use legato::{Engine, Func, Store};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let divide = Func::wrap(&mut store, |left: i32, right: i32| (left / right, left % right));
/// let divide = divide.typed::<(i32, i32), (i32, i32)>(&store)?;
/// assert_eq!(divide.call(&mut store, (17, 5))?, (3, 2));
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct TypedFunc<Params, Results> {
    func: Func,
    /// Cells for a call.
    cells: usize,
    /// Parameters whose Rust type is wider than the function's: checked at each call. Types in engine space.
    checked: Box<[(usize, wasm::RefType)]>,
    marker: PhantomData<fn(Params) -> Results>,
}

impl<Params, Results> Clone for TypedFunc<Params, Results> {
    fn clone(&self) -> Self {
        TypedFunc { func: self.func, cells: self.cells, checked: self.checked.clone(), marker: PhantomData }
    }
}

impl<Params, Results> fmt::Debug for TypedFunc<Params, Results> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedFunc").field("func", &self.func).finish_non_exhaustive()
    }
}

impl<Params: WasmParams, Results: WasmResults> TypedFunc<Params, Results> {
    pub(crate) fn new(func: Func, ty: FuncType) -> Result<TypedFunc<Params, Results>> {
        let (params, results) = (Params::valtypes(), Results::valtypes());
        ensure!(
            params.len() == ty.params().len(),
            "wrong number of parameters: expected {}, found {}",
            ty.params().len(),
            params.len()
        );
        ensure!(
            results.len() == ty.results().len(),
            "wrong number of results: expected {}, found {}",
            ty.results().len(),
            results.len()
        );
        let mut checked = Vec::new();
        for (index, (given, expected)) in params.iter().zip(ty.params()).enumerate() {
            match (&expected, given) {
                _ if given.matches(&expected) => {}
                (ValType::Ref(expected), ValType::Ref(given)) if expected.matches(&given.clone().or_null()) => {
                    checked.push((index, expected.to_engine()));
                }
                _ => bail!("type mismatch: parameter {index} is {expected}, not {given}"),
            }
        }
        for (index, (given, actual)) in results.iter().zip(ty.results()).enumerate() {
            ensure!(actual.matches(given), "type mismatch: result {index} is {actual}, not {given}");
        }
        let cells = params.len().max(results.len());
        Ok(TypedFunc { func, cells, checked: checked.into(), marker: PhantomData })
    }

    /// The function.
    pub fn func(&self) -> &Func {
        &self.func
    }

    /// Calls the function. References among the results are rooted in the current scope.
    ///
    /// # Errors
    /// As [`Func::call`].
    ///
    /// # Panics
    /// As [`Func::call`].
    pub fn call(&self, mut store: impl AsContextMut, params: Params) -> Result<Results> {
        let mut store = store.as_context_mut();
        let raw = store.raw();
        // SAFETY: exclusive through `store`, which is not used otherwise below.
        let opaque = unsafe { &mut *raw };
        let record = self.func.record(opaque);
        let mut cells: Cells = smallvec![ValueCell::default(); self.cells];
        params.store(opaque, &mut cells)?;
        for &(index, ty) in &self.checked {
            if !opaque.reference_matches(cells[index].u32(), ty) {
                let given = Ref::from_bits(opaque, Reference(cells[index].u32()), ty);
                given.to_bits(opaque, ty, &format!("parameter {index}"))?;
            }
        }
        // SAFETY: the types were checked when this was made, and just now.
        unsafe { call_record(raw, &record, &mut cells) }?;
        // SAFETY: exclusive through `store`, and the call's own borrow has ended.
        Ok(Results::load(unsafe { &mut *raw }, &cells))
    }
}
