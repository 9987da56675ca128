//! Objects of the heap, as host code holds them.

mod anyref;
mod arrayref;
mod exnref;
mod externref;
pub(crate) mod fields;
mod i31;
mod rooted;
mod structref;
mod view;
mod weak;

pub use anyref::{AnyRef, EqRef};
pub use arrayref::{ArrayRef, ArrayRefPre};
pub use exnref::ExnRef;
pub use externref::ExternRef;
pub use i31::I31;
pub use rooted::{GcRef, OwnedRooted, RootScope, Rooted};
pub use structref::{StructRef, StructRefPre};
pub use view::{ArrayView, ViewElement};
pub use weak::{FinalizationQueue, WeakRooted};
