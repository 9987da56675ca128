//! The maximum of a heap that nobody has set (`max=auto`): what the machine lets the process have, less what is not
//! heap. It holds for every rule.
//!
//! Where address space is limited (`ulimit -v`), a cage gets at most half of what is left of it, unless that is plenty
//! for a whole cage: the other half is for linear memories, code, stacks, the libraries' own memory, and other heaps.
//! The maximum is then what such a cage holds.
//!
//! Memory groups kill a process that comes to its limit where nothing can be swapped out, without a warning that would
//! leave time to react: so the limit has to be known beforehand, and cannot be found by stalling.
//!
//! Limits: looked up once, when the heap is made; each heap of a process takes all of it.

use crate::blocks::BLOCK_BYTES;
use crate::cage::Extent;
use crate::os::limits::{AddressSpace, MachineLimit};

/// The maximum on a machine with memory enough, in bytes.
pub(crate) const MOST_BYTES: u64 = 2 << 30;
/// One part in so many of the limit is left for what is not heap: side tables, compiled code, stacks, linear memory.
const RESERVED_PART: u64 = 8;
/// The heap has one part in so many at least, and so many bytes.
const LEAST_PART: u64 = 4;
const LEAST_BYTES: u64 = 1 << 20;
/// A whole cage is reserved where so much address space stays beside it, in bytes: four linear memories of the largest
/// reservation.
const LEFT_BESIDE_WHOLE: u64 = 24 << 30;
/// Otherwise one part in so many of what is left is for a cage.
const CAGE_PART: u64 = 2;

/// The maximum under a limit, in bytes and whole blocks, in a process that has `resident` bytes of memory already.
pub(crate) fn maximum(limit: Option<&MachineLimit>, resident: u64) -> u64 {
    let Some(limit) = limit else { return MOST_BYTES };
    let left = limit.bytes.saturating_sub(limit.bytes / RESERVED_PART).saturating_sub(resident);
    let bytes = left.max(limit.bytes / LEAST_PART).clamp(LEAST_BYTES, MOST_BYTES);
    bytes - bytes % u64::from(BLOCK_BYTES)
}

/// How much of the address space a cage may take, in bytes; `None` where it may be a whole one.
pub(crate) fn share(space: Option<AddressSpace>) -> Option<u64> {
    let left = space?.left();
    (left < Extent::WHOLE.total() + LEFT_BESIDE_WHOLE).then_some(left / CAGE_PART)
}

/// The maximum, in bytes and whole blocks, of a heap that may have `most` bytes of memory, and this share of the
/// address space for its cage; `is_roomy` as in [`Extent::most_within`]. Where the share is too small for any heap, the
/// system is asked for the smallest one.
pub(crate) fn within(most: u64, share: u64, is_roomy: bool) -> u64 {
    let bytes = Extent::most_within(share, is_roomy).max(LEAST_BYTES);
    most.min(bytes - bytes % u64::from(BLOCK_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_heap_is_left() {
        const MIB: u64 = 1 << 20;
        let under = |bytes, resident| maximum(Some(&MachineLimit { bytes, source: String::new() }), resident);
        assert_eq!(maximum(None, 64 * MIB), MOST_BYTES);
        assert_eq!(under(u64::MAX, 64 * MIB), MOST_BYTES);
        assert_eq!(under(24 << 30, 64 * MIB), MOST_BYTES);
        assert_eq!(under(256 * MIB, 24 * MIB), 200 * MIB);
        assert_eq!(under(256 * MIB, 24 * MIB + 1), 200 * MIB - u64::from(BLOCK_BYTES), "whole blocks");
        assert_eq!(under(256 * MIB, 256 * MIB), 64 * MIB);
        assert_eq!(under(0, MIB), MIB);
    }

    #[test]
    fn a_cage_leaves_address_space() {
        const GIB: u64 = 1 << 30;
        let left = |bytes| share(Some(AddressSpace { limit_bytes: bytes + GIB, used_bytes: GIB }));
        assert_eq!(share(None), None);
        assert_eq!((left(96 * GIB), left(96 * GIB - 2)), (None, Some(48 * GIB - 1)));
        assert_eq!(share(Some(AddressSpace { limit_bytes: 1, used_bytes: 2 })), Some(0));

        assert_eq!((within(MOST_BYTES, 48 * GIB, false), within(MOST_BYTES, 48 * GIB, true)), (GIB, GIB));
        assert_eq!(within(7 << 20, 48 * GIB, false), 7 << 20, "memory is scarcer");
        assert_eq!((within(MOST_BYTES, 0, false), within(MOST_BYTES, 0, true)), (LEAST_BYTES, LEAST_BYTES));
        let (plain, roomy) = (within(MOST_BYTES, 2 * GIB, false), within(MOST_BYTES, 2 * GIB, true));
        assert!(roomy < GIB / 2 && GIB / 2 < plain && plain < GIB, "{roomy} {plain}");
        assert_eq!((plain % u64::from(BLOCK_BYTES), roomy % u64::from(BLOCK_BYTES)), (0, 0));
    }
}
