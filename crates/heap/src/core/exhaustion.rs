//! When a heap counts as out of memory.

use super::Core;
use crate::AllocationError;
use crate::references::ReferenceModel;

/// An exhausted heap of which a full collection frees less than this part of the maximum counts as out of memory,
/// though the one object might fit: otherwise a program that fills its heap slowly would spend minutes in ever more
/// frequent collections before it fails.
const LEAST_FREE: u64 = 64;

impl<M: ReferenceModel> Core<M> {
    /// Whether so little is free beside `live` bytes that the heap counts as out of memory.
    pub(crate) fn is_exhausted(&self, live: u64) -> bool {
        let maximum = self.config.maximum();
        live > maximum - maximum / LEAST_FREE
    }

    /// Counts that memory is exhausted and is to be collected at once.
    pub(crate) fn count_exhaustion(&mut self) {
        let handed_out = self.pacer.allocated_total() + self.leaves.allocated_bytes();
        self.pacer.count_exhaustion(handed_out, self.config.maximum());
    }

    /// Whether a collection for that has left so little beside `live` bytes, or such have so often been of so little
    /// use, that the heap counts as out of memory.
    pub(crate) fn is_still_exhausted(&self, live: u64) -> bool {
        self.is_exhausted(live) || self.pacer.is_futile(self.config.maximum())
    }

    /// The error for `bytes` that do not fit beside `live` bytes.
    pub(crate) fn out_of_memory(&self, bytes: u32, live: u64) -> AllocationError {
        AllocationError::OutOfMemory { requested: bytes as u64, live, maximum: self.config.maximum() }
    }
}
