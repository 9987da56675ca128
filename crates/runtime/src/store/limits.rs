//! Limits on what a store's instances may take.

use anyhow::{Result, bail};

/// Is asked before something grows. The heap's size and the stack are limited by the engine's
/// [`Config`](crate::Config).
pub trait ResourceLimiter {
    /// Whether a memory may grow from `current` to `desired` bytes; `maximum` is its declared one. For a new memory `current`
    /// is 0.
    ///
    /// # Errors
    /// An error becomes the error of the call under way; `Ok(false)` lets `memory.grow` return -1.
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool>;

    /// Whether a table may grow from `current` to `desired` elements.
    ///
    /// # Errors
    /// As for [`memory_growing`](Self::memory_growing).
    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool>;

    /// The most instances that the store may hold.
    fn instances(&self) -> usize {
        10_000
    }

    /// The most tables that the store may hold.
    fn tables(&self) -> usize {
        10_000
    }

    /// The most memories that the store may hold.
    fn memories(&self) -> usize {
        10_000
    }
}

/// A [`ResourceLimiter`] with fixed limits.
#[derive(Clone, Debug)]
pub struct StoreLimits {
    memory_size: Option<usize>,
    table_elements: Option<usize>,
    instances: usize,
    tables: usize,
    memories: usize,
    trap_on_grow_failure: bool,
}

impl Default for StoreLimits {
    fn default() -> StoreLimits {
        StoreLimits {
            memory_size: None,
            table_elements: None,
            instances: 10_000,
            tables: 10_000,
            memories: 10_000,
            trap_on_grow_failure: false,
        }
    }
}

/// Makes [`StoreLimits`].
#[derive(Clone, Debug, Default)]
pub struct StoreLimitsBuilder(StoreLimits);

impl StoreLimitsBuilder {
    /// No limits but the defaults.
    pub fn new() -> StoreLimitsBuilder {
        StoreLimitsBuilder::default()
    }

    /// The most bytes that each memory may take.
    pub fn memory_size(mut self, bytes: usize) -> StoreLimitsBuilder {
        self.0.memory_size = Some(bytes);
        self
    }

    /// The most elements that each table may have.
    pub fn table_elements(mut self, elements: usize) -> StoreLimitsBuilder {
        self.0.table_elements = Some(elements);
        self
    }

    /// The most instances.
    pub fn instances(mut self, count: usize) -> StoreLimitsBuilder {
        self.0.instances = count;
        self
    }

    /// The most tables.
    pub fn tables(mut self, count: usize) -> StoreLimitsBuilder {
        self.0.tables = count;
        self
    }

    /// The most memories.
    pub fn memories(mut self, count: usize) -> StoreLimitsBuilder {
        self.0.memories = count;
        self
    }

    /// Whether growth beyond a limit is an error instead of a -1.
    pub fn trap_on_grow_failure(mut self, trap: bool) -> StoreLimitsBuilder {
        self.0.trap_on_grow_failure = trap;
        self
    }

    /// The limits.
    pub fn build(self) -> StoreLimits {
        self.0
    }
}

impl StoreLimits {
    fn check(
        &self,
        what: &str,
        unit: &str,
        limit: Option<usize>,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        let limit = limit.unwrap_or(usize::MAX);
        let allowed = desired <= limit && maximum.is_none_or(|maximum| desired <= maximum);
        if !allowed && self.trap_on_grow_failure {
            bail!("a {what} may not grow to {desired} {unit}");
        }
        Ok(allowed)
    }
}

impl ResourceLimiter for StoreLimits {
    fn memory_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        self.check("memory", "bytes", self.memory_size, desired, maximum)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        self.check("table", "elements", self.table_elements, desired, maximum)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.tables
    }

    fn memories(&self) -> usize {
        self.memories
    }
}
