//! Internal values of any type.

use anyhow::{Context, Result};
use legato_heap::{Reference, TypeTable};

use crate::gc::rooted::Sealed;
use crate::store::StoreOpaque;
use crate::{
    ArrayRef, ArrayType, AsContext, AsContextMut, ExternRef, GcRef, HeapType, I31, Rooted, StructRef, StructType,
};

/// The type of references to internal values (`anyref`): structs, arrays, 31-bit integers, and internalised host
/// values.
///
/// ```
/// use legato::{AnyRef, Engine, I31, Store};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let small = AnyRef::from_i31(&mut store, I31::wrapping_i32(-5));
/// assert_eq!(small.as_i31(&store)?.map(|value| value.get_i32()), Some(-5));
/// assert!(small.as_struct(&store)?.is_none());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub enum AnyRef {}

/// The type of references that can be compared by identity (`eqref`): structs, arrays, 31-bit integers.
///
/// ```
/// use legato::{Engine, ExternRef, AnyRef, I31, Rooted, Store};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let five = AnyRef::from_i31(&mut store, I31::wrapping_u32(5));
/// let six = AnyRef::from_i31(&mut store, I31::wrapping_u32(6));
/// let [Some(five), Some(six)] = [five.as_eqref(&store)?, six.as_eqref(&store)?] else { unreachable!() };
/// assert!(!Rooted::ref_eq(&store, &five, &six)?);
/// // A value of the host has no identity in the program.
/// let host = ExternRef::new(&mut store, "a value")?;
/// assert!(AnyRef::convert_extern(&store, host)?.as_eqref(&store)?.is_none());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub enum EqRef {}

impl Sealed for AnyRef {}
impl GcRef for AnyRef {}
impl Sealed for EqRef {}
impl GcRef for EqRef {}

impl AnyRef {
    /// A 31-bit integer.
    pub fn from_i31(mut store: impl AsContextMut, value: I31) -> Rooted<AnyRef> {
        let store = store.as_context_mut();
        Rooted::new(&mut store.0.opaque, Reference::from_i31(value.get_i32()))
    }

    /// An external value as an internal one (`any.convert_extern`).
    ///
    /// # Errors
    /// If the scope of the value has ended, or the store is another.
    pub fn convert_extern(store: impl AsContext, value: Rooted<ExternRef>) -> Result<Rooted<AnyRef>> {
        // Both have the same bits: only the static type differs.
        value.reference(&store.as_context().0.opaque)?;
        Ok(value.retype())
    }
}

/// What an internal reference refers to.
enum Kind {
    I31(I31),
    Struct(StructType),
    Array(ArrayType),
    Host,
}

fn kind_of<T>(store: &StoreOpaque, value: Rooted<T>) -> Result<Kind> {
    let reference = value.reference(store)?;
    if let Some(value) = reference.i31() {
        return Ok(Kind::I31(I31::wrapping_i32(value)));
    }
    let ty = store.heap.type_of(reference);
    if ty == TypeTable::EXTERNAL {
        return Ok(Kind::Host);
    }
    let entry = store.engine.types().find(ty).context("an internal value has a type of the engine")?;
    Ok(match entry.element() {
        Some(_) => Kind::Array(ArrayType::from_entry(&store.engine, entry)),
        None => Kind::Struct(StructType::from_entry(&store.engine, entry)),
    })
}

macro_rules! inspection {
    ($name:ident) => {
        impl Rooted<$name> {
            /// The value's own type.
            ///
            /// # Errors
            /// If the scope of the reference has ended, or the store is another. So for all methods.
            pub fn ty(&self, store: impl AsContext) -> Result<HeapType> {
                self.type_in(&store.as_context().0.opaque)
            }

            pub(crate) fn type_in(&self, store: &StoreOpaque) -> Result<HeapType> {
                Ok(match kind_of(store, *self)? {
                    Kind::I31(_) => HeapType::I31,
                    Kind::Struct(ty) => HeapType::ConcreteStruct(ty),
                    Kind::Array(ty) => HeapType::ConcreteArray(ty),
                    Kind::Host => HeapType::Any,
                })
            }

            /// Whether the value belongs to `ty`.
            pub fn matches_ty(&self, store: impl AsContext, ty: &HeapType) -> Result<bool> {
                Ok(self.ty(store)?.matches(ty))
            }

            /// Whether it is a 31-bit integer.
            pub fn is_i31(&self, store: impl AsContext) -> Result<bool> {
                Ok(self.as_i31(store)?.is_some())
            }

            /// The 31-bit integer, if it is one.
            pub fn as_i31(&self, store: impl AsContext) -> Result<Option<I31>> {
                Ok(match kind_of(&store.as_context().0.opaque, *self)? {
                    Kind::I31(value) => Some(value),
                    _ => None,
                })
            }

            /// The 31-bit integer.
            ///
            /// # Panics
            /// If it is none.
            pub fn unwrap_i31(&self, store: impl AsContext) -> Result<I31> {
                Ok(self.as_i31(store)?.expect("a 31-bit integer"))
            }

            /// Whether it is a struct.
            pub fn is_struct(&self, store: impl AsContext) -> Result<bool> {
                Ok(self.as_struct(store)?.is_some())
            }

            /// The struct, if it is one.
            pub fn as_struct(&self, store: impl AsContext) -> Result<Option<Rooted<StructRef>>> {
                let kind = kind_of(&store.as_context().0.opaque, *self)?;
                Ok(matches!(kind, Kind::Struct(_)).then(|| self.retype()))
            }

            /// The struct.
            ///
            /// # Panics
            /// If it is none.
            pub fn unwrap_struct(&self, store: impl AsContext) -> Result<Rooted<StructRef>> {
                Ok(self.as_struct(store)?.expect("a struct"))
            }

            /// Whether it is an array.
            pub fn is_array(&self, store: impl AsContext) -> Result<bool> {
                Ok(self.as_array(store)?.is_some())
            }

            /// The array, if it is one.
            pub fn as_array(&self, store: impl AsContext) -> Result<Option<Rooted<ArrayRef>>> {
                let kind = kind_of(&store.as_context().0.opaque, *self)?;
                Ok(matches!(kind, Kind::Array(_)).then(|| self.retype()))
            }

            /// The array.
            ///
            /// # Panics
            /// If it is none.
            pub fn unwrap_array(&self, store: impl AsContext) -> Result<Rooted<ArrayRef>> {
                Ok(self.as_array(store)?.expect("an array"))
            }
        }
    };
}

inspection!(AnyRef);
inspection!(EqRef);

impl Rooted<AnyRef> {
    /// Whether it can be compared by identity.
    ///
    /// # Errors
    /// If the scope of the reference has ended, or the store is another.
    pub fn is_eqref(&self, store: impl AsContext) -> Result<bool> {
        Ok(self.as_eqref(store)?.is_some())
    }

    /// As a reference that can be compared by identity, if it is one.
    ///
    /// # Errors
    /// If the scope of the reference has ended, or the store is another.
    pub fn as_eqref(&self, store: impl AsContext) -> Result<Option<Rooted<EqRef>>> {
        let kind = kind_of(&store.as_context().0.opaque, *self)?;
        Ok((!matches!(kind, Kind::Host)).then(|| self.retype()))
    }
}

macro_rules! upcasts {
    ($($from:ident => $method:ident $to:ident;)*) => { $(
        impl Rooted<$from> {
            /// The same reference as one of a wider type.
            pub fn $method(self) -> Rooted<$to> {
                self.retype()
            }
        }

        impl From<Rooted<$from>> for Rooted<$to> {
            fn from(value: Rooted<$from>) -> Rooted<$to> {
                value.retype()
            }
        }
    )* };
}

upcasts! {
    EqRef => to_anyref AnyRef;
    StructRef => to_anyref AnyRef;
    StructRef => to_eqref EqRef;
    ArrayRef => to_anyref AnyRef;
    ArrayRef => to_eqref EqRef;
}
