//! Axis `arrays`: where the elements of an array lie.
//!
//! | value | what it is | source |
//! |---|---|---|
//! | `contiguous` | one piece | - |
//! | `arraylets` | a spine of pointers, leaves of a fixed size, the remainder in the spine | Z-Rays, section 4.1: Naive; with `lazy` Naive A, with larger leaves Naive B |
//! | `zrays` | the same behind the first N bytes, with lazy leaves, zero compression, fast copy and copy-on-write; N may grow | Z-Rays, sections 4.3 to 4.7 |
//! | `mapped` | large arrays own address space of their own, whose pages come and go | - |
//!
//! `arraylets` is the layout of `zrays` with N = 0 and without its optimisations: both are a
//! [`SpineLayout`](crate::layout::SpineLayout).

pub(crate) mod bulk;
pub(crate) mod copy;
pub(crate) mod elements;
mod growth;
mod leaves;
mod operations;
mod params;
pub(crate) mod parts;
pub(crate) mod pointers;

pub use params::{ArrayletParams, MappedParams, ZRayParams};
pub(crate) use params::{FIRST_N, LEAF_BYTES, LEAST_MAPPED, SpineMode};

crate::values::values! {
    /// The values of the axis.
    #[derive(Eq)]
    pub enum Arrays {
        /// Header, length, elements.
        Contiguous = "contiguous",
        /// A spine and leaves.
        Arraylets(ArrayletParams) = "arraylets",
        /// A spine with the first elements, and leaves.
        ZRays(ZRayParams) = "zrays",
        /// Contiguous; large arrays by pages. What the program touches of these between two collections is not counted,
        /// so that the heap may exceed its maximum by as much until the next one.
        Mapped(MappedParams) = "mapped",
    }
}

/// What has become of leaves, in leaves, since the heap was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TakenLeaves {
    /// Left out when an array was allocated.
    pub(crate) lazy: u64,
    /// Allocated with their array.
    pub(crate) eager: u64,
    /// Made inline, as the first N bytes have grown over them.
    pub(crate) grown: u64,
    /// Allocated when something was stored.
    pub(crate) on_store: u64,
    /// Allocated because a shared leaf was to be written.
    pub(crate) unshared: u64,
    /// Shared instead of copied.
    pub(crate) shared: u64,
    /// Given up because they held zeros alone.
    pub(crate) compressed: u64,
}
