//! [`Val`]: a value of any type.

use anyhow::{Context, Result, bail, ensure};
use legato_compiler::module as wasm;
use legato_heap::Reference;

use crate::store::StoreOpaque;
use crate::{AnyRef, AsContext, ExnRef, ExternRef, Func, HeapType, I31, Ref, Rooted, ValType};

/// A 128-bit vector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct V128(u128);

impl V128 {
    /// The bits, lane 0 lowest.
    pub fn as_u128(self) -> u128 {
        self.0
    }
}

impl From<u128> for V128 {
    fn from(bits: u128) -> V128 {
        V128(bits)
    }
}

impl From<V128> for u128 {
    fn from(value: V128) -> u128 {
        value.0
    }
}

/// A value of any type. Floats are held as bits.
///
/// ```
/// use legato::{Val, ValType};
///
/// let value = Val::from(2.5f64);
/// assert_eq!((value.f64(), value.i32()), (Some(2.5), None));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Val {
    /// 32-bit integer.
    I32(i32),
    /// 64-bit integer.
    I64(i64),
    /// Bits of a single-precision float.
    F32(u32),
    /// Bits of a double-precision float.
    F64(u64),
    /// 128-bit vector.
    V128(V128),
    /// A function, or null.
    FuncRef(Option<Func>),
    /// A host value or externalised one, or null.
    ExternRef(Option<Rooted<ExternRef>>),
    /// An internal value, or null.
    AnyRef(Option<Rooted<AnyRef>>),
    /// An exception, or null.
    ExnRef(Option<Rooted<ExnRef>>),
}

macro_rules! accessors {
    ($($(#[$doc:meta])* $get:ident $unwrap:ident $pattern:pat => $value:expr, $ty:ty;)*) => { $(
        $(#[$doc])*
        pub fn $get(&self) -> Option<$ty> {
            match *self {
                $pattern => Some($value),
                _ => None,
            }
        }

        /// As the accessor of the same type, where the type is known.
        ///
        /// # Panics
        /// If the value has another type.
        pub fn $unwrap(&self) -> $ty {
            self.$get().expect(concat!("expected ", stringify!($ty)))
        }
    )* };
}

impl Val {
    accessors! {
        /// The 32-bit integer.
        i32 unwrap_i32 Val::I32(value) => value, i32;
        /// The 64-bit integer.
        i64 unwrap_i64 Val::I64(value) => value, i64;
        /// The single-precision float.
        f32 unwrap_f32 Val::F32(bits) => f32::from_bits(bits), f32;
        /// The double-precision float.
        f64 unwrap_f64 Val::F64(bits) => f64::from_bits(bits), f64;
        /// The vector.
        v128 unwrap_v128 Val::V128(value) => value, V128;
        /// The function or null.
        func_ref unwrap_func_ref Val::FuncRef(value) => value, Option<Func>;
        /// The host value or null.
        extern_ref unwrap_extern_ref Val::ExternRef(value) => value, Option<Rooted<ExternRef>>;
        /// The internal value or null.
        any_ref unwrap_any_ref Val::AnyRef(value) => value, Option<Rooted<AnyRef>>;
        /// The exception or null.
        exn_ref unwrap_exn_ref Val::ExnRef(value) => value, Option<Rooted<ExnRef>>;
    }

    /// The null of this heap type's hierarchy.
    pub fn null_ref(ty: &HeapType) -> Val {
        if ty.is_func() {
            Val::FuncRef(None)
        } else if ty.is_extern() {
            Val::ExternRef(None)
        } else if ty.is_exn() {
            Val::ExnRef(None)
        } else {
            Val::AnyRef(None)
        }
    }

    /// Zero, or null, where the type has it.
    pub fn default_for_ty(ty: &ValType) -> Option<Val> {
        Some(match ty {
            ValType::I32 => Val::I32(0),
            ValType::I64 => Val::I64(0),
            ValType::F32 => Val::F32(0),
            ValType::F64 => Val::F64(0),
            ValType::V128 => Val::V128(V128(0)),
            ValType::Ref(ty) if ty.is_nullable() => Val::null_ref(ty.heap_type()),
            ValType::Ref(_) => return None,
        })
    }

    /// The value's type: for references, its own type, not null unless it is null.
    ///
    /// # Errors
    /// If a reference belongs to another store, or its scope has ended.
    pub fn ty(&self, store: impl AsContext) -> Result<ValType> {
        self.type_in(&store.as_context().0.opaque)
    }

    fn type_in(&self, store: &StoreOpaque) -> Result<ValType> {
        Ok(match self {
            Val::I32(_) => ValType::I32,
            Val::I64(_) => ValType::I64,
            Val::F32(_) => ValType::F32,
            Val::F64(_) => ValType::F64,
            Val::V128(_) => ValType::V128,
            _ => ValType::Ref(self.ref_().expect("every other value is a reference").type_in(store)?),
        })
    }

    /// Whether the value belongs to a type.
    ///
    /// # Errors
    /// As for [`ty`](Self::ty); and if the type belongs to another engine than the store's.
    pub fn matches_ty(&self, store: impl AsContext, ty: &ValType) -> Result<bool> {
        let store = store.as_context();
        ty.check_engine(store.engine())?;
        Ok(self.bits_of_type(&store.0.opaque, ty.to_engine())?.is_some())
    }

    /// The reference, if it is one.
    pub fn ref_(&self) -> Option<Ref> {
        match *self {
            Val::FuncRef(value) => Some(Ref::Func(value)),
            Val::ExternRef(value) => Some(Ref::Extern(value)),
            Val::AnyRef(value) => Some(Ref::Any(value)),
            Val::ExnRef(value) => Some(Ref::Exn(value)),
            _ => None,
        }
    }

    /// The bits of a value that belongs to `ty` (engine space); `None` where it does not.
    pub(crate) fn bits_of_type(&self, store: &StoreOpaque, ty: wasm::ValueType) -> Result<Option<u128>> {
        use wasm::ValueType;
        Ok(match (self, ty) {
            (Val::I32(value), ValueType::I32) => Some(*value as u32 as u128),
            (Val::I64(value), ValueType::I64) => Some(*value as u64 as u128),
            (Val::F32(bits), ValueType::F32) => Some(*bits as u128),
            (Val::F64(bits), ValueType::F64) => Some(*bits as u128),
            (Val::V128(value), ValueType::V128) => Some(value.0),
            (_, ValueType::Ref(ty)) => match self.ref_() {
                Some(reference) => reference.bits_of_type(store, ty)?.map(u128::from),
                None => None,
            },
            _ => None,
        })
    }

    /// As [`bits_of_type`](Self::bits_of_type), with an error that names the type.
    pub(crate) fn to_bits(self, store: &StoreOpaque, ty: wasm::ValueType) -> Result<u128> {
        match self.bits_of_type(store, ty)? {
            Some(bits) => Ok(bits),
            None => {
                let expected = ValType::from_engine(&store.engine, ty);
                bail!("type mismatch: expected {expected}, found {}", self.type_in(store)?)
            }
        }
    }

    /// The value of type `ty` (engine space) with these bits; references are rooted in the current scope.
    pub(crate) fn from_bits(store: &mut StoreOpaque, bits: u128, ty: wasm::ValueType) -> Val {
        match ty {
            wasm::ValueType::I32 => Val::I32(bits as i32),
            wasm::ValueType::I64 => Val::I64(bits as i64),
            wasm::ValueType::F32 => Val::F32(bits as u32),
            wasm::ValueType::F64 => Val::F64(bits as u64),
            wasm::ValueType::V128 => Val::V128(V128(bits)),
            wasm::ValueType::Ref(ty) => Ref::from_bits(store, Reference(bits as u32), ty).into(),
        }
    }
}

/// Checks a list of values against types and returns their bits.
pub(crate) fn lower_all(
    store: &StoreOpaque,
    values: &[Val],
    types: &[wasm::ValueType],
    what: &str,
) -> Result<Vec<u128>> {
    ensure!(values.len() == types.len(), "expected {} {what}s, found {}", types.len(), values.len());
    let lower = |(index, (value, &ty)): (usize, (&Val, &wasm::ValueType))| {
        value.to_bits(store, ty).with_context(|| format!("{what} {index}"))
    };
    values.iter().zip(types).enumerate().map(lower).collect()
}

macro_rules! from {
    ($($ty:ty: $value:ident => $result:expr;)*) => { $(
        impl From<$ty> for Val {
            fn from($value: $ty) -> Val {
                $result
            }
        }
    )* };
}

from! {
    i32: value => Val::I32(value);
    u32: value => Val::I32(value as i32);
    i64: value => Val::I64(value);
    u64: value => Val::I64(value as i64);
    f32: value => Val::F32(value.to_bits());
    f64: value => Val::F64(value.to_bits());
    V128: value => Val::V128(value);
    Func: value => Val::FuncRef(Some(value));
    Option<Func>: value => Val::FuncRef(value);
    Rooted<ExternRef>: value => Val::ExternRef(Some(value));
    Option<Rooted<ExternRef>>: value => Val::ExternRef(value);
    Rooted<AnyRef>: value => Val::AnyRef(Some(value));
    Option<Rooted<AnyRef>>: value => Val::AnyRef(value);
    Rooted<crate::StructRef>: value => Val::AnyRef(Some(value.to_anyref()));
    Rooted<crate::ArrayRef>: value => Val::AnyRef(Some(value.to_anyref()));
    Rooted<crate::EqRef>: value => Val::AnyRef(Some(value.to_anyref()));
    Rooted<ExnRef>: value => Val::ExnRef(Some(value));
    Option<Rooted<ExnRef>>: value => Val::ExnRef(value);
    Ref: value => match value {
        Ref::Func(value) => Val::FuncRef(value),
        Ref::Extern(value) => Val::ExternRef(value),
        Ref::Any(value) => Val::AnyRef(value),
        Ref::Exn(value) => Val::ExnRef(value),
    };
}

impl I31 {
    /// As a value, rooted in the current scope of the store.
    pub fn to_val(self, store: impl crate::AsContextMut) -> Val {
        Val::AnyRef(Some(AnyRef::from_i31(store, self)))
    }
}
