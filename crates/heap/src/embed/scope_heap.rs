//! What a scope does with its heap as a whole.

use std::time::Duration;

use super::error::Error;
use super::scope::Scope;
use super::stored::Stored;
use super::types::{ArrayType, StructType, Type};
use crate::observer::HeapStats;
use crate::verify::VerifyError;

impl Scope<'_> {
    /// As [`ObjectHeap::define`](super::ObjectHeap::define): an interpreter that runs in a scope meets new types there.
    ///
    /// ```
    /// use legato_heap::embed::{Any, Error, ObjectHeap, StructType};
    ///
    /// let mut heap = ObjectHeap::new(&Default::default())?;
    /// heap.scope(|scope| -> Result<(), Error> {
    ///     let pair = scope.define(StructType::new("pair").field::<Any>("first").field::<u32>("second"))?;
    ///     let bytes = scope.define_array::<u8>("bytes")?;
    ///     let (new, array) = (scope.new_struct(&pair)?, scope.new_array(bytes, 10)?);
    ///     scope.set(new, pair.field::<Any>("first")?, array)?;
    ///     scope.collect();
    ///     assert_eq!(scope.stats().live_objects, 2);
    ///     assert!(scope.verify().is_ok() && scope.is(new, &pair)?);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn define(&mut self, ty: StructType) -> Result<Type, Error> {
        self.heap.define(ty)
    }

    /// As [`ObjectHeap::define_array`](super::ObjectHeap::define_array).
    ///
    /// # Errors
    /// As there.
    pub fn define_array<T: Stored>(&mut self, name: &str) -> Result<ArrayType<T>, Error> {
        self.heap.define_array(name)
    }

    /// As [`ObjectHeap::stats`](super::ObjectHeap::stats).
    pub fn stats(&self) -> HeapStats {
        self.heap.stats()
    }

    /// As [`ObjectHeap::verify`](super::ObjectHeap::verify).
    ///
    /// # Errors
    /// As there.
    pub fn verify(&mut self) -> Result<(), VerifyError> {
        self.heap.verify()
    }

    /// As [`ObjectHeap::collect`](super::ObjectHeap::collect).
    pub fn collect(&mut self) {
        self.heap.collect();
    }

    /// As [`ObjectHeap::collect_some`](super::ObjectHeap::collect_some).
    pub fn collect_some(&mut self, time: Duration) -> bool {
        self.heap.collect_some(time)
    }

    /// As [`ObjectHeap::trim`](super::ObjectHeap::trim).
    pub fn trim(&mut self) -> u64 {
        self.heap.trim()
    }

    /// As [`ObjectHeap::run_finalisers`](super::ObjectHeap::run_finalisers).
    pub fn run_finalisers(&mut self) -> usize {
        self.heap.run_finalisers()
    }

    /// Lets the heap collect a little, where it does so in slices: for loops that do not allocate.
    pub fn poll(&mut self) {
        let (heap, slots) = self.heap.prepared();
        heap.poll(slots);
    }
}
