//! The limit on linear memory.

use anyhow::Result;
use legato::ResourceLimiter;

/// Lets all memories together grow to a number of bytes, if there is one.
#[derive(Debug)]
pub struct MemoryLimit {
    left: Option<usize>,
}

impl MemoryLimit {
    /// A limit of `bytes`.
    pub fn new(bytes: Option<usize>) -> Self {
        MemoryLimit { left: bytes }
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let Some(left) = self.left else { return Ok(true) };
        let rest = left.checked_sub(desired.saturating_sub(current));
        if let Some(rest) = rest {
            self.left = Some(rest);
        }
        Ok(rest.is_some())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        Ok(maximum.is_none_or(|maximum| desired <= maximum))
    }
}
