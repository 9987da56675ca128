//! The cage: the address space that a 32-bit reference can reach, between two guards.
//!
//! A reference is an unsigned 32-bit offset from the cage's base, so that compiled code reaches
//! `base + reference + displacement`. How much is reserved follows from the heap's maximum, and where address space is
//! limited also from what is left of it; compiled code is the same. See [`Extent`]: a *whole* cage has 4 GiB, and
//! guards chosen so that an access stays inside the reservation for *any* 32-bit reference, a corrupted one too:
//!
//! * above, 2 GiB for the displacement of a field (a positive 32-bit one), and 64 GiB for an element's: an index of 32
//!   bits, compared with a length of 32 bits, times the largest element of 16 bytes;
//! * below, 2 GiB: a displacement that was wrongly taken as negative goes no further.
//!
//! Guards cost address space alone. 72 GiB for each heap leave room for some 1,800 heaps in a process of 47 bits, and
//! for none where a limit is set on address space. No access of a program reaches a guard, but for its first bytes: the
//! guards are there should heap or compiler be wrong. So a heap with a small maximum does without.
//! The first [`NULL_GUARD_BYTES`] of the cage itself are never accessible: a null dereference faults there.
//!
//! Side tables of the cage lie in the guard below it: cards, ages, mark bits.
//!
//! The memory is private. Where native views map leaves a second time, blocks of leaves are those of a file:
//! [`shared`].

mod ahead;
mod extent;
mod huge_pages;
mod shared;

use crate::error::HeapError;
pub(crate) use crate::geometry::CAGE_BYTES;
use crate::os::Reservation;
use crate::os::sharing::MemoryFile;
pub(crate) use extent::{Extent, MOST_FITTED, NULL_GUARD_BYTES};
pub(crate) use huge_pages::HUGE_PAGE_BYTES;
use huge_pages::HugePages;
use shared::SharedBlocks;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// The reserved range, with what is needed to read and write in it by offset.
#[derive(Debug)]
pub(crate) struct Cage {
    /// `None` where all pages are ordinary ones. Dropped before the memory, in which its thread may be at work.
    huge_pages: Option<HugePages>,
    reservation: Reservation,
    extent: Extent,
    /// Blocks that lie in a file in memory; `None` where none ever do.
    shared: Option<SharedBlocks>,
}

impl Cage {
    /// Reserves a cage; no block is accessible yet.
    ///
    /// # Errors
    /// [`HeapError::AddressSpace`] where address space is lacking.
    pub(crate) fn new(extent: Extent) -> Result<Cage, HeapError> {
        let bytes = extent.total() as usize;
        let purpose = "address space for a heap's cage";
        let reservation = match extent.joined {
            true => Reservation::new(bytes, purpose),
            false => Reservation::aligned(bytes, HUGE_PAGE_BYTES as usize, purpose),
        };
        let reservation = match reservation {
            Err(HeapError::System { bytes, cause, .. }) => {
                return Err(HeapError::AddressSpace { bytes, most_fitted: MOST_FITTED >> 30, cause });
            }
            reservation => reservation?,
        };
        let cage = Cage { reservation, extent, shared: None, huge_pages: None };
        if extent.joined {
            cage.join_tables()?;
        }
        Ok(cage)
    }

    /// Makes the side tables accessible, by one mapping if possible.
    fn join_tables(&self) -> Result<(), HeapError> {
        let (below, null) = (self.extent.below, NULL_GUARD_BYTES as usize);
        // A page that is touched must not bring 2 MiB of tables along.
        self.reservation.forbid_huge_pages(0, self.reservation.bytes());
        self.reservation.commit(0, below + null)?;
        if self.reservation.guard(below, null) || self.reservation.forbid(below, null) {
            return Ok(());
        }
        let cause = std::io::Error::last_os_error();
        Err(HeapError::System { action: "guard", bytes: null, purpose: "a heap's cage", cause })
    }

    /// Bytes that references can lead to.
    pub(crate) fn bytes(&self) -> u64 {
        self.extent.bytes
    }

    /// The address of offset 0.
    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        // The guard lies below: the sum stays inside the reservation.
        self.reservation.base().wrapping_add(self.extent.below)
    }

    /// Reading and writing by offset, without the reservation at hand.
    #[inline(always)]
    pub(crate) fn memory(&self) -> Memory {
        Memory { base: self.base() }
    }

    /// The address of an offset.
    #[inline(always)]
    pub(crate) fn address(&self, offset: u32) -> *mut u8 {
        self.memory().address(offset)
    }

    /// Makes `[start, start + bytes)` accessible.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn commit(&self, start: u32, bytes: usize) -> Result<(), HeapError> {
        assert!(
            start >= NULL_GUARD_BYTES && start as u64 + bytes as u64 <= self.extent.bytes,
            "commit outside of the cage"
        );
        self.reservation.commit(self.extent.below + start as usize, bytes)
    }

    /// Makes a committed range of whole pages inaccessible until it is committed again, as in [`Reservation::forbid`].
    pub(crate) fn forbid(&self, start: u32, bytes: usize) -> bool {
        self.reservation.forbid(self.extent.below + start as usize, bytes)
    }

    /// Makes the `bytes` that start `distance` below the cage's base accessible.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses.
    pub(crate) fn commit_below(&self, distance: usize, bytes: usize) -> Result<(), HeapError> {
        assert!(distance <= self.extent.below && bytes <= distance, "commit outside of the guard");
        if self.extent.joined {
            return Ok(());
        }
        self.reservation.commit(self.extent.below - distance, bytes)
    }

    /// Lets memory that is touched [ahead](Self::touch_ahead) from now on lie in huge pages, but for the first bytes,
    /// and what lies from `end` on.
    pub(crate) fn allow_huge_pages(&mut self, end: u64) {
        if !self.extent.joined {
            self.huge_pages = HugePages::new(self.base() as u64, end.min(self.extent.bytes));
        }
        if self.huge_pages.is_some() {
            // Where the system uses them of its own accord, it is to wait until it is told to.
            self.reservation.forbid_huge_pages(0, self.reservation.bytes());
        }
    }

    /// Up to which offset memory is to be committed that is wanted up to `end`.
    pub(crate) fn end_of_step(&self, end: u64) -> u64 {
        self.huge_pages.as_ref().map_or(end, |huge| huge.end_of_step(end))
    }

    /// Which huge page is to be touched ahead of a heap that has grown to `end`, if any: its offset.
    pub(crate) fn page_to_touch(&self, end: u64) -> Option<u64> {
        self.huge_pages.as_ref()?.page_to_touch(end)
    }

    /// Has [that](Self::page_to_touch) be touched. It has been committed and not been used.
    pub(crate) fn touch_ahead(&mut self, page: u64) {
        let address = self.base().wrapping_add(page as usize);
        let huge = self.huge_pages.as_mut().expect("a huge page is wanted");
        // SAFETY: accessible private memory, by the contract. The mapping goes after the thread.
        unsafe { huge.touch(page, address) };
    }

    /// The huge page that is being touched, if any: whoever needs memory in it waits.
    pub(crate) fn page_in_work(&self) -> Option<Range<u64>> {
        self.huge_pages.as_ref()?.in_work()
    }

    /// Gives back what has been touched ahead of a heap that has grown to `end`.
    pub(crate) fn give_ahead_back(&mut self, end: u64) {
        let touched = self.huge_pages.as_ref().and_then(HugePages::touched);
        if let Some(touched) = touched.filter(|touched| end < *touched) {
            self.decommit(end as u32, (touched - end) as usize);
        }
    }

    /// Before a range is given back: splits the huge pages that it is part of. Returns how many.
    pub(crate) fn split_huge_pages(&mut self, start: u32, bytes: usize) -> u64 {
        let Some(huge) = &mut self.huge_pages else { return 0 };
        let mut split = 0;
        huge.give_back(&(start.into()..u64::from(start) + bytes as u64), |piece| {
            let (start, bytes) = (piece.start as usize, (piece.end - piece.start) as usize);
            self.reservation.split_huge_pages(self.extent.below + start, bytes);
            split += 1;
        });
        split
    }

    /// Bytes from an offset to the end of the huge page that holds it; without one, as many as one likes.
    pub(crate) fn left_of_huge_page(&self, start: u32) -> u64 {
        let end = self.huge_pages.as_ref().and_then(|huge| huge.end_of_page(start.into()));
        end.map_or(u64::MAX, |end| end - u64::from(start))
    }

    /// Gives memory back to the system; it reads as zero if this returns true.
    pub(crate) fn decommit(&mut self, start: u32, bytes: usize) -> bool {
        self.split_huge_pages(start, bytes);
        match &self.shared {
            None => self.decommit_private(start, bytes),
            Some(shared) => shared.runs(start, bytes).all(|(start, bytes, is_shared)| match is_shared {
                true => shared.decommit(start, bytes),
                false => self.decommit_private(start, bytes),
            }),
        }
    }

    fn decommit_private(&self, start: u32, bytes: usize) -> bool {
        self.reservation.decommit(self.extent.below + start as usize, bytes)
    }

    /// Has untouched pages get their memory now, as in [`Reservation::populate`].
    pub(crate) fn populate(&self, start: u32, bytes: usize) {
        self.reservation.populate(self.extent.below + start as usize, bytes);
    }

    /// Maps pages of a file over a range of whole pages, as in [`Reservation::map_file`].
    pub(crate) fn map_file(&self, start: u32, bytes: usize, file: &MemoryFile, offset: u64) -> bool {
        self.reservation.map_file(self.extent.below + start as usize, bytes, file, offset)
    }

    /// Maps untouched pages over a range of whole pages, as in [`Reservation::map_fresh`].
    pub(crate) fn map_fresh(&self, start: u32, bytes: usize) -> bool {
        self.reservation.map_fresh(self.extent.below + start as usize, bytes)
    }

    /// Notes for each page of a range of whole pages whether it has memory. Returns whether the system tells.
    pub(crate) fn residency(&self, start: u32, bytes: usize, pages: &mut Vec<bool>) -> bool {
        self.reservation.residency(self.extent.below + start as usize, bytes, pages)
    }

    /// Reads the word at `offset`.
    ///
    /// # Safety
    /// `offset` lies in committed memory and is a multiple of 4.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, offset: u32) -> u32 {
        // SAFETY: by the contract.
        unsafe { self.memory().read(offset) }
    }

    /// Writes the word at `offset`.
    ///
    /// # Safety
    /// As for [`read`](Self::read), and the heap's invariants allow the value there.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, offset: u32, value: u32) {
        // SAFETY: by the contract.
        unsafe { self.memory().write(offset, value) }
    }

    /// Zeroes `[start, start + bytes)`.
    ///
    /// # Safety
    /// The range is committed and holds no live object.
    #[inline]
    pub(crate) unsafe fn zero(&self, start: u32, bytes: usize) {
        // SAFETY: by the contract.
        unsafe { std::ptr::write_bytes(self.address(start), 0, bytes) }
    }
}

/// The base of a cage alone, for inner loops. As long-lived as the cage's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    base: *mut u8,
}

impl Memory {
    /// The address of an offset.
    #[inline(always)]
    pub(crate) fn address(self, offset: u32) -> *mut u8 {
        self.base.wrapping_add(offset as usize)
    }

    /// Reads the word at `offset`.
    ///
    /// # Safety
    /// `offset` lies in committed memory of a living cage and is a multiple of 4.
    #[inline(always)]
    pub(crate) unsafe fn read(self, offset: u32) -> u32 {
        // SAFETY: by the contract; any bits are a `u32`.
        unsafe { self.address(offset).cast::<u32>().read() }
    }

    /// Writes the word at `offset`.
    ///
    /// # Safety
    /// As for [`read`](Self::read), and the heap's invariants allow the value there.
    #[inline(always)]
    pub(crate) unsafe fn write(self, offset: u32, value: u32) {
        // SAFETY: by the contract; a helper thread that marks may read the word meanwhile.
        unsafe { self.word(offset) }.store(value, Ordering::Relaxed);
    }

    /// Reads the word at `offset`, which another thread may be writing.
    ///
    /// # Safety
    /// As for [`read`](Self::read).
    #[inline(always)]
    pub(crate) unsafe fn read_shared(self, offset: u32) -> u32 {
        // SAFETY: by the contract.
        unsafe { self.word(offset) }.load(Ordering::Acquire)
    }

    /// Writes `words` one by one from `offset` on, which another thread may be reading.
    ///
    /// # Safety
    /// As for [`write`](Self::write), of each of them.
    pub(crate) unsafe fn write_words(self, offset: u32, words: impl Iterator<Item = u32>) {
        for (slot, word) in (offset..).step_by(size_of::<u32>()).zip(words) {
            // SAFETY: by the contract.
            unsafe { self.write(slot, word) };
        }
    }

    /// Copies `bytes` bytes of whole words, which another thread may be reading, between ranges that may overlap: no
    /// word is ever seen half written, as it might be with [`std::ptr::copy`].
    ///
    /// # Safety
    /// As for [`read`](Self::read) and [`write`](Self::write), of each word.
    pub(crate) unsafe fn copy_words(self, from: u32, to: u32, bytes: u32) {
        // SAFETY: by the contract.
        let copy = |at: u32| unsafe { self.write(to + at, self.read(from + at)) };
        let ats = (0..bytes).step_by(size_of::<u32>());
        match from < to {
            true => ats.rev().for_each(copy),
            false => ats.for_each(copy),
        }
    }

    /// # Safety
    /// As for [`read`](Self::read); the word is written by way of this alone while the reference lives.
    #[inline(always)]
    unsafe fn word<'a>(self, offset: u32) -> &'a AtomicU32 {
        // SAFETY: an aligned word of committed memory of a living cage, by the contract.
        unsafe { AtomicU32::from_ptr(self.address(offset).cast()) }
    }
}
