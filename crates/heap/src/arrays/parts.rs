//! The contiguous parts of an array: all of it, or the first N bytes, leaves and remainder of a spine.

use crate::cage::Memory;
use crate::layout::{INLINE_LENGTH_OFFSET, POINTER_BYTES, Spine, SpineLayout, elements_offset};

/// Where the elements of one array lie. Byte positions count from the first element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    /// The cage offset of the first element.
    elements: u32,
    /// Bytes of all elements.
    pub(crate) bytes: u64,
    divided: Option<Divided>,
}

#[derive(Clone, Copy, Debug)]
struct Divided {
    layout: SpineLayout,
    spine: Spine,
    object: u32,
    /// Bytes of the elements that lie behind each other from the first one on: the first N, unless they have grown.
    inline: u64,
}

/// One contiguous part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The position of its first byte.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) place: PartPlace,
}

/// Where a part is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PartPlace {
    /// In the object, at this cage offset.
    Object(u32),
    /// In the leaf whose pointer is at this cage offset.
    Leaf(u32),
}

impl Parts {
    /// The parts of the array at `object`, an array with its header and length in `memory`.
    #[inline(always)]
    pub(crate) fn of(
        memory: Memory,
        layout: Option<SpineLayout>,
        object: u32,
        element_bytes: u32,
        length: u32,
    ) -> Parts {
        // SAFETY: the array has a header.
        let inline_length = || unsafe { memory.read(object + INLINE_LENGTH_OFFSET) };
        Parts::new(layout, object, element_bytes, length, inline_length)
    }

    /// As [`of`](Self::of), with the array's inline length, asked for where arrays have one.
    #[inline(always)]
    fn new(
        layout: Option<SpineLayout>,
        object: u32,
        element_bytes: u32,
        length: u32,
        inline_length: impl FnOnce() -> u32,
    ) -> Parts {
        let bytes = u64::from(element_bytes) * u64::from(length);
        let divided = layout.filter(|layout| layout.divides(element_bytes, length)).and_then(|layout| {
            let inline = match layout.grows {
                true => u64::from(element_bytes) * u64::from(inline_length()),
                false => layout.first_n.into(),
            };
            (inline < bytes).then(|| Divided { layout, spine: layout.spine(element_bytes, length), object, inline })
        });
        Parts { elements: object + elements_offset(element_bytes), bytes, divided }
    }

    /// Bytes that lie behind each other from the first element on.
    #[inline(always)]
    pub(crate) fn inline_bytes(&self) -> u64 {
        self.divided.map_or(self.bytes, |divided| divided.inline)
    }

    /// How many leaves the first N bytes have grown over.
    #[inline(always)]
    pub(crate) fn grown(&self) -> u32 {
        self.divided.map_or(0, |Divided { layout, inline, .. }| {
            ((inline - u64::from(layout.first_n)) >> layout.leaf_log2) as u32
        })
    }

    /// The spine, with its cage offset; `None` where all elements lie in one piece.
    #[inline]
    pub(crate) fn spine(&self) -> Option<(u32, Spine)> {
        self.divided.map(|divided| (divided.object, divided.spine))
    }

    /// The part that holds the byte at `position`, which is less than [`bytes`](Self::bytes).
    #[inline]
    pub(crate) fn at(&self, position: u64) -> Part {
        let Some(Divided { layout, spine, object, inline }) = self.divided else {
            return Part { start: 0, bytes: self.bytes, place: PartPlace::Object(self.elements) };
        };
        let first_n = u64::from(layout.first_n);
        if position < inline {
            return Part { start: 0, bytes: inline, place: PartPlace::Object(self.elements) };
        }
        let number = ((position - first_n) >> layout.leaf_log2) as u32;
        let start = first_n + (u64::from(number) << layout.leaf_log2);
        if number < spine.leaves {
            let bytes = u64::from(layout.leaf_bytes()).min(self.bytes - start);
            return Part { start, bytes, place: PartPlace::Leaf(object + spine.pointers + POINTER_BYTES * number) };
        }
        Part { start, bytes: u64::from(spine.remainder_bytes), place: PartPlace::Object(object + spine.remainder) }
    }

    /// The parts that `[from, to)` touches, cut to it.
    pub(crate) fn between(self, from: u64, to: u64) -> impl Iterator<Item = Part> {
        let mut position = from;
        std::iter::from_fn(move || {
            if position >= to {
                return None;
            }
            let part = self.at(position);
            position = part.start + part.bytes;
            Some(part)
        })
    }
}

impl Part {
    /// The position behind its last byte.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_a_gap() {
        for all_in_leaves in [false, true] {
            let layout = SpineLayout { first_n: 64, leaf_log2: 8, all_in_leaves, grows: false };
            for length in [16, 17, 80, 81, 200, 208, 209] {
                let parts = Parts::new(Some(layout), 4096, 4, length, || unreachable!("they do not grow"));
                let mut end = 0;
                for part in parts.between(0, parts.bytes) {
                    assert_eq!((part.start, part.bytes > 0), (end, true));
                    end = part.end();
                    let last = part.end() - 1;
                    assert_eq!((parts.at(part.start), parts.at(last)), (part, part));
                }
                assert_eq!(end, parts.bytes);
            }
        }
    }
    #[test]
    fn what_has_grown_is_one_part() {
        let layout = SpineLayout { first_n: 64, leaf_log2: 8, all_in_leaves: false, grows: true };
        let parts = |inline: u32| Parts::new(Some(layout), 4096, 4, 5000, || inline);
        let first = parts(16 + 3 * 64);
        assert_eq!((first.inline_bytes(), first.grown()), (64 + 3 * 256, 3));
        assert_eq!(first.at(0), Part { start: 0, bytes: 832, place: PartPlace::Object(4108) });
        let PartPlace::Leaf(slot) = first.at(832).place else { panic!("a leaf follows") };
        assert_eq!(slot, 4096 + first.spine().unwrap().1.pointers + 4 * 3);
        assert_eq!(first.between(0, first.bytes).map(|part| part.bytes).sum::<u64>(), 20_000);
        let whole = parts(5000);
        assert_eq!((whole.spine(), whole.inline_bytes()), (None, 20_000));
    }
}
