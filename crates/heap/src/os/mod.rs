//! The only module that calls the operating system: reserving, committing and returning memory, processors, how much
//! memory there is, and whether it is short.

pub(crate) mod groups;
pub(crate) mod limits;
pub(crate) mod mappings;
pub(crate) mod pressure;
pub(crate) mod processors;
pub(crate) mod sharing;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;
#[cfg(not(unix))]
compile_error!("legato-heap needs a module in src/os for this operating system");

use crate::error::HeapError;
use sharing::MemoryFile;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Bytes of a page.
pub(crate) fn page_bytes() -> u32 {
    static BYTES: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *BYTES.get_or_init(system::page_bytes)
}

/// How long the calling thread has had a processor so far.
pub(crate) fn thread_time() -> Duration {
    system::thread_time()
}

/// Has a huge page get its memory, in one piece if the system has one. It keeps what it holds. Whoever touches it
/// later, after its memory was given back, gets ordinary pages.
///
/// # Safety
/// At `address` lies a whole huge page of accessible private memory of a [`Reservation`].
pub(crate) unsafe fn touch_huge_page(address: *mut u8) {
    const BYTES: usize = 2 << 20;
    // SAFETY: by the contract. A store has the system hold no lock that other threads need for their mappings, as
    // `populate` does while the page is cleared; it changes nothing (`fetch_or` would be compiled to a load).
    unsafe {
        if system::allow_huge_pages(address, BYTES) {
            let _ = AtomicU32::from_ptr(address.cast()).compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
            system::forbid_huge_pages(address, BYTES);
        }
    }
}

/// A range of reserved address space, inaccessible until committed. Unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: NonNull<u8>,
    bytes: usize,
    purpose: &'static str,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread; shared use only reads `base`.
unsafe impl Send for Reservation {}
// SAFETY: every method that changes the mapping's state is safe to call from any thread.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `bytes` of address space (page aligned, no memory behind it).
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn new(bytes: usize, purpose: &'static str) -> Result<Reservation, HeapError> {
        match system::reserve(bytes) {
            Ok(base) => Ok(Reservation { base, bytes, purpose }),
            Err(error) => {
                Err(HeapError::System { action: "reserve", bytes, purpose, cause: mappings::explained(error) })
            }
        }
    }

    /// As [`new`](Self::new), from a multiple of `alignment` on if there is room for that.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn aligned(bytes: usize, alignment: usize, purpose: &'static str) -> Result<Reservation, HeapError> {
        let reservation = Reservation::new(bytes, purpose)?;
        if reservation.base().addr().is_multiple_of(alignment) {
            return Ok(reservation);
        }
        drop(reservation);
        let Ok(mut reservation) = Reservation::new(bytes + alignment, purpose) else {
            return Reservation::new(bytes, purpose);
        };
        reservation.cut_off(reservation.base().align_offset(alignment));
        reservation.truncate(bytes);
        Ok(reservation)
    }

    /// The first address.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes `[start, start + bytes)` readable and writable. Memory that was never written reads as zero.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn commit(&self, start: usize, bytes: usize) -> Result<(), HeapError> {
        assert!(start + bytes <= self.bytes, "commit outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion.
        unsafe { system::commit(self.base.as_ptr().add(start), bytes) }.map_err(|error| HeapError::System {
            action: "commit",
            bytes,
            purpose: self.purpose,
            cause: mappings::explained(error),
        })
    }

    /// Makes a committed range of whole pages inaccessible until it is committed again; it keeps its contents. Returns
    /// whether the system did so.
    pub(crate) fn forbid(&self, start: usize, bytes: usize) -> bool {
        assert!(start + bytes <= self.bytes, "a range outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion; that nobody accesses it is the caller's matter.
        unsafe { system::forbid(self.base.as_ptr().add(start), bytes) }
    }

    /// Makes whole pages of a committed range inaccessible for ever, without a mapping of their own. They hold nothing.
    /// Returns whether the system can do that.
    pub(crate) fn guard(&self, start: usize, bytes: usize) -> bool {
        assert!(start + bytes <= self.bytes, "a range outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion; it holds nothing, as the caller sees to.
        unsafe { system::guard(self.base.as_ptr().add(start), bytes) }
    }

    /// Has the system use no huge pages in a range of whole pages from now on.
    pub(crate) fn forbid_huge_pages(&self, start: usize, bytes: usize) {
        assert!(start + bytes <= self.bytes, "a range outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion.
        unsafe { system::forbid_huge_pages(self.base.as_ptr().add(start), bytes) }
    }

    /// Splits the huge pages that a range begins or ends in, whose contents are given up. The range may keep them or
    /// not, until it is decommitted.
    pub(crate) fn split_huge_pages(&self, start: usize, bytes: usize) {
        assert!(start + bytes <= self.bytes, "a range outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion; its contents are the caller's to give up.
        unsafe { system::split_huge_pages(self.base.as_ptr().add(start), bytes) }
    }

    /// Gives the memory of a committed range back to the system; it stays accessible and reads as zero from now on.
    /// Returns whether the system did so: where not, the contents are unchanged.
    pub(crate) fn decommit(&self, start: usize, bytes: usize) -> bool {
        assert!(start + bytes <= self.bytes, "decommit outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion; its contents are the caller's to give up.
        unsafe { system::decommit(self.base.as_ptr().add(start), bytes) }
    }

    /// Has untouched pages of a committed range get their memory now, where the system can do that for many at a time.
    pub(crate) fn populate(&self, start: usize, bytes: usize) {
        assert!(start + bytes <= self.bytes, "a range outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion.
        unsafe { system::populate(self.base.as_ptr().add(start), bytes) }
    }

    /// Maps pages of a file over a committed range of whole pages: a page that is written becomes the range's own. What
    /// the range held is gone. Returns whether the system did so; where not, the range may have become inaccessible.
    pub(crate) fn map_file(&self, start: usize, bytes: usize, file: &MemoryFile, offset: u64) -> bool {
        assert!(start + bytes <= self.bytes, "a mapping outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion; its contents are the caller's to give up.
        unsafe { system::map(self.base.as_ptr().add(start), bytes, Some((file.descriptor(), offset))) }
    }

    /// Maps untouched pages over a committed range of whole pages: as they are after [`commit`](Self::commit). Returns
    /// whether the system did so; where not, the range may have become inaccessible.
    pub(crate) fn map_fresh(&self, start: usize, bytes: usize) -> bool {
        assert!(start + bytes <= self.bytes, "a mapping outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion; its contents are the caller's to give up.
        unsafe { system::map(self.base.as_ptr().add(start), bytes, None) }
    }

    /// Unmaps what lies behind the first `bytes`, whole pages.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        assert!(0 < bytes && bytes <= self.bytes, "a range outside of the reservation");
        if bytes < self.bytes {
            // SAFETY: the end of this reservation, to which nothing refers any more: that is the caller's matter.
            unsafe { system::release(self.base.as_ptr().add(bytes), self.bytes - bytes) };
            self.bytes = bytes;
        }
    }

    /// Unmaps the first `bytes`, whole pages.
    fn cut_off(&mut self, bytes: usize) {
        assert!(bytes < self.bytes, "a range outside of the reservation");
        if bytes > 0 {
            // SAFETY: the beginning of this reservation, which nobody has seen yet; the rest is not empty.
            unsafe {
                system::release(self.base.as_ptr(), bytes);
                self.base = self.base.add(bytes);
            }
            self.bytes -= bytes;
        }
    }

    /// Notes for each page of a committed range of whole pages whether it has memory, into `pages`, which is emptied
    /// first. A page that has been swapped out has none. Returns whether the system tells.
    pub(crate) fn residency(&self, start: usize, bytes: usize, pages: &mut Vec<bool>) -> bool {
        assert!(start + bytes <= self.bytes, "a range outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion.
        unsafe { system::residency(self.base.as_ptr().add(start), bytes, pages) }
    }

    /// Maps whole pages of a file over a range, which is readable and writable from now on and shows what every other
    /// mapping of these pages shows. What the range held is gone. With `populate`, no access faults later. Returns
    /// whether the system did so; where not, the range is as it was.
    pub(crate) fn map_shared(
        &self,
        start: usize,
        bytes: usize,
        file: &MemoryFile,
        offset: u64,
        populate: bool,
    ) -> bool {
        assert!(start + bytes <= self.bytes, "a mapping outside of the reservation");
        // SAFETY: the range lies in this reservation, by the assertion; its contents are the caller's to give up.
        unsafe { file.map_shared(self.base.as_ptr().add(start), bytes, offset, populate) }
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

    #[test]
    fn a_reservation_can_be_aligned() {
        let reservations = [1, 3, 7].map(|pages| {
            let bytes = pages * page_bytes() as usize;
            let reservation = Reservation::aligned(bytes, 1 << 21, "a test").unwrap();
            assert!(reservation.base().addr().is_multiple_of(1 << 21) && reservation.bytes() == bytes);
            reservation.commit(0, bytes).unwrap();
            reservation
        });
        // SAFETY: the last byte of each has just been committed.
        reservations.iter().for_each(|reservation| unsafe { reservation.base().add(reservation.bytes() - 1).write(1) });
    }

    #[test]
    fn a_guarded_range_is_kept_through_giving_back() {
        let (page, reservation) = (page_bytes() as usize, Reservation::new(1 << 20, "a test").unwrap());
        reservation.commit(0, 1 << 20).unwrap();
        if !reservation.guard(0, 4 * page) {
            return;
        }
        assert!(reservation.decommit(0, 1 << 20));
        // Asking the system to read from there fails, where a load would end the process.
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors; the addresses are this reservation's.
        let written = unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            [0, 4 * page].map(|at| libc::write(ends[1], reservation.base().add(at).cast(), 1))
        };
        assert_eq!(written, [-1, 1]);
        for end in ends {
            // SAFETY: the descriptor is this test's.
            unsafe { libc::close(end) };
        }
    }

    #[test]
    fn the_time_of_a_thread_grows_while_it_works_alone() {
        let before = thread_time();
        while thread_time() < before + Duration::from_millis(2) {}
        let (worked, slept) = (thread_time(), Duration::from_millis(50));
        std::thread::sleep(slept);
        assert!(thread_time() - worked < slept);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn touched_pages_have_memory() {
        let reservation = Reservation::new(1 << 20, "a test").unwrap();
        reservation.commit(0, 1 << 20).unwrap();
        let (page, mut pages) = (page_bytes() as usize, vec![true; 3]);
        // SAFETY: the range has just been committed.
        unsafe { reservation.base().add(2 * page).write(1) };
        assert!(reservation.residency(0, 4 * page, &mut pages));
        assert_eq!(pages, [false, false, true, false]);
        assert!(reservation.decommit(2 * page, page) && reservation.residency(2 * page, page, &mut pages));
        assert_eq!(pages, [false]);
    }
}
