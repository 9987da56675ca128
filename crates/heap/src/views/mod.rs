//! Axis `native-views`: how native code sees all elements of an array as one slice.
//!
//! | value | what it is | source |
//! |---|---|---|
//! | `copy` | the elements are copied out, and back if they were written | A Guide to Double Map Arraylets, "JNI Critical" |
//! | `double-map` | the leaves are mapped a second time, one behind the other | the same, "Double Mapping", approach 1 |
//!
//! An array that lies in one piece needs neither: native code reaches the elements where they are, until the next
//! safepoint. So does one that takes a single leaf.

mod copy;
mod double_map;
mod operations;

pub(crate) use double_map::DoubleMaps;

/// The values of the axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NativeViews {
    /// A copy, which is written back.
    Copy,
    /// The leaves, mapped a second time one behind the other (A Guide to Double Map Arraylets, approach 1).
    DoubleMap,
}

impl NativeViews {
    /// Every value.
    pub const ALL: &[NativeViews] = &[NativeViews::Copy, NativeViews::DoubleMap];

    /// The value's name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            NativeViews::Copy => "copy",
            NativeViews::DoubleMap => "double-map",
        }
    }
}

/// When the second mapping of an array is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ViewCreation {
    /// When native code asks for the array for the first time.
    Request,
    /// When the array is allocated, as in the source.
    Allocation,
}

impl ViewCreation {
    /// Every value.
    pub const ALL: &[ViewCreation] = &[ViewCreation::Request, ViewCreation::Allocation];

    /// The value's name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            ViewCreation::Request => "request",
            ViewCreation::Allocation => "allocation",
        }
    }
}
