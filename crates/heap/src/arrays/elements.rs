//! An array as operations on ranges see it.

use super::parts::Parts;
use crate::layout::elements_offset;
use crate::spaces::leaves::LeafKind;

/// Where an array lies, and what it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    pub(crate) object: u32,
    pub(crate) parts: Parts,
    /// Bytes of an element.
    pub(super) size: u32,
    pub(crate) length: u32,
    pub(crate) kind: LeafKind,
}

impl Elements {
    /// The byte positions of `length` elements from `start` on; `None` where the array has fewer.
    #[inline]
    pub(crate) fn positions(&self, start: u32, length: u32) -> Option<(u64, u64)> {
        let end = u64::from(start) + u64::from(length);
        (end <= u64::from(self.length)).then(|| (u64::from(start) * u64::from(self.size), end * u64::from(self.size)))
    }

    /// The cage offset of the first element, where it lies in the object.
    pub(super) fn elements(&self) -> u32 {
        self.object + elements_offset(self.size)
    }

    pub(super) fn checked(&self, start: u32, length: u32) -> (u64, u64) {
        self.positions(start, length).unwrap_or_else(|| {
            let end = u64::from(start) + u64::from(length);
            panic!("elements {start}..{end} of an array of {}", self.length)
        })
    }
}
