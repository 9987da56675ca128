//! Parameters of the layouts, and what they mean for spines.

use super::Arrays;
use crate::layout::SpineLayout;
use crate::os::page_bytes;
use crate::references::References;
use crate::views::NativeViews;
use std::ops::RangeInclusive;

crate::values::params! {
    /// Parameters of `arraylets`.
    #[derive(Eq)]
    pub struct ArrayletParams {
        /// Bytes of a leaf: a power of two from 256 to 1 MiB.
        pub leaf_bytes: u32 = 1 << 10,
        /// Leaves are allocated when something other than zero is first stored to them (section 4.4).
        pub lazy: bool = false,
    }
}

crate::values::params! {
    /// Parameters of `zrays`.
    #[derive(Eq)]
    pub struct ZRayParams {
        /// Bytes of a leaf: a power of two from 256 to 1 MiB.
        pub leaf_bytes: u32 = 1 << 10,
        /// Bytes of elements that lie in the spine: 0, or a power of two from 64 to 256 KiB (section 4.3).
        pub first_n: u32 = 4 << 10,
        /// The first N bytes grow over leaves in use, so that dense arrays lie in one piece. By default on where the
        /// header has room for their length and views are copies.
        pub first_n_grows: Option<bool> = None,
        /// Leaves are allocated when something other than zero is first stored to them (section 4.4). By default on,
        /// but where views are made at allocation, which need all leaves.
        pub lazy: Option<bool> = None,
        /// The collector replaces leaves of zeros by the zero leaf (section 4.5).
        pub zero_compression: bool = true,
        /// `array.copy` moves strips, not elements (section 4.6).
        pub fast_copy: bool = true,
        /// `array.copy` shares whole leaves (section 4.7).
        pub copy_on_write: bool = false,
    }
}

crate::values::params! {
    /// Parameters of `mapped`.
    #[derive(Eq)]
    pub struct MappedParams {
        /// Bytes from which on an array owns its address space.
        pub from: u32 = 64 << 10,
        /// `array.copy` shares whole pages.
        pub sharing: bool = true,
    }
}

/// The smallest and the largest leaf, in bytes.
pub(crate) const LEAF_BYTES: RangeInclusive<u64> = 256..=1 << 20;
/// The least and the most first bytes in a spine, if any.
pub(crate) const FIRST_N: RangeInclusive<u64> = 64..=256 << 10;
/// The least `mapped-from`, in bytes: smaller arrays share their pages with other objects.
pub(crate) const LEAST_MAPPED: u64 = 32 << 10;
/// The fewest leaves that a heap must have room for.
const LEAST_LEAVES: u64 = 4;

/// What the heap does with spines and leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpineMode {
    pub(crate) layout: SpineLayout,
    pub(crate) lazy: bool,
    pub(crate) zero_compression: bool,
    pub(crate) fast_copy: bool,
    pub(crate) copy_on_write: bool,
}

impl SpineMode {
    /// Whether a pointer may lead to the zero leaf.
    pub(crate) fn has_zero_leaf(&self) -> bool {
        self.lazy || self.zero_compression
    }
}

impl Arrays {
    /// What these values mean for spines; `None` where arrays lie in one piece.
    pub(crate) fn spines(self, views: NativeViews, references: References) -> Option<SpineMode> {
        let layout = |leaf_bytes: u32, first_n, grows| SpineLayout {
            first_n,
            leaf_log2: leaf_bytes.trailing_zeros() as u8,
            all_in_leaves: views.double_map().is_some(),
            grows,
        };
        match self {
            Arrays::Contiguous | Arrays::Mapped(_) => None,
            Arrays::Arraylets(params) => Some(SpineMode {
                layout: layout(params.leaf_bytes, 0, false),
                lazy: params.lazy,
                zero_compression: false,
                fast_copy: true,
                copy_on_write: false,
            }),
            Arrays::ZRays(params) => {
                let may_grow = references.leaves_collector_word_free() && views.double_map().is_none();
                let grows = params.first_n_grows.unwrap_or(may_grow);
                Some(SpineMode {
                    layout: layout(params.leaf_bytes, params.first_n, grows),
                    lazy: params.lazy.unwrap_or(!views.at_allocation()),
                    zero_compression: params.zero_compression,
                    fast_copy: params.fast_copy,
                    copy_on_write: params.copy_on_write,
                })
            }
        }
    }

    /// The parameters of `mapped`, where that is the layout.
    pub(crate) fn mapped(self) -> Option<MappedParams> {
        if let Arrays::Mapped(params) = self { Some(params) } else { None }
    }

    /// An access below this byte position counts as fast, in a counted build.
    pub(crate) fn counted_first_n(self) -> u32 {
        if let Arrays::ZRays(params) = self { params.first_n } else { ZRayParams::DEFAULT.first_n }
    }

    /// What is in the layout's way in a heap of at most so many bytes: no room for some leaves, first bytes that cannot
    /// grow, or leaves that cannot be mapped a second time, where that is asked for.
    pub(crate) fn obstacle(self, views: NativeViews, references: References, max_bytes: u64) -> Option<String> {
        let SpineMode { layout, lazy, .. } = self.spines(views, references)?;
        let (leaf, page) = (layout.leaf_bytes(), page_bytes());
        let least = LEAST_LEAVES * u64::from(leaf);
        let maps_twice = views.double_map().is_some();
        Some(if max_bytes < least {
            format!(
                "max is {max_bytes} bytes, but leaves of {leaf} bytes need at least {least}: set a smaller leaf or a \
                 larger max"
            )
        } else if layout.grows && !references.leaves_collector_word_free() {
            format!(
                "first-n-grows=on needs the header word that references={} takes: set references=direct, or \
                 first-n-grows=off",
                references.name()
            )
        } else if layout.grows && maps_twice {
            "first-n-grows=on needs a header word and leaves in one place: set native-views=copy, or first-n-grows=off"
                .into()
        } else if maps_twice && leaf < page {
            format!("native-views=double-map maps whole pages of {page} bytes: set leaf to at least that, not {leaf}")
        } else if maps_twice && layout.first_n > 0 {
            "native-views=double-map maps leaves, but the first bytes lie in the spine: set first-n=0".into()
        } else if lazy && views.at_allocation() {
            "view-creation=allocation maps the leaves of a new array: set lazy=off".into()
        } else {
            return None;
        })
    }
}
