//! What [`handover`](super::handover) synchronises with. Its model check replaces this module by one of the model
//! checker's.

pub(super) use std::hint::spin_loop as spin;
pub(super) use std::sync::atomic::{AtomicU64, Ordering};
pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// How often a waiter looks again before it parks: about as long as the largest unit takes to zero, some microseconds.
pub(super) const SPINS: u32 = 256;

/// A cell whose users agree among themselves who may write.
pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// A cell.
    pub(super) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer through which it may read.
    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with a pointer through which it may write.
    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
