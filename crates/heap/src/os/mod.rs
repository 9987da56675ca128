//! The only module that calls the operating system: reserving, committing and returning memory, and processors.

pub(crate) mod processors;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;
#[cfg(not(unix))]
compile_error!("legato-heap needs a module in src/os for this operating system");

use crate::error::HeapError;
use std::ptr::NonNull;

/// A range of reserved address space, inaccessible until committed. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: NonNull<u8>,
    bytes: usize,
    purpose: &'static str,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread; shared use only reads `base`.
unsafe impl Send for Reservation {}
// SAFETY: as above: every method that changes the mapping's state is safe to call from any thread.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `bytes` of address space (page aligned, no memory behind it).
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn new(bytes: usize, purpose: &'static str) -> Result<Reservation, HeapError> {
        match system::reserve(bytes) {
            Ok(base) => Ok(Reservation { base, bytes, purpose }),
            Err(source) => Err(HeapError::System { action: "reserve", bytes, purpose, source }),
        }
    }

    /// The first address.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Makes `[start, start + bytes)` readable and writable. Memory that was never written reads as zero.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn commit(&self, start: usize, bytes: usize) -> Result<(), HeapError> {
        assert!(start + bytes <= self.bytes, "commit outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion.
        unsafe { system::commit(self.base.as_ptr().add(start), bytes) }.map_err(|source| HeapError::System {
            action: "commit",
            bytes,
            purpose: self.purpose,
            source,
        })
    }

    /// Gives the memory of a committed range back to the system; it stays accessible and reads as zero from now on.
    /// Returns whether the system did so: where not, the contents are unchanged.
    pub(crate) fn decommit(&self, start: usize, bytes: usize) -> bool {
        assert!(start + bytes <= self.bytes, "decommit outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion; its contents are the caller's to give up.
        unsafe { system::decommit(self.base.as_ptr().add(start), bytes) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `reserve` with this size, and nothing refers to it any more.
        unsafe { system::release(self.base.as_ptr(), self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decommitted_memory_reads_as_zero() {
        let reservation = Reservation::new(1 << 30, "a test").unwrap();
        reservation.commit(1 << 20, 1 << 20).unwrap();
        // SAFETY: the range has just been committed.
        let word = unsafe { &mut *reservation.base().add(1 << 20).cast::<u64>() };
        assert_eq!(*word, 0);
        *word = 7;
        assert!(reservation.decommit(1 << 20, 1 << 20));
        assert_eq!(*word, 0);
    }
}
