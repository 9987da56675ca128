//! The maximum of a heap that nobody has set (`max=auto`): what the machine lets the process have, less what is not
//! heap. It holds for every rule.
//!
//! Memory groups kill a process that comes to its limit where nothing can be swapped out, without a warning that would
//! leave time to react: so the limit has to be known beforehand, and cannot be found by stalling.
//!
//! Limits: looked up once, when the heap is made; each heap of a process takes all of it.

use crate::blocks::BLOCK_BYTES;
use crate::os::limits::MachineLimit;

/// The maximum on a machine with memory enough, in bytes.
pub(crate) const MOST_BYTES: u64 = 2 << 30;
/// One part in so many of the limit is left for what is not heap: side tables, compiled code, stacks, linear memory.
const RESERVED_PART: u64 = 8;
/// The heap has one part in so many at least, and so many bytes.
const LEAST_PART: u64 = 4;
const LEAST_BYTES: u64 = 1 << 20;

/// The maximum under a limit, in bytes and whole blocks, in a process that has `resident` bytes of memory already.
pub(crate) fn maximum(limit: Option<&MachineLimit>, resident: u64) -> u64 {
    let Some(limit) = limit else { return MOST_BYTES };
    let left = limit.bytes.saturating_sub(limit.bytes / RESERVED_PART).saturating_sub(resident);
    let bytes = left.max(limit.bytes / LEAST_PART).clamp(LEAST_BYTES, MOST_BYTES);
    bytes - bytes % u64::from(BLOCK_BYTES)
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
}
