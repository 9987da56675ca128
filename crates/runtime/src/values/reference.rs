//! [`Ref`]: a reference of any type.

use anyhow::{Result, bail};
use legato_compiler::module as wasm;
use legato_heap::Reference;

use crate::store::StoreOpaque;
use crate::{AnyRef, AsContext, ExnRef, ExternRef, Func, HeapType, RefType, Rooted};

/// A reference of any type, or the null of its hierarchy.
///
/// ```
/// use legato::{Engine, ExternRef, HeapType, Ref, RefType, Store, Table, TableType};
///
/// let mut store = Store::new(&Engine::default(), ());
/// let table = Table::new(&mut store, TableType::new(RefType::EXTERNREF, 2, None), Ref::null(&HeapType::Extern))?;
/// let value = ExternRef::new(&mut store, 42_u64)?;
/// table.set(&mut store, 1, Ref::Extern(Some(value)))?;
/// let Some(Ref::Extern(Some(found))) = table.get(&mut store, 1) else { unreachable!() };
/// assert_eq!(found.data(&store)?.and_then(|data| data.downcast_ref::<u64>()), Some(&42));
/// assert!(table.get(&mut store, 0).is_some_and(|first| first.is_null()));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Ref {
    /// A function.
    Func(Option<Func>),
    /// A host value or externalised one.
    Extern(Option<Rooted<ExternRef>>),
    /// An internal value.
    Any(Option<Rooted<AnyRef>>),
    /// An exception.
    Exn(Option<Rooted<ExnRef>>),
}

impl Ref {
    /// The null of this heap type's hierarchy.
    pub fn null(ty: &HeapType) -> Ref {
        crate::Val::null_ref(ty).ref_().expect("null is a reference")
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Ref::Func(None) | Ref::Extern(None) | Ref::Any(None) | Ref::Exn(None))
    }

    /// The function, if it is one.
    pub fn as_func(&self) -> Option<&Func> {
        match self {
            Ref::Func(Some(func)) => Some(func),
            _ => None,
        }
    }

    /// The host value, if it is one.
    pub fn as_extern(&self) -> Option<&Rooted<ExternRef>> {
        match self {
            Ref::Extern(Some(value)) => Some(value),
            _ => None,
        }
    }

    /// The internal value, if it is one.
    pub fn as_any(&self) -> Option<&Rooted<AnyRef>> {
        match self {
            Ref::Any(Some(value)) => Some(value),
            _ => None,
        }
    }

    /// The function; `None` for the null of functions.
    ///
    /// # Panics
    /// If it is a reference of another kind.
    pub fn unwrap_func(&self) -> Option<&Func> {
        match self {
            Ref::Func(func) => func.as_ref(),
            _ => panic!("a function was expected, not {self:?}"),
        }
    }

    /// The host value; `None` for the null of host values.
    ///
    /// # Panics
    /// If it is a reference of another kind.
    pub fn unwrap_extern(&self) -> Option<&Rooted<ExternRef>> {
        match self {
            Ref::Extern(value) => value.as_ref(),
            _ => panic!("a host value was expected, not {self:?}"),
        }
    }

    /// The internal value; `None` for the null of internal values.
    ///
    /// # Panics
    /// If it is a reference of another kind.
    pub fn unwrap_any(&self) -> Option<&Rooted<AnyRef>> {
        match self {
            Ref::Any(value) => value.as_ref(),
            _ => panic!("an internal value was expected, not {self:?}"),
        }
    }

    /// The exception; `None` for the null of exceptions.
    ///
    /// # Panics
    /// If it is a reference of another kind.
    pub fn unwrap_exn(&self) -> Option<&Rooted<ExnRef>> {
        match self {
            Ref::Exn(value) => value.as_ref(),
            _ => panic!("an exception was expected, not {self:?}"),
        }
    }

    /// The reference's own type.
    ///
    /// # Errors
    /// If it belongs to another store, or its scope has ended.
    pub fn ty(&self, store: impl AsContext) -> Result<RefType> {
        self.type_in(&store.as_context().0.opaque)
    }

    pub(crate) fn type_in(&self, store: &StoreOpaque) -> Result<RefType> {
        Ok(match self {
            Ref::Func(None) => RefType::new(true, HeapType::NoFunc),
            Ref::Func(Some(func)) => RefType::new(false, HeapType::ConcreteFunc(func.type_in(store))),
            Ref::Extern(None) => RefType::new(true, HeapType::NoExtern),
            Ref::Extern(Some(_)) => RefType::new(false, HeapType::Extern),
            Ref::Any(None) => RefType::new(true, HeapType::None),
            Ref::Any(Some(value)) => RefType::new(false, value.type_in(store)?),
            Ref::Exn(None) => RefType::new(true, HeapType::NoExn),
            Ref::Exn(Some(_)) => RefType::new(false, HeapType::Exn),
        })
    }

    /// Whether the reference belongs to a type.
    ///
    /// # Errors
    /// As for [`ty`](Self::ty); and if the type belongs to another engine than the store's.
    pub fn matches_ty(&self, store: impl AsContext, ty: &RefType) -> Result<bool> {
        let store = store.as_context();
        ty.heap_type().check_engine(store.engine())?;
        Ok(self.bits_of_type(&store.0.opaque, ty.to_engine())?.is_some())
    }

    /// The bits of a reference that belongs to `ty` (engine space); `None` where it does not.
    pub(crate) fn bits_of_type(&self, store: &StoreOpaque, ty: wasm::RefType) -> Result<Option<u32>> {
        let (hierarchy, bits) = match self {
            Ref::Func(func) => (Hierarchy::Func, func.map_or(Ok(0), |func| func.offset(store))?),
            Ref::Extern(value) => (Hierarchy::Extern, value.map_or(Ok(0), |value| value.bits(store))?),
            Ref::Any(value) => (Hierarchy::Any, value.map_or(Ok(0), |value| value.bits(store))?),
            Ref::Exn(value) => (Hierarchy::Exn, value.map_or(Ok(0), |value| value.bits(store))?),
        };
        let matches = hierarchy == Hierarchy::of(store, ty.heap) && store.reference_matches(bits, ty);
        Ok(matches.then_some(bits))
    }

    /// As [`bits_of_type`](Self::bits_of_type), with an error that names both types, of `what`.
    pub(crate) fn to_bits(self, store: &StoreOpaque, ty: wasm::RefType, what: &str) -> Result<u32> {
        match self.bits_of_type(store, ty)? {
            Some(bits) => Ok(bits),
            None => {
                let expected = RefType::from_engine(&store.engine, ty);
                bail!("type mismatch: {what} is {expected}, not {}", self.type_in(store)?)
            }
        }
    }

    /// The reference of type `ty` (engine space) with these bits, rooted in the current scope.
    pub(crate) fn from_bits(store: &mut StoreOpaque, reference: Reference, ty: wasm::RefType) -> Ref {
        let null = reference.is_null();
        match Hierarchy::of(store, ty.heap) {
            Hierarchy::Func => Ref::Func((!null).then(|| Func::from_offset(store, reference.0))),
            Hierarchy::Extern => Ref::Extern((!null).then(|| Rooted::new(store, reference))),
            Hierarchy::Any => Ref::Any((!null).then(|| Rooted::new(store, reference))),
            Hierarchy::Exn => Ref::Exn((!null).then(|| Rooted::new(store, reference))),
        }
    }
}

/// The four separate hierarchies of reference types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hierarchy {
    Func,
    Extern,
    Any,
    Exn,
}

impl Hierarchy {
    fn of(store: &StoreOpaque, heap: wasm::HeapType) -> Hierarchy {
        use wasm::HeapType::*;
        match heap {
            Extern | NoExtern => Hierarchy::Extern,
            Exn | NoExn => Hierarchy::Exn,
            _ if store.engine.types().is_function(heap) => Hierarchy::Func,
            _ => Hierarchy::Any,
        }
    }
}

impl From<Func> for Ref {
    fn from(func: Func) -> Ref {
        Ref::Func(Some(func))
    }
}

impl From<Option<Func>> for Ref {
    fn from(func: Option<Func>) -> Ref {
        Ref::Func(func)
    }
}

impl From<Rooted<ExternRef>> for Ref {
    fn from(value: Rooted<ExternRef>) -> Ref {
        Ref::Extern(Some(value))
    }
}

impl From<Rooted<AnyRef>> for Ref {
    fn from(value: Rooted<AnyRef>) -> Ref {
        Ref::Any(Some(value))
    }
}

impl From<Rooted<ExnRef>> for Ref {
    fn from(value: Rooted<ExnRef>) -> Ref {
        Ref::Exn(Some(value))
    }
}

impl From<Option<Rooted<ExternRef>>> for Ref {
    fn from(value: Option<Rooted<ExternRef>>) -> Ref {
        Ref::Extern(value)
    }
}

impl From<Option<Rooted<AnyRef>>> for Ref {
    fn from(value: Option<Rooted<AnyRef>>) -> Ref {
        Ref::Any(value)
    }
}

impl From<Option<Rooted<ExnRef>>> for Ref {
    fn from(value: Option<Rooted<ExnRef>>) -> Ref {
        Ref::Exn(value)
    }
}
