//! The storage of linear memories.
//!
//! A static memory reserves all the addresses that its compiled code can form and never moves; growing makes more of
//! them accessible. A dynamic memory is checked by its length and may move when it outgrows its reservation.

use legato_compiler::abi::MemoryHead;
use legato_compiler::module::{MemoryPlan, MemoryType, STATIC_MEMORY_RESERVATION};
use legato_heap::AddressSpace;

use crate::vm::Error;
use crate::vm::os::{Mapping, SharedContents, page_bytes};

/// The most address space that a dynamic memory reserves at first, where its maximum allows, in bytes. Nothing but
/// addresses: memory is taken as the memory grows.
const DYNAMIC_RESERVATION: u64 = 1 << 30;

/// Where address space is limited and nobody has said what memories reserve: they are static where this many of them
/// find room, of what is left when the engine is made.
const STATIC_MEMORIES: u64 = 4;
/// There, too, a dynamic memory reserves at most one part in so many of what is left when it is made.
const DYNAMIC_PART: u64 = 8;

/// What is reserved for every memory at first, in bytes, where its maximum allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryReservation {
    bytes: u64,
    /// Whether somebody has asked for exactly that.
    is_set: bool,
}

impl MemoryReservation {
    /// All the addresses that unchecked code can form.
    pub const DEFAULT: MemoryReservation = MemoryReservation { bytes: STATIC_MEMORY_RESERVATION, is_set: false };

    /// So many bytes.
    pub fn of(bytes: u64) -> MemoryReservation {
        MemoryReservation { bytes: bytes.min(STATIC_MEMORY_RESERVATION), is_set: true }
    }

    /// This one if somebody has asked for it, otherwise the default in a process whose address space has this limit.
    pub fn within(self, space: Option<AddressSpace>) -> MemoryReservation {
        match space {
            Some(space) if !self.is_set && space.left() / STATIC_MEMORIES < STATIC_MEMORY_RESERVATION => {
                MemoryReservation { bytes: DYNAMIC_RESERVATION, is_set: false }
            }
            _ => self,
        }
    }

    /// Whether every access has to be checked.
    pub fn is_checked(self) -> bool {
        self.bytes < STATIC_MEMORY_RESERVATION
    }

    /// Whether somebody has asked for it.
    pub fn is_set(self) -> bool {
        self.is_set
    }

    /// What a dynamic memory reserves at first, where its type allows, in bytes.
    fn of_dynamic(self, space: Option<AddressSpace>) -> u64 {
        let most = self.bytes.min(DYNAMIC_RESERVATION);
        space.filter(|_| !self.is_set).map_or(most, |space| most.min(space.left() / DYNAMIC_PART))
    }
}

/// No memory grows beyond this, in bytes: well within the address space of every 64-bit machine.
const MAX_BYTES: u64 = 1 << 44;

/// A linear memory: zero-filled, of whole Wasm pages.
#[derive(Debug)]
pub struct LinearMemory {
    ty: MemoryType,
    plan: MemoryPlan,
    mapping: Mapping,
    /// Current length.
    bytes: usize,
}

impl LinearMemory {
    /// A memory of the type's minimum size.
    ///
    /// # Errors
    /// If the minimum is beyond the maximum, what the memory's addresses reach or this implementation's limits, or the
    /// system refuses memory.
    pub fn new(ty: MemoryType, reserved: MemoryReservation) -> Result<LinearMemory, Error> {
        let plan = MemoryPlan::of(&ty, reserved.is_checked());
        check_limits("a memory", "pages", ty.minimum, ty.maximum)?;
        let too_large = || Error::Limit(format!("a memory of {} pages at least is too large", ty.minimum));
        let minimum = page_product(&ty, ty.minimum).filter(|_| ty.minimum <= max_pages(&ty)).ok_or_else(too_large)?;
        let reservation = match plan {
            MemoryPlan::Static => STATIC_MEMORY_RESERVATION,
            MemoryPlan::Dynamic => {
                let maximum = page_product(&ty, max_pages(&ty)).unwrap_or(u64::MAX);
                maximum.min(reserved.of_dynamic(AddressSpace::of_process())).max(minimum)
            }
        };
        let mapping = Mapping::reserve(reservation as usize).map_err(|error| match plan {
            MemoryPlan::Static => Error::MemoryReservation { bytes: reservation, cause: Box::new(error) },
            MemoryPlan::Dynamic => error,
        })?;
        mapping.make_writable(0..minimum as usize)?;
        Ok(LinearMemory { ty, plan, mapping, bytes: minimum as usize })
    }

    /// The memory's declared type.
    pub fn ty(&self) -> &MemoryType {
        &self.ty
    }

    /// How its accesses are checked.
    pub fn plan(&self) -> MemoryPlan {
        self.plan
    }

    /// What compiled code needs to know. Changes with every successful [`grow`](Self::grow).
    pub fn head(&self) -> MemoryHead {
        MemoryHead { base: self.mapping.base(), bytes: self.bytes }
    }

    /// Current length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Current length in Wasm pages.
    pub fn pages(&self) -> u64 {
        self.bytes as u64 >> self.ty.page_size_log2
    }

    /// The length in bytes that growing by `delta` pages would give; `None` beyond the maximum. For limits to be asked
    /// before growing.
    pub fn bytes_after(&self, delta: u64) -> Option<usize> {
        let pages = self.pages().checked_add(delta)?;
        if pages > max_pages(&self.ty) {
            return None;
        }
        page_product(&self.ty, pages).map(|bytes| bytes as usize)
    }

    /// Grows by `delta` pages, zero-filled, and returns the former length in pages; `None`, unchanged, where the
    /// maximum, this implementation or the system forbids it.
    pub fn grow(&mut self, delta: u64) -> Option<u64> {
        let former = self.pages();
        let bytes = self.bytes_after(delta)?;
        if bytes > self.mapping.bytes() {
            self.relocate(bytes).ok()?;
        } else {
            self.mapping.make_writable(self.bytes..bytes).ok()?;
        }
        self.bytes = bytes;
        Some(former)
    }

    /// Has a memory that nobody has written to hold what it holds first, by the module. Returns whether it does: where
    /// the system has no mapping left, it holds zeros as before.
    ///
    /// # Errors
    /// If the system refuses memory. The memory is not to be used then.
    ///
    /// # Panics
    /// If the contents lie beyond its length.
    pub fn show(&mut self, image: &MemoryImage) -> Result<bool, Error> {
        assert!(image.start <= self.bytes && image.end <= self.bytes, "contents within the memory");
        self.mapping.show(image.start, &image.contents)
    }

    /// Moves a dynamic memory to a reservation of at least `bytes`, all of them accessible; twice the former one where
    /// possible. On failure it stays what and where it is.
    fn relocate(&mut self, bytes: usize) -> Result<(), Error> {
        debug_assert_eq!(self.plan, MemoryPlan::Dynamic, "a static memory never moves");
        let doubled = bytes.max(self.mapping.bytes().saturating_mul(2).min(MAX_BYTES as usize));
        let moved = self.mapping.relocate(self.bytes, bytes, doubled);
        moved.or_else(|_| self.mapping.relocate(self.bytes, bytes, bytes))
    }

    /// The contents.
    pub fn data(&self) -> &[u8] {
        // SAFETY: accessible up to the length; compiled code does not run while host code holds the borrow.
        unsafe { std::slice::from_raw_parts(self.mapping.base(), self.bytes) }
    }

    /// The contents, to be changed.
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.base(), self.bytes) }
    }
}

/// What memories hold first: made once, and shown by any number of them, which copy the pages that they write to.
#[derive(Debug)]
pub struct MemoryImage {
    contents: SharedContents,
    /// The first page's first byte.
    start: usize,
    /// The last byte that is not zero lies before.
    end: usize,
}

impl MemoryImage {
    /// The contents that segments leave in a memory of zeros, each an offset and bytes, one after the other. `None`
    /// where there is not a single byte.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub fn of<'a>(segments: impl Iterator<Item = (usize, &'a [u8])> + Clone) -> Result<Option<MemoryImage>, Error> {
        let filled = segments.filter(|(_, bytes)| !bytes.is_empty());
        let first = filled.clone().map(|(offset, _)| offset).min();
        let end = filled.clone().map(|(offset, bytes)| offset + bytes.len()).max();
        let (Some(first), Some(end)) = (first, end) else { return Ok(None) };
        let start = first / page_bytes() * page_bytes();
        let contents = SharedContents::zeros((end - start).next_multiple_of(page_bytes()))?;
        for (offset, bytes) in filled {
            contents.write(offset - start, bytes)?;
        }
        Ok(Some(MemoryImage { contents, start, end }))
    }
}

/// Refuses a type whose maximum is below its minimum. Modules are checked as a whole; a host's types are not.
pub(super) fn check_limits(what: &str, unit: &str, minimum: u64, maximum: Option<u64>) -> Result<(), Error> {
    match maximum {
        Some(maximum) if maximum < minimum => {
            Err(Error::Limit(format!("{what} of at least {minimum} {unit} and at most {maximum} cannot be")))
        }
        _ => Ok(()),
    }
}

/// The most pages a memory of this type may have.
fn max_pages(ty: &MemoryType) -> u64 {
    // All of a 32-bit address space; of a 64-bit one, its last page is out of reach of a 64-bit length.
    let addressable = if ty.memory64 { u64::MAX >> ty.page_size_log2 } else { (1u64 << 32) >> ty.page_size_log2 };
    ty.maximum.unwrap_or(addressable).min(addressable)
}

/// Bytes of so many pages; `None` beyond [`MAX_BYTES`].
fn page_product(ty: &MemoryType, pages: u64) -> Option<u64> {
    let bytes = (pages as u128) << ty.page_size_log2;
    (bytes <= MAX_BYTES as u128).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::refuse;

    const STATIC: MemoryType = MemoryType { memory64: false, minimum: 1, maximum: None, page_size_log2: 16 };
    const PAGE: usize = 1 << 16;

    #[test]
    fn a_static_memory_grows_in_place_up_to_its_maximum() {
        let mut memory =
            LinearMemory::new(MemoryType { maximum: Some(4), ..STATIC }, MemoryReservation::DEFAULT).unwrap();
        let base = memory.head().base;
        assert_eq!(memory.pages(), 1);
        memory.data_mut()[PAGE - 1] = 7;
        assert_eq!(memory.grow(2), Some(1));
        assert_eq!(memory.head().base, base);
        assert_eq!(memory.head().bytes, 3 * PAGE);
        assert_eq!(memory.data()[PAGE - 1], 7);
        assert!(memory.data()[PAGE..].iter().all(|&byte| byte == 0));
        assert_eq!(memory.grow(2), None);
        assert_eq!(memory.grow(u64::MAX), None);
        assert_eq!(memory.grow(0), Some(3));
        assert_eq!(memory.grow(1), Some(3));
    }

    #[test]
    fn a_memory_may_be_empty_and_may_be_whole() {
        let mut memory = LinearMemory::new(MemoryType { minimum: 0, ..STATIC }, MemoryReservation::DEFAULT).unwrap();
        assert_eq!(memory.data(), []);
        assert_eq!(memory.bytes_after(1 << 16), Some(1 << 32));
        assert_eq!(memory.bytes_after((1 << 16) + 1), None);
        assert_eq!(memory.grow(1 << 16), Some(0));
        memory.data_mut()[u32::MAX as usize] = 1;
    }

    #[test]
    fn a_memory_that_cannot_be_is_refused() {
        let new = |ty: MemoryType| LinearMemory::new(ty, MemoryReservation::DEFAULT);
        assert_eq!(new(MemoryType { minimum: 1 << 16, ..STATIC }).unwrap().bytes(), 1 << 32);
        // Just beyond its addresses, beyond what is reserved for them, and beyond every address.
        for minimum in [(1 << 16) + 1, 120_000, 1 << 33, u64::MAX] {
            let error = new(MemoryType { minimum, ..STATIC }).unwrap_err();
            assert_eq!(error.to_string(), format!("a memory of {minimum} pages at least is too large"));
        }
        let error = new(MemoryType { minimum: 5, maximum: Some(2), ..STATIC }).unwrap_err();
        assert_eq!(error.to_string(), "a memory of at least 5 pages and at most 2 cannot be");
    }

    #[test]
    fn a_dynamic_memory_moves_with_its_contents() {
        let ty = MemoryType { memory64: true, ..STATIC };
        let mut memory = LinearMemory::new(ty, MemoryReservation::DEFAULT).unwrap();
        assert_eq!(memory.plan(), MemoryPlan::Dynamic);
        memory.data_mut()[..4].copy_from_slice(b"keep");
        let beyond = DYNAMIC_RESERVATION >> 16;
        assert_eq!(memory.grow(3), Some(1));
        memory.data_mut()[4 * PAGE - 1] = 9;
        assert_eq!(memory.grow(beyond), Some(4));
        assert_eq!(&memory.data()[..4], b"keep");
        assert_eq!(memory.data()[4 * PAGE - 1], 9);
        let last = memory.bytes() - 1;
        memory.data_mut()[last] = 1;
        assert_eq!(memory.grow(1 << 40), None);
        assert!(LinearMemory::new(MemoryType { minimum: 1 << 40, ..ty }, MemoryReservation::DEFAULT).is_err());
    }

    #[test]
    fn a_memory_that_cannot_move_keeps_its_contents() {
        let beyond = DYNAMIC_RESERVATION >> 16;
        let mut grown = 0;
        // Every choice of calls that the system refuses, among as many as moving ever makes.
        for refused in 0..1 << 10 {
            let mut memory =
                LinearMemory::new(MemoryType { memory64: true, ..STATIC }, MemoryReservation::DEFAULT).unwrap();
            memory.data_mut()[..4].copy_from_slice(b"keep");
            memory.data_mut()[PAGE - 1] = 9;
            let base = memory.head().base;
            refuse(refused);
            let former = memory.grow(beyond);
            refuse(0);
            if former.is_none() {
                assert_eq!((memory.pages(), memory.head().base), (1, base), "{refused:b}");
            } else {
                grown += 1;
                assert_eq!((former, memory.pages()), (Some(1), beyond + 1), "{refused:b}");
                let last = memory.bytes() - 1;
                memory.data_mut()[last] = 1;
                assert_eq!(memory.data()[PAGE], 0);
            }
            assert_eq!(&memory.data()[..4], b"keep", "{refused:b}");
            assert_eq!(memory.data()[PAGE - 1], 9);
            assert_eq!(memory.grow(1), Some(memory.pages() - 1));
        }
        assert!((1..1 << 10).contains(&grown));
    }

    #[test]
    fn memories_that_show_the_same_do_not_share_what_is_written() {
        let bytes = vec![5; 3 * PAGE];
        let segments = [(PAGE + 100, &bytes[..]), (2 * PAGE, b"over"), (0, b"")];
        let image = MemoryImage::of(segments.into_iter()).unwrap().unwrap();
        assert!(MemoryImage::of([(7, &b""[..])].into_iter()).unwrap().is_none());
        let ty = MemoryType { minimum: 5, memory64: true, ..STATIC };
        let expected = |memory: &LinearMemory| {
            let mut expected = vec![0; 5 * PAGE];
            expected[PAGE + 100..4 * PAGE + 100].fill(5);
            expected[2 * PAGE..2 * PAGE + 4].copy_from_slice(b"over");
            memory.data()[..5 * PAGE] == expected
        };
        let make = || LinearMemory::new(ty, MemoryReservation::DEFAULT).unwrap();
        let [mut one, mut other] = [(); 2].map(|()| make());
        assert!(one.show(&image).unwrap() && other.show(&image).unwrap());
        one.data_mut().fill(1);
        assert!(expected(&other));
        // In place, and where it has to move.
        for pages in [2, DYNAMIC_RESERVATION >> 16] {
            other.grow(pages).unwrap();
            assert!(expected(&other) && other.data()[5 * PAGE] == 0);
        }
        let last = other.bytes() - 1;
        other.data_mut()[last] = 1;
        // A system that refuses: nothing has changed, or there is an error.
        let mut refused = make();
        refuse(1);
        assert!(!refused.show(&image).unwrap());
        assert!(refused.data().iter().all(|&byte| byte == 0));
        refuse(2);
        assert!(refused.show(&image).is_err());
        refuse(0);
        assert!(refused.show(&image).unwrap() && expected(&refused));
    }

    #[test]
    fn pages_of_one_byte_count_bytes() {
        let ty = MemoryType { minimum: 3, maximum: Some(5000), page_size_log2: 0, memory64: false };
        let mut memory = LinearMemory::new(ty, MemoryReservation::DEFAULT).unwrap();
        assert_eq!(memory.bytes(), 3);
        assert_eq!(memory.grow(4997), Some(3));
        assert_eq!(memory.grow(1), None);
        assert_eq!(memory.data().len(), 5000);
    }

    #[test]
    fn a_checked_memory_reserves_what_it_is_told_to() {
        let small = MemoryReservation::of(2 << 16);
        let mut memory = LinearMemory::new(MemoryType { maximum: Some(9), ..STATIC }, small).unwrap();
        assert_eq!((memory.plan(), memory.mapping.bytes()), (MemoryPlan::Dynamic, 2 * PAGE));
        memory.data_mut()[3] = 3;
        assert_eq!((memory.grow(8), memory.grow(1)), (Some(1), None));
        assert_eq!((memory.data()[3], memory.bytes()), (3, 9 * PAGE));
        assert!(MemoryReservation::of(6 << 30).is_checked() && !MemoryReservation::of(7 << 30).is_checked());
    }

    #[test]
    fn what_nobody_has_set_fits_the_address_space() {
        let (default, mib) = (MemoryReservation::DEFAULT, 1 << 20);
        let space = |left| Some(AddressSpace { limit_bytes: left + mib, used_bytes: mib });
        assert_eq!((default.within(None), default.within(space(25 << 30))), (default, default));
        for left in [23 << 30, 100 * mib, 0] {
            let less = default.within(space(left));
            assert!(less.is_checked() && !less.is_set());
            assert_eq!(less.of_dynamic(space(left)), (left / 8).min(DYNAMIC_RESERVATION));
            assert_eq!((less.of_dynamic(None), default.of_dynamic(None)), (DYNAMIC_RESERVATION, DYNAMIC_RESERVATION));
            for bytes in [0, 3 * mib, 7 << 30] {
                let set = MemoryReservation::of(bytes);
                assert_eq!(set.within(space(left)), set);
                assert_eq!(set.of_dynamic(space(left)), bytes.min(DYNAMIC_RESERVATION));
            }
        }
    }
}
