//! Axis `native-views`: how native code sees all elements of an array as one slice.
//!
//! | value | what it is | source |
//! |---|---|---|
//! | `copy` | the elements are copied out, and back if they were written | A Guide to Double Map Arraylets, "JNI Critical" |
//! | `double-map` | the leaves are mapped a second time, one behind the other | the same, "Double Mapping", approach 1 |
//!
//! An array that lies in one piece needs neither: native code reaches the elements where they are, until the next
//! safepoint. Nor does one that takes a single leaf, or fills none: it is the remainder alone.

mod copy;
mod double_map;
mod operations;

pub(crate) use double_map::DoubleMaps;

crate::values::values! {
    /// The values of the axis.
    #[derive(Eq, Hash)]
    pub enum NativeViews {
        /// A copy, which is written back.
        Copy = "copy",
        /// The leaves, mapped a second time one behind the other (A Guide to Double Map Arraylets, approach 1).
        DoubleMap(DoubleMapParams) = "double-map",
    }
}

crate::values::params! {
    /// Parameters of `double-map`.
    #[derive(Eq, Hash)]
    pub struct DoubleMapParams {
        /// When views are made.
        pub creation: ViewCreation = ViewCreation::Request,
    }
}

crate::values::values! {
    /// When the second mapping of an array is made.
    #[derive(Eq, Hash)]
    pub enum ViewCreation {
        /// When native code asks for the array for the first time.
        Request = "request",
        /// When the array is allocated, as in the source.
        Allocation = "allocation",
    }
}

impl NativeViews {
    /// The parameters of `double-map`, where that is the value.
    pub(crate) fn double_map(self) -> Option<DoubleMapParams> {
        if let NativeViews::DoubleMap(params) = self { Some(params) } else { None }
    }

    /// Whether leaves are mapped a second time when their array is allocated.
    pub(crate) fn at_allocation(self) -> bool {
        self.double_map().is_some_and(|params| params.creation == ViewCreation::Allocation)
    }
}
