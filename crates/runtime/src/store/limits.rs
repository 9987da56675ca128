//! Limits on what a store's instances may take.

use anyhow::{Result, bail};

use crate::Table;

/// Is asked before something grows. The heap's size is limited by the engine's [`Config`](crate::Config).
pub trait ResourceLimiter {
    /// Whether a memory may grow from `current` to `desired` bytes; `maximum` is its declared one. For a new memory
    /// `current` is 0.
    ///
    /// # Errors
    /// An error becomes the error of the call under way; `Ok(false)` lets `memory.grow` return -1.
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool>;

    /// Whether a table may grow from `current` to `desired` elements, of
    /// [`Table::ELEMENT_BYTES`](crate::Table::ELEMENT_BYTES) each; `maximum` is its declared one. For a new table
    /// `current` is 0.
    ///
    /// # Errors
    /// As for [`memory_growing`](Self::memory_growing).
    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool>;

    /// A growth that [`memory_growing`](Self::memory_growing) allowed has failed: the memory still has `current` bytes.
    fn memory_grow_failed(&mut self, _current: usize, _desired: usize) {}

    /// A growth that [`table_growing`](Self::table_growing) allowed has failed: the table still has `current` elements.
    fn table_grow_failed(&mut self, _current: usize, _desired: usize) {}

    /// Whether compiled code may take `bytes` of stack, the engine's [`max_wasm_stack`](crate::Config::max_wasm_stack).
    /// Asked when the store's first instance is made, until it is granted.
    ///
    /// # Errors
    /// An error, like `Ok(false)`, ends the instantiation.
    fn stack_reserving(&mut self, _bytes: usize) -> Result<bool> {
        Ok(true)
    }

    /// The most instances that the store may hold, without those that
    /// [`Linker::define_export`](crate::Linker::define_export) has it make.
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

/// Why an instance was not made: what a [`ResourceLimiter`] does not grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitExceeded {
    /// One more than so many instances.
    #[error("resource limit exceeded: a store may hold {0} instances")]
    Instances(usize),
    /// One more than so many memories.
    #[error("resource limit exceeded: a store may hold {0} memories")]
    Memories(usize),
    /// One more than so many tables.
    #[error("resource limit exceeded: a store may hold {0} tables")]
    Tables(usize),
    /// A new memory of so many bytes.
    #[error("resource limit exceeded: the store's limits leave no room for a memory of {0} bytes")]
    MemoryBytes(usize),
    /// A new table of so many elements.
    #[error("resource limit exceeded: the store's limits leave no room for a table of {0} elements")]
    TableElements(usize),
    /// So many bytes of stack.
    #[error("resource limit exceeded: a stack of {0} bytes, the engine's `max_wasm_stack`")]
    StackBytes(usize),
}

/// A [`ResourceLimiter`] with fixed limits.
#[derive(Clone, Debug)]
pub struct StoreLimits {
    memory_size: Option<usize>,
    table_elements: Option<usize>,
    total_bytes: Option<usize>,
    /// What memories, tables and stack have of `total_bytes`.
    taken: usize,
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
            total_bytes: None,
            taken: 0,
            instances: 10_000,
            tables: 10_000,
            memories: 10_000,
            trap_on_grow_failure: false,
        }
    }
}

/// Makes [`StoreLimits`].
///
/// ```
/// use legato::{Engine, Memory, MemoryType, Store, StoreLimitsBuilder};
///
/// let limits = StoreLimitsBuilder::new().memory_size(2 << 16).build();
/// let mut store = Store::new(&Engine::default(), limits);
/// store.limiter(|limits| limits);
/// let memory = Memory::new(&mut store, MemoryType::new(1, None))?;
/// memory.grow(&mut store, 1)?;
/// assert!(memory.grow(&mut store, 1).is_err());
/// # Ok::<(), anyhow::Error>(())
/// ```
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

    /// The most bytes that all memories, all tables and the stack of compiled code
    /// ([`max_wasm_stack`](crate::Config::max_wasm_stack)) may take together. What the store has already when it gets
    /// the limits is not counted.
    pub fn total_bytes(mut self, bytes: usize) -> StoreLimitsBuilder {
        self.0.total_bytes = Some(bytes);
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

    /// Whether growth beyond one of these limits is an error instead of a -1. Growth beyond the maximum of a memory's
    /// or a table's own type, or beyond what its indices reach, is a -1 all the same: the limiter is not asked.
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

    /// Takes `bytes` more of the total for a memory, a table or the stack, where there are so many left.
    fn take(&mut self, what: &str, bytes: usize) -> Result<bool> {
        let Some(total) = self.total_bytes else { return Ok(true) };
        let taken = self.taken.saturating_add(bytes);
        if taken <= total {
            self.taken = taken;
            return Ok(true);
        }
        if self.trap_on_grow_failure {
            bail!("a {what} may not take {bytes} bytes: {} of the {total} of `total_bytes` are taken", self.taken);
        }
        Ok(false)
    }

    fn give_back(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_sub(bytes);
    }
}

/// Bytes of so many elements of a table.
fn table_bytes(elements: usize) -> usize {
    elements.saturating_mul(Table::ELEMENT_BYTES)
}

impl ResourceLimiter for StoreLimits {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let allowed = self.check("memory", "bytes", self.memory_size, desired, maximum)?;
        Ok(allowed && self.take("memory", desired.saturating_sub(current))?)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let allowed = self.check("table", "elements", self.table_elements, desired, maximum)?;
        Ok(allowed && self.take("table", table_bytes(desired.saturating_sub(current)))?)
    }

    fn memory_grow_failed(&mut self, current: usize, desired: usize) {
        self.give_back(desired.saturating_sub(current));
    }

    fn table_grow_failed(&mut self, current: usize, desired: usize) {
        self.give_back(table_bytes(desired.saturating_sub(current)));
    }

    fn stack_reserving(&mut self, bytes: usize) -> Result<bool> {
        self.take("stack", bytes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::refuse;
    use crate::{Engine, Instance, Module, Store};

    #[test]
    fn memory_that_the_system_refuses_is_not_counted() -> Result<()> {
        let engine = Engine::default();
        let stack = engine.config().max_wasm_stack;
        let mut store = Store::new(&engine, StoreLimitsBuilder::new().total_bytes(stack + (3 << 16)).build());
        store.limiter(|limits| limits);
        let text = r#"(module (memory 1)
            (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))"#;
        let instance = Instance::new(&mut store, &Module::new(&engine, text)?, &[])?;
        let grow = instance.get_typed_func::<i32, i32>(&mut store, "grow")?;
        // The first call prepares the thread, which takes memory too.
        assert_eq!(grow.call(&mut store, 0)?, 1);
        for _ in 0..3 {
            refuse(1);
            assert_eq!(grow.call(&mut store, 2)?, -1);
        }
        assert_eq!(grow.call(&mut store, 2)?, 1);
        assert_eq!(grow.call(&mut store, 1)?, -1);
        Ok(())
    }
}
