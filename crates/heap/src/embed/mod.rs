//! A heap for an interpreter written in safe Rust: handles that end with their scope, fields by name, errors in
//! place of panics. For runtimes that generate code there is [`Heap`](crate::Heap) itself, on which all this is built.
//!
//! * An [`ObjectHeap`] has types ([`StructType`], [`ArrayType`]) and objects.
//! * Objects are reached in a [`Scope`]. What it gives out is a [`Local`]: it keeps an object alive until its scope
//!   ends, and follows the object when that moves. The compiler sees to it that none is used later.
//! * A [`Var`] is a local that can be changed, for loops: what it has held before can be collected.
//! * A [`Root`] keeps an object alive beyond scopes, a [`Weak`] leads to one without keeping it alive, and a
//!   *finaliser* ([`Scope::on_death`]) is called after its object has died.
//! * Whatever an embedder can be wrong about (a null, an object of another type or heap, an index) is an [`Error`].
//!
//! ```
//! use legato_heap::embed::{Any, ObjectHeap, StructType};
//!
//! let mut heap = ObjectHeap::new(&Default::default())?;
//! let pair = heap.define(StructType::new("pair").field::<Any>("rest").field::<i32>("value"))?;
//! let (rest, value) = (pair.field::<Any>("rest")?, pair.field::<i32>("value")?);
//!
//! let sum = heap.scope(|scope| {
//!     let list = scope.variable(scope.null())?;
//!     for number in 1..=100 {
//!         // What this scope has made ends with it, but for what `list` holds.
//!         scope.scope(|scope| {
//!             let (new, others) = (scope.new_struct(&pair)?, scope.read(list));
//!             scope.set(new, rest, others)?;
//!             scope.set(new, value, number)?;
//!             scope.assign(list, new)
//!         })?;
//!     }
//!     let mut sum = 0;
//!     while !scope.read(list).is_null() {
//!         sum += scope.scope(|scope| {
//!             let first = scope.read(list);
//!             let rest = scope.get(first, rest)?;
//!             scope.assign(list, rest)?;
//!             scope.get(first, value)
//!         })?;
//!     }
//!     Ok::<i32, legato_heap::embed::Error>(sum)
//! })?;
//! assert_eq!(sum, 5050);
//! # Ok::<(), legato_heap::embed::Error>(())
//! ```
//!
//! A local cannot leave its scope:
//!
//! ```compile_fail
//! # use legato_heap::embed::{ObjectHeap, StructType};
//! # let mut heap = ObjectHeap::new(&Default::default()).unwrap();
//! # let empty = heap.define(StructType::new("empty")).unwrap();
//! let kept = heap.scope(|scope| scope.new_struct(&empty).unwrap());
//! ```
//!
//! Limits: every access is checked, and every reference that is read takes a slot until its scope ends: code for whom
//! that is too slow uses [`Heap`](crate::Heap). A collector that works in slices visits roots in slices, but the slots
//! of scopes at once: many thousands of locals make its first slice longer.

mod error;
mod handles;
mod heap;
mod scope;
mod scope_heap;
mod stored;
#[cfg(test)]
mod tests;
mod types;

pub use error::Error;
pub use handles::{Local, Root, Var, Weak};
pub use heap::ObjectHeap;
pub use scope::Scope;
pub use stored::{Any, Stored};
pub use types::{ArrayType, Field, StructType, Type};
