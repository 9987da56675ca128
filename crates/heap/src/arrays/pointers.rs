//! The pointers of spines: reading and installing them, marking the leaves that they lead to, letting go of leaves of
//! zeros (Z-Rays, sections 4.4 and 4.5).

use super::SpineMode;
use super::parts::{PartPlace, Parts};
use crate::blocks::{BlockPool, ZERO_LEAF};
use crate::cage::Memory;
use crate::layout::TAINT;
use crate::views::DoubleMaps;
use std::sync::atomic::{AtomicU32, Ordering};

impl SpineMode {
    /// The pointer to the zero leaf.
    #[inline(always)]
    pub(crate) fn zero_pointer(&self) -> u32 {
        ZERO_LEAF | if self.copy_on_write { TAINT } else { 0 }
    }

    /// Whether the leaf must not be written through this pointer.
    #[inline(always)]
    pub(crate) fn is_unwritable(&self, pointer: u32) -> bool {
        pointer & TAINT != 0 || pointer == ZERO_LEAF
    }
}

/// The leaf that a pointer leads to.
#[inline(always)]
pub(crate) fn leaf_of(pointer: u32) -> u32 {
    pointer & !TAINT
}

/// The pointer at a cage offset. Helper threads of the heap may install leaves too: pointers are atomic words.
///
/// # Safety
/// A pointer of a spine lies there.
#[inline(always)]
pub(crate) unsafe fn pointer_at<'a>(memory: Memory, slot: u32) -> &'a AtomicU32 {
    // SAFETY: by the contract; an aligned word of committed memory, reached as an atomic word alone while others may.
    unsafe { AtomicU32::from_ptr(memory.address(slot).cast()) }
}

/// Replaces the pointer that was seen, unless somebody else was faster; returns the pointer that is there now, and
/// whether it is the new one.
#[inline]
pub(crate) fn install(pointer: &AtomicU32, seen: u32, new: u32) -> (u32, bool) {
    match pointer.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => (new, true),
        Err(current) => (current, false),
    }
}

/// Whether `bytes` bytes, a multiple of 64 aligned to 8, are all zero.
///
/// # Safety
/// The memory is readable.
unsafe fn is_zero(address: *const u8, bytes: u32) -> bool {
    let line = |number: usize| {
        // SAFETY: by the contract.
        let words = unsafe { address.cast::<[u64; 8]>().add(number).read() };
        words.iter().fold(0, |all, word| all | word) == 0
    };
    (0..bytes as usize / 64).all(line)
}

/// The cage offsets of the bytes `[from, to)` of an array, strip by strip; zeros that take no memory are left out.
pub(crate) fn strips(parts: Parts, memory: Memory, from: u64, to: u64) -> impl Iterator<Item = (u32, u32)> {
    parts.between(from, to).filter_map(move |part| {
        let offset = match part.place {
            PartPlace::Object(offset) => offset,
            // SAFETY: a part in a leaf names its pointer.
            PartPlace::Leaf(slot) => leaf_of(unsafe { pointer_at(memory, slot) }.load(Ordering::Relaxed)),
        };
        let (first, end) = (part.start.max(from) - part.start, part.end().min(to) - part.start);
        (offset != ZERO_LEAF).then_some((offset + first as u32, offset + end as u32))
    })
}

/// What marking the leaves of spines has found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafTally {
    /// Leaves marked, in leaves.
    pub(crate) marked: u64,
    /// Leaves of zeros that spines have given up.
    pub(crate) compressed: u64,
}

/// Marks leaves of a spine, at most `count` of them from number `first` on, and lets go of those that hold zeros alone,
/// unless they are mapped a second time. Returns the number to go on at, where there are more. The mutator stands.
pub(crate) fn mark_leaves(
    pool: &mut BlockPool,
    mode: &SpineMode,
    views: &DoubleMaps,
    parts: &Parts,
    (first, count): (u32, u32),
    tally: &mut LeafTally,
) -> Option<u32> {
    let (object, spine) = parts.spine()?;
    let memory = pool.cage.memory();
    // SAFETY: the spine has so many pointers.
    let pointer = |number| unsafe { pointer_at(memory, object + spine.pointers + 4 * number) };
    let has_view = !views.is_empty() && spine.leaves > 0 && views.find(pointer(0).load(Ordering::Relaxed)).is_some();
    let compresses = mode.zero_compression && !has_view;
    let first = first.max(parts.grown());
    let end = spine.leaves.min(first.saturating_add(count));
    for number in first..end {
        let pointer = pointer(number);
        let leaf = leaf_of(pointer.load(Ordering::Relaxed));
        if leaf == ZERO_LEAF {
            continue;
        }
        // SAFETY: a pointer leads to a leaf.
        if compresses && unsafe { is_zero(memory.address(leaf), mode.layout.leaf_bytes()) } {
            pointer.store(mode.zero_pointer(), Ordering::Relaxed);
            tally.compressed += 1;
        } else if pool.mark_old(leaf) {
            tally.marked += 1;
        }
    }
    (end < spine.leaves).then_some(end)
}

/// Points the remainder's pointer of a spine that has been moved at where the remainder is now.
///
/// # Safety
/// The spine has been copied, and nobody else reaches the copy.
pub(crate) unsafe fn follow_remainder(memory: Memory, parts: &Parts) {
    if let Some((object, spine)) = parts.spine()
        && spine.remainder_bytes > 0
    {
        // SAFETY: the last pointer is the remainder's.
        unsafe { memory.write(object + spine.pointers + 4 * spine.leaves, object + spine.remainder) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many threads install a leaf in one place: one wins, and all go on with its leaf.
    #[test]
    fn racing_installations_agree() {
        for round in 0..200u32 {
            let pointer = AtomicU32::new(ZERO_LEAF);
            let barrier = std::sync::Barrier::new(4);
            let install_one = |number: u32| {
                barrier.wait();
                install(&pointer, ZERO_LEAF, (round * 4 + number + 100) << 10)
            };
            let results: Vec<(u32, bool)> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || install_one(number))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let leaf = pointer.load(Ordering::Relaxed);
            assert!(results.iter().all(|&(seen, _)| seen == leaf), "{results:?}");
            assert_eq!(results.iter().filter(|(_, won)| *won).count(), 1);
        }
    }

    #[test]
    fn zeros_are_told_to_the_last_byte() {
        let mut memory = vec![0u64; 32];
        // SAFETY: so many bytes.
        let ask = |memory: &[u64]| unsafe { is_zero(memory.as_ptr().cast(), 256) };
        assert!(ask(&memory));
        for word in [0, 7, 8, 31] {
            memory[word] = 1 << 63;
            assert!(!ask(&memory), "word {word}");
            memory[word] = 0;
        }
    }
}
