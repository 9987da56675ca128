//! The records of a store's functions: what references to functions are offsets into.

use anyhow::{Context, Result};
use legato_compiler::abi::{FuncRef, NO_FUNC_TYPE};

/// Bytes of a record.
const BYTES: u32 = size_of::<FuncRef>() as u32;

/// See the module's documentation. Records stay as long as the store, and never change once they are written.
#[derive(Debug)]
pub(crate) struct FuncTable {
    records: Vec<FuncRef>,
}

// SAFETY: the addresses in the records lead to what the store owns, or keeps alive; every use of them goes through a
// borrow of the store.
unsafe impl Send for FuncTable {}
// SAFETY: as above; a shared borrow only reads them.
unsafe impl Sync for FuncTable {}

impl FuncTable {
    /// A table that holds null's record alone.
    pub(crate) fn new() -> FuncTable {
        FuncTable { records: vec![FuncTable::empty()] }
    }

    /// A record of no function.
    fn empty() -> FuncRef {
        let code = std::ptr::null();
        FuncRef { code, context: std::ptr::null_mut(), type_id: NO_FUNC_TYPE, number: 0, data: 0 }
    }

    /// The address that compiled code knows. It may change when records are added.
    pub(crate) fn base(&self) -> *const FuncRef {
        self.records.as_ptr()
    }

    /// Adds so many records, of no function yet; returns the offset of the first.
    ///
    /// # Errors
    /// If offsets of 32 bits reach no further, or the system has no memory.
    pub(crate) fn add(&mut self, count: u32) -> Result<u32> {
        let first = self.records.len();
        let end = first as u64 + u64::from(count);
        u32::try_from(end * u64::from(BYTES)).ok().context("a store has too many functions")?;
        self.records.try_reserve(count as usize).context("no memory for the records of a store's functions")?;
        self.records.resize(end as usize, FuncTable::empty());
        Ok(first as u32 * BYTES)
    }

    /// Writes the record at an offset, which has been added and not been written yet.
    pub(crate) fn set(&mut self, offset: u32, record: FuncRef) {
        self.records[(offset / BYTES) as usize] = record;
    }

    /// The record at the offset that a reference is.
    ///
    /// # Panics
    /// If the offset is null, or beyond the records.
    pub(crate) fn get(&self, offset: u32) -> &FuncRef {
        assert!(offset != 0, "a null function reference has no record");
        &self.records[(offset / BYTES) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_has_a_record_of_no_type() {
        let mut table = FuncTable::new();
        // SAFETY: the first record is null's.
        assert_eq!(unsafe { (*table.base()).type_id }, NO_FUNC_TYPE);
        let first = table.add(3).unwrap();
        assert_eq!((first, table.add(0).unwrap()), (BYTES, 4 * BYTES));
        table.set(first + BYTES, FuncRef { type_id: 8, ..FuncTable::empty() });
        assert_eq!([0, 1, 2].map(|n| table.get(first + n * BYTES).type_id), [NO_FUNC_TYPE, 8, NO_FUNC_TYPE]);
    }

    #[test]
    fn there_are_no_more_records_than_offsets_reach() {
        let mut table = FuncTable::new();
        let error = table.add(u32::MAX / BYTES).unwrap_err();
        assert_eq!(error.to_string(), "a store has too many functions");
        assert_eq!(table.add(1).unwrap(), BYTES);
    }
}
