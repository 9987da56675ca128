//! The storage of tables: 32-bit references.

use std::cell::Cell;

use legato_compiler::abi::TableHead;
use legato_compiler::module::TableType;
use legato_heap::{Reference, RootVisitor};

use crate::vm::Error;

/// No table grows beyond this many elements.
pub const MAX_TABLE_ELEMENTS: u64 = 1 << 28;

/// The elements of a table.
///
/// Compiled code writes them by the address in the [`TableHead`]; so they are cells here.
#[derive(Debug)]
pub struct TableStorage {
    ty: TableType,
    elements: Vec<Cell<u32>>,
}

impl TableStorage {
    /// A table of the type's minimum length, every element `init`.
    ///
    /// # Errors
    /// If the minimum is beyond [`MAX_TABLE_ELEMENTS`], or memory is out.
    pub fn new(ty: TableType, init: u32) -> Result<TableStorage, Error> {
        let minimum = ty.minimum;
        let mut table = TableStorage { ty: TableType { minimum: 0, ..ty }, elements: Vec::new() };
        let too_large = || Error::Limit(format!("a table of {minimum} elements at least is too large"));
        table.grow(minimum, init).ok_or_else(too_large)?;
        table.ty = ty;
        Ok(table)
    }

    /// The table's declared type.
    pub fn ty(&self) -> &TableType {
        &self.ty
    }

    /// What compiled code needs to know. Changes with every successful [`grow`](Self::grow).
    pub fn head(&self) -> TableHead {
        TableHead { base: self.elements.as_ptr() as *mut u32, length: self.elements.len() }
    }

    /// Current length in elements.
    pub fn length(&self) -> u64 {
        self.elements.len() as u64
    }

    /// The length that growing by `delta` would give; `None` beyond the maximum.
    pub fn length_after(&self, delta: u64) -> Option<u64> {
        let length = self.length().checked_add(delta)?;
        (length <= self.ty.maximum.unwrap_or(u64::MAX).min(MAX_TABLE_ELEMENTS)).then_some(length)
    }

    /// Grows by `delta` elements, each `init`, and returns the former length; `None`, unchanged, where the maximum, this
    /// implementation or memory forbids it.
    pub fn grow(&mut self, delta: u64, init: u32) -> Option<u64> {
        let former = self.length();
        let length = self.reserve(delta)?;
        self.elements.resize(length, Cell::new(init));
        Some(former)
    }

    /// Takes the memory for growing by `delta`, and returns the length after that; `None` as for [`grow`](Self::grow).
    pub fn reserve(&mut self, delta: u64) -> Option<usize> {
        let length = self.length_after(delta)? as usize;
        // Growth by single elements must not copy the table each time.
        let amortised = self.elements.try_reserve(length - self.elements.len());
        amortised.or_else(|_| self.elements.try_reserve_exact(length - self.elements.len())).ok()?;
        Some(length)
    }

    /// Takes a growth back: the table has `length` elements again.
    pub fn shrink(&mut self, length: u64) {
        self.elements.truncate(length as usize);
    }

    /// The elements.
    pub fn elements(&self) -> &[Cell<u32>] {
        &self.elements
    }

    /// The element at `index`; `None` beyond the end.
    pub fn get(&self, index: u64) -> Option<u32> {
        self.elements.get(usize::try_from(index).ok()?).map(Cell::get)
    }

    /// Sets the element at `index`; `None` beyond the end.
    pub fn set(&self, index: u64, reference: u32) -> Option<()> {
        self.elements.get(usize::try_from(index).ok()?).map(|element| element.set(reference))
    }

    /// The `length` elements from `start`; `None` where some lie beyond the end.
    pub fn range(&self, start: u64, length: u64) -> Option<&[Cell<u32>]> {
        let end = start.checked_add(length).filter(|&end| end <= self.length())?;
        Some(&self.elements[start as usize..end as usize])
    }

    /// Sets `length` elements from `start`; `None`, unchanged, where some lie beyond the end.
    pub fn fill(&self, start: u64, length: u64, reference: u32) -> Option<()> {
        self.range(start, length)?.iter().for_each(|element| element.set(reference));
        Some(())
    }

    /// Copies `length` elements of `source` (possibly this very table, overlapping) from `from` to `start`; `None`,
    /// unchanged, where some lie beyond either end.
    pub fn copy_from(&self, start: u64, source: &TableStorage, from: u64, length: u64) -> Option<()> {
        let (to, from) = (self.range(start, length)?, source.range(from, length)?);
        if to.as_ptr() <= from.as_ptr() {
            to.iter().zip(from).for_each(|(to, from)| to.set(from.get()));
        } else {
            to.iter().zip(from).rev().for_each(|(to, from)| to.set(from.get()));
        }
        Some(())
    }

    /// Visits every element.
    pub fn visit_roots(&self, visitor: &mut dyn RootVisitor) {
        for element in &self.elements {
            let mut root = Reference(element.get());
            visitor.visit(&mut root);
            element.set(root.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legato_compiler::module::{HeapType, RefType};

    fn ty(minimum: u64, maximum: Option<u64>) -> TableType {
        let element = RefType { nullable: true, heap: HeapType::Func };
        TableType { table64: false, element, minimum, maximum }
    }

    fn contents(table: &TableStorage) -> Vec<u32> {
        table.elements().iter().map(Cell::get).collect()
    }

    #[test]
    fn tables_grow_up_to_their_maximum() {
        let mut table = TableStorage::new(ty(2, Some(4)), 8).unwrap();
        assert_eq!(table.head().length, 2);
        assert_eq!(table.grow(2, 16), Some(2));
        assert_eq!(table.grow(1, 0), None);
        assert_eq!(table.grow(u64::MAX, 0), None);
        assert_eq!(contents(&table), [8, 8, 16, 16]);
        assert!(TableStorage::new(ty(u32::MAX as u64, None), 0).is_err());
        assert_eq!(TableStorage::new(ty(1, None), 0).unwrap().grow(0xffff_fff0, 0), None);
    }

    #[test]
    fn copies_overlap_rightly_and_stay_within_bounds() {
        let table = TableStorage::new(ty(5, None), 0).unwrap();
        (0..5).for_each(|i| table.set(i, i as u32 * 8).unwrap());
        table.copy_from(1, &table, 0, 4).unwrap();
        assert_eq!(contents(&table), [0, 0, 8, 16, 24]);
        table.copy_from(0, &table, 2, 3).unwrap();
        assert_eq!(contents(&table), [8, 16, 24, 16, 24]);
        assert_eq!(table.copy_from(3, &table, 0, 3), None);
        assert_eq!(table.copy_from(5, &table, 5, 0), Some(()));
        assert_eq!(table.fill(u64::MAX, 2, 0), None);
        table.fill(0, 5, 8).unwrap();
        assert_eq!(contents(&table), [8; 5]);
        // What compiled code writes through the head is seen.
        // SAFETY: the element exists.
        unsafe { *table.head().base.add(4) = 40 };
        assert_eq!(table.get(4), Some(40));
        assert_eq!(table.get(5), None);
    }
}
