//! What the hand-overs between a heap and its helper threads synchronise with. Their model checks replace this module
//! by one of the model checker's.

pub(crate) use std::hint::spin_loop as spin;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// How often a waiter looks again before it parks: about as long as a helper needs for what it has in hand, some
/// microseconds.
pub(crate) const SPINS: u32 = 256;

/// A cell whose users agree among themselves who may write.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell.
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer through which it may read.
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with a pointer through which it may write.
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
