//! An array as operations on ranges see it.

use super::parts::Parts;
use crate::barrier::WriteBarrier;
use crate::layout::elements_offset;
use crate::spaces::leaves::LeafKind;
use std::ops::Deref;

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

    /// Panics unless elements can be copied between the arrays.
    pub(super) fn check_size_of(&self, source: &Elements) {
        assert!(self.size == source.size, "arrays of different element sizes");
    }

    pub(super) fn checked(&self, start: u32, length: u32) -> (u64, u64) {
        self.positions(start, length).unwrap_or_else(|| {
            let end = u64::from(start) + u64::from(length);
            panic!("elements {start}..{end} of an array of {}", self.length)
        })
    }
}

/// An array that is written to, with the barrier of stores into it. There is none without a decision about what comes
/// before: see its constructors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination<B> {
    elements: Elements,
    pub(super) barrier: B,
}

impl<B> Deref for Destination<B> {
    type Target = Elements;

    #[inline(always)]
    fn deref(&self) -> &Elements {
        &self.elements
    }
}

impl<B: WriteBarrier> Destination<B> {
    /// An array whose elements hold no references yet.
    #[inline(always)]
    pub(crate) fn initialised(elements: Elements, barrier: B) -> Destination<B> {
        Destination { elements, barrier }
    }

    /// An array of whose elements some are overwritten: `before` does what the barrier does before that.
    #[inline(always)]
    pub(super) fn overwritten(elements: Elements, barrier: B, before: impl FnOnce(&Elements, B)) -> Destination<B> {
        before(&elements, barrier);
        Destination { elements, barrier }
    }

    /// An array whose elements stay what they are: what changes is the leaves that they lie in.
    #[inline(always)]
    pub(crate) fn rearranged(elements: Elements, barrier: B) -> Destination<B> {
        Destination { elements, barrier }
    }

    /// The same, after parts have become others.
    #[inline(always)]
    pub(super) fn with_parts(&self, parts: Parts) -> Destination<B> {
        Destination { elements: Elements { parts, ..self.elements }, ..*self }
    }
}
