//! Weak references, which are strong for want of weak roots: see the crate's documentation.
//!
//! The host value that stands for a weak reference is the target itself, seen as an `externref`. So the collector
//! traces through it, and a cycle through a weak reference dies like any other.

use anyhow::{Result, bail};
use legato::{AnyRef, AsContext, ExternRef, HeapType, Val, ValType};

/// `value` as a value of `ty`, which may lie on the other side of the border between internal and external references.
pub(crate) fn across(store: impl AsContext, value: &Val, ty: &ValType) -> Result<Val> {
    let ValType::Ref(ty) = ty else { bail!("a weak reference of TeaVM has the type {ty}, but should be a reference") };
    let external = matches!(ty.heap_type(), HeapType::Extern | HeapType::NoExtern);
    Ok(match *value {
        Val::AnyRef(Some(target)) if external => Val::ExternRef(Some(ExternRef::convert_any(&store, target)?)),
        Val::AnyRef(None) if external => Val::ExternRef(None),
        Val::ExternRef(Some(target)) if !external => Val::AnyRef(Some(AnyRef::convert_extern(&store, target)?)),
        Val::ExternRef(None) if !external => Val::AnyRef(None),
        same => same,
    })
}
