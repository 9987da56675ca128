//! Values at the boundary between host and compiled code.

mod cell;
mod reference;
pub(crate) mod val;

pub(crate) use cell::Cell;
pub use reference::Ref;
pub use val::{V128, Val};
