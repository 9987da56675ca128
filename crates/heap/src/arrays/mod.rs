//! Axis `arrays`: where the elements of an array lie.
//!
//! | value | what it is | source |
//! |---|---|---|
//! | `contiguous` | one piece | - |
//! | `arraylets` | a spine of pointers, leaves of a fixed size, the remainder in the spine | Z-Rays, section 4.1: Naive; with `lazy` Naive A, with larger leaves Naive B |
//! | `zrays` | the same behind the first N bytes, with lazy leaves, zero compression, fast copy and copy-on-write; N may grow | Z-Rays, sections 4.3 to 4.7 |
//! | `mapped` | large arrays own address space of their own, whose pages come and go | - |
//!
//! `arraylets` is the layout of `zrays` with N = 0 and without its optimisations: both are a [`SpineLayout`].

pub(crate) mod bulk;
pub(crate) mod copy;
mod growth;
pub(crate) mod leaves;
mod operations;
pub(crate) mod parts;

use crate::config::size_text;
use crate::error::HeapError;
use crate::layout::SpineLayout;
use crate::references::References;
use crate::views::{NativeViews, ViewCreation};

/// The values of the axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arrays {
    /// Header, length, elements.
    Contiguous,
    /// A spine and leaves.
    Arraylets,
    /// A spine with the first elements, and leaves.
    ZRays,
    /// Contiguous; large arrays by pages.
    Mapped,
}

impl Arrays {
    /// Every value.
    pub const ALL: &[Arrays] = &[Arrays::Contiguous, Arrays::Arraylets, Arrays::ZRays, Arrays::Mapped];

    /// The value's name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Arrays::Contiguous => "contiguous",
            Arrays::Arraylets => "arraylets",
            Arrays::ZRays => "zrays",
            Arrays::Mapped => "mapped",
        }
    }
}

/// Parameters of the axes `arrays` and `native-views`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayParams {
    /// Bytes of a leaf: a power of two from 256 to 1 MiB.
    pub leaf_bytes: u32,
    /// `zrays`: bytes of elements that lie in the spine: 0, or a power of two from 64 to 256 KiB (section 4.3).
    pub first_n: u32,
    /// `zrays`: the first N bytes grow over leaves in use, so that dense arrays lie in one piece. By default on where
    /// references lead to the object itself and views are copies.
    pub first_n_grows: Option<bool>,
    /// Leaves are allocated when something other than zero is first stored to them (section 4.4). By default on for
    /// `zrays`, off for `arraylets` and where views are made at allocation, which need all leaves.
    pub lazy: Option<bool>,
    /// `zrays`: the collector replaces leaves of zeros by the zero leaf (section 4.5).
    pub zero_compression: bool,
    /// `zrays`: `array.copy` moves strips, not elements (section 4.6).
    pub fast_copy: bool,
    /// `zrays`: `array.copy` shares whole leaves (section 4.7).
    pub copy_on_write: bool,
    /// `mapped`: bytes from which on an array owns its address space.
    pub mapped_from: u32,
    /// `mapped`: `array.copy` shares whole pages.
    pub mapped_sharing: bool,
    /// `double-map`: when views are made.
    pub view_creation: ViewCreation,
}

impl Default for ArrayParams {
    fn default() -> ArrayParams {
        ArrayParams {
            leaf_bytes: 1 << 10,
            first_n: 4 << 10,
            first_n_grows: None,
            lazy: None,
            zero_compression: true,
            fast_copy: true,
            copy_on_write: false,
            mapped_from: 64 << 10,
            mapped_sharing: true,
            view_creation: ViewCreation::Request,
        }
    }
}

/// The smallest and the largest leaf, in bytes.
const LEAF_BYTES: std::ops::RangeInclusive<u32> = 256..=1 << 20;
/// The least and the most first bytes in a spine, if any.
const FIRST_N: std::ops::RangeInclusive<u32> = 64..=256 << 10;
/// The least `mapped_from`, in bytes: smaller arrays share their pages with other objects.
const LEAST_MAPPED: u32 = 32 << 10;

impl ArrayParams {
    /// Whether leaves are mapped a second time when their array is allocated.
    pub(crate) fn views_at_allocation(&self, views: NativeViews) -> bool {
        views == NativeViews::DoubleMap && self.view_creation == ViewCreation::Allocation
    }

    /// The parameters that have a say under these values, by name.
    pub(crate) fn settings(
        &self,
        arrays: Arrays,
        views: NativeViews,
        references: References,
    ) -> Vec<(&'static str, String)> {
        let on_off = |on: bool| if on { "on" } else { "off" }.to_string();
        let mut settings = Vec::new();
        let spines = arrays.spines(self, views, references);
        if let Some(spines) = spines {
            settings.push(("leaf", size_text(self.leaf_bytes.into())));
            settings.push(("lazy", on_off(spines.lazy)));
        }
        match arrays {
            Arrays::Contiguous | Arrays::Arraylets => {}
            Arrays::ZRays => settings.extend([
                ("first-n", size_text(self.first_n.into())),
                ("first-n-grows", on_off(spines.is_some_and(|spines| spines.layout.grows))),
                ("zero-compression", on_off(self.zero_compression)),
                ("fast-copy", on_off(self.fast_copy)),
                ("copy-on-write", on_off(self.copy_on_write)),
            ]),
            Arrays::Mapped => settings.extend([
                ("mapped-from", size_text(self.mapped_from.into())),
                ("mapped-sharing", on_off(self.mapped_sharing)),
            ]),
        }
        if views == NativeViews::DoubleMap {
            settings.push(("view-creation", self.view_creation.name().to_string()));
        }
        settings
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] with one sentence.
    pub(crate) fn validate(&self) -> Result<(), HeapError> {
        let invalid = |sentence: String| Err(HeapError::InvalidConfig(sentence));
        if !LEAF_BYTES.contains(&self.leaf_bytes) || !self.leaf_bytes.is_power_of_two() {
            return invalid(format!(
                "leaf is {} bytes, but must be a power of two from {} to {}",
                self.leaf_bytes,
                LEAF_BYTES.start(),
                LEAF_BYTES.end()
            ));
        }
        let divides = FIRST_N.contains(&self.first_n) && self.first_n.is_power_of_two();
        if self.first_n != 0 && !divides {
            return invalid(format!(
                "first-n is {} bytes, but must be 0 or a power of two from {} to {}",
                self.first_n,
                FIRST_N.start(),
                FIRST_N.end()
            ));
        }
        if self.mapped_from < LEAST_MAPPED {
            return invalid(format!("mapped-from is {} bytes, but must be at least {LEAST_MAPPED}", self.mapped_from));
        }
        Ok(())
    }
}

/// What the heap does with spines and leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpineMode {
    pub(crate) layout: SpineLayout,
    pub(crate) lazy: bool,
    pub(crate) zero_compression: bool,
    pub(crate) fast_copy: bool,
    pub(crate) copy_on_write: bool,
}

impl Arrays {
    /// What these values mean for spines; `None` where arrays lie in one piece.
    pub(crate) fn spines(self, params: &ArrayParams, views: NativeViews, references: References) -> Option<SpineMode> {
        let is_zray = self == Arrays::ZRays;
        if !is_zray && self != Arrays::Arraylets {
            return None;
        }
        let may_grow = references.leaves_collector_word_free() && views == NativeViews::Copy;
        Some(SpineMode {
            layout: SpineLayout {
                first_n: if is_zray { params.first_n } else { 0 },
                leaf_log2: params.leaf_bytes.trailing_zeros() as u8,
                remainder_in_leaf: views == NativeViews::DoubleMap,
                grows: is_zray && params.first_n_grows.unwrap_or(may_grow),
            },
            lazy: params.lazy.unwrap_or(is_zray && !params.views_at_allocation(views)),
            zero_compression: is_zray && params.zero_compression,
            fast_copy: !is_zray || params.fast_copy,
            copy_on_write: is_zray && params.copy_on_write,
        })
    }
}

impl SpineMode {
    /// Whether a pointer may lead to the zero leaf.
    pub(crate) fn has_zero_leaf(&self) -> bool {
        self.lazy || self.zero_compression
    }
}

/// What has become of leaves, in leaves, since the heap was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TakenLeaves {
    /// Left out when an array was allocated.
    pub(crate) lazy: u64,
    /// Allocated with their array.
    pub(crate) eager: u64,
    /// Made at home, as the first N bytes have grown over them.
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
