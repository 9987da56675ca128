//! The limit on linear memories and tables.

use anyhow::Result;
use legato::{ResourceLimiter, StoreLimits, StoreLimitsBuilder};

/// Lets all memories and tables together grow to a number of bytes, if there is one. The stack has an option of its
/// own.
#[derive(Debug)]
pub struct MemoryLimit(StoreLimits);

impl MemoryLimit {
    /// A limit of `bytes`.
    pub fn new(bytes: Option<usize>) -> Self {
        let limits = StoreLimitsBuilder::new();
        MemoryLimit(match bytes {
            Some(bytes) => limits.total_bytes(bytes).build(),
            None => limits.build(),
        })
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        self.0.memory_growing(current, desired, maximum)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        self.0.table_growing(current, desired, maximum)
    }

    fn memory_grow_failed(&mut self, current: usize, desired: usize) {
        self.0.memory_grow_failed(current, desired);
    }

    fn table_grow_failed(&mut self, current: usize, desired: usize) {
        self.0.table_grow_failed(current, desired);
    }
}
