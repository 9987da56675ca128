//! The heap configurations that Legato is tested, fuzzed and measured under.
//!
//! [`AXES`] lists every axis of [`HeapConfig`](legato_heap::HeapConfig) with the values it takes in tests, and with
//! each value the parameters under which a test soon takes every path. Nothing else is written by hand: a [`Row`] is a
//! choice of at most one value of each axis, and rows are derived.
//!
//! * A combination counts if [`HeapConfig::validate`](legato_heap::HeapConfig::validate) accepts it and each of its
//!   settings has a say. Of an axis no value of which does (the leaves of contiguous arrays), a row has none.
//! * [`product`] gives every combination of some axes.
//! * [`pairs`] gives rows so that every two values of two axes that can stand in one row do, few in number and always
//!   the same ones. A parameter of a value is paired with collectors and other parameters alone.
//! * A [`Suite`] is all pairs of all axes and of its own *modes*: whether the heap is verified, and how often it
//!   collects. The [official suite](OFFICIAL), the [programs](PROGRAMS) and [fuzzing](FUZZ) are suites.
//! * [`deal`] gives each row a part of what a suite would run under it.
//!
//! A new value of an axis is one line in [`AXES`], a new axis one entry. The suites' rows, which take a second to
//! choose, are kept under `rows/`: `LEGATO_BLESS=1 cargo test -p legato-test-matrix` writes them anew.

mod axes;
mod cover;
mod deal;
mod row;
mod suites;

pub use axes::{AXES, Axis, Measured, Value, measured};
pub use cover::{pairs, product};
pub use deal::deal;
pub use row::Row;
pub use suites::{FUZZ, FUZZ_COLLECTIONS, OFFICIAL, PROGRAMS, Suite};

#[cfg(test)]
mod tests;
