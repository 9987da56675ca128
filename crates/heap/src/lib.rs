//! The memory manager of Legato. It knows nothing of WebAssembly.
//!
//! A [`Heap`] owns a reserved 4 GiB cage of address space and the objects in it, which are named by 32-bit
//! [`Reference`]s. How it works is chosen along axes when it is made ([`HeapConfig`]): the collector, the reference
//! model, the layout of arrays. A code generator learns what to emit from the [`AccessPlan`], plain data that depends
//! on the configuration alone; the embedder describes its types in a [`TypeTable`] and enumerates its roots through
//! [`Roots`]. An interpreter in safe Rust uses [`embed`]. What a code generator does is told, with an interpreter to
//! begin with, in [docs/code-generator.md](https://github.com/legato-runtime/legato/blob/main/docs/code-generator.md).
//!
//! ```
//! use legato_heap::layout::StorageKind;
//! use legato_heap::{Heap, HeapConfig, RootStack, TypeInfo, TypeShape, TypeTable};
//!
//! let types = TypeTable::new()?;
//! let pair = types.register(TypeInfo {
//!     shape: TypeShape::Struct(vec![StorageKind::Ref, StorageKind::I32]),
//!     supertype: None,
//! })?;
//! let mut heap = Heap::new(&HeapConfig::default(), types)?;
//! let mut roots = RootStack::new();
//! let first = heap.allocate_struct(pair, &mut roots)?;
//! // SAFETY: the object has just been allocated.
//! unsafe { heap.store(first, 12, StorageKind::I32, 42) };
//! // SAFETY: the object has just been allocated, and `heap` gets these roots in every call.
//! unsafe { roots.push(first) };
//! let second = heap.allocate_struct(pair, &mut roots)?;
//! // SAFETY: the first is a root, and the second has just been allocated.
//! unsafe { heap.store_reference(second, 8, roots.get(0)) };
//! assert_eq!(heap.load(roots.get(0), 12, StorageKind::I32), 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

mod access;
mod ages;
mod arch;
pub mod arrays;
mod barrier;
mod blocks;
mod budget;
mod cage;
mod cards;
mod closed;
pub mod collector;
mod config;
mod context;
mod core;
pub mod embed;
mod error;
mod external;
mod geometry;
mod heap;
pub mod layout;
mod machine;
mod marks;
mod observer;
mod os;
mod pacing;
mod phases;
pub mod plan;
mod pressure;
pub mod reference;
pub mod references;
mod reporting;
mod roots;
pub mod size_classes;
pub mod sizing;
mod spaces;
mod threads;
mod type_table;
pub mod types;
mod values;
mod verify;
pub mod views;
mod weak;
pub mod zeroing;

pub use arrays::Arrays;
pub use budget::{Budget, Done};
pub use collector::Collector;
pub use config::{Given, HeapConfig};
pub use error::{AllocationError, HeapError};
pub use heap::Heap;
pub use machine::{MachineNotes, PressureReading};
pub use observer::{
    ArrayStats, Cause, CollectionKind, CountedArrays, CycleTotals, GcEvent, GcObserver, GcSlice, GcStop, HeapStats,
    Phase, PhaseTimes, StopKind,
};
pub use os::limits::{AddressSpace, MachineLimit};
pub use plan::{AccessPlan, MutatorContext};
pub use pressure::{MissingSource, Moment, Pressure, PressureSource, Signal};
pub use reference::Reference;
pub use references::References;
pub use roots::{NoRoots, RootCursor, RootStack, RootVisitor, Roots};
pub use sizing::Sizing;
pub use type_table::TypeTable;
pub use types::{TypeId, TypeInfo, TypeKind, TypeShape};
pub use verify::VerifyError;
pub use views::{NativeViews, ViewCreation};
pub use weak::WeakId;
pub use zeroing::Zeroing;
