//! The storage of tables: 32-bit references.

use std::cell::Cell;

use legato_compiler::abi::{TABLE_CARD_LOG2, TableHead};
use legato_compiler::module::TableType;
use legato_heap::{Budget, Done, Heap, Reference, RootCursor, RootVisitor};

use crate::vm::Error;
use crate::vm::memory::check_limits;

/// No table grows beyond this many elements.
pub const MAX_TABLE_ELEMENTS: u64 = 1 << 28;

/// Cards in a word of [`TableStorage::cards`].
const CARDS_IN_WORD: usize = 8;
/// Elements that such a word stands for.
const ELEMENTS_IN_WORD: usize = CARDS_IN_WORD << TABLE_CARD_LOG2;

/// Who is told of references before a table overwrites or drops them.
pub trait RootBarrier {
    /// Each of these references is about to be overwritten.
    fn before_store(&mut self, overwritten: impl Iterator<Item = Reference>);

    /// The reference that the object of one that is stored has now.
    fn current(&self, stored: Reference) -> Reference;

    /// Whether that may be another one.
    fn has_old_copies(&self) -> bool {
        false
    }
}

impl RootBarrier for Heap {
    #[inline]
    fn before_store(&mut self, overwritten: impl Iterator<Item = Reference>) {
        self.before_root_store(overwritten);
    }

    #[inline]
    fn current(&self, stored: Reference) -> Reference {
        Heap::current(self, stored)
    }

    #[inline]
    fn has_old_copies(&self) -> bool {
        Heap::has_old_copies(self)
    }
}

/// The elements of a table.
///
/// Compiled code writes them by the address in the [`TableHead`]; so they are cells here. Large tables are not looked
/// through at each nursery collection: a *card* says whether a group of elements has been written since the last one,
/// or still holds young references.
#[derive(Debug)]
pub struct TableStorage {
    ty: TableType,
    /// Whether the elements are references that the collector traces.
    traced: bool,
    elements: Vec<Cell<u32>>,
    /// A byte for each card, in words of 8 that lie in memory one behind the other: not 0 where the card is dirty.
    cards: Vec<Cell<u64>>,
}

impl TableStorage {
    /// A table of the type's minimum length, every element `init`. `traced`: the collector traces the elements.
    ///
    /// # Errors
    /// If the minimum is beyond the maximum or [`MAX_TABLE_ELEMENTS`], or memory is out.
    pub fn new(ty: TableType, init: u32, traced: bool) -> Result<TableStorage, Error> {
        let minimum = ty.minimum;
        check_limits("a table", "elements", minimum, ty.maximum)?;
        let empty = TableType { minimum: 0, ..ty };
        let mut table = TableStorage { ty: empty, traced, elements: Vec::new(), cards: Vec::new() };
        let too_large = || Error::Limit(format!("a table of {minimum} elements at least is too large"));
        table.grow(minimum, init).ok_or_else(too_large)?;
        table.ty = ty;
        Ok(table)
    }

    /// The table's declared type.
    pub fn ty(&self) -> &TableType {
        &self.ty
    }

    /// Whether the elements are references that the collector traces.
    pub fn is_traced(&self) -> bool {
        self.traced
    }

    /// What compiled code needs to know. Changes with every successful [`grow`](Self::grow).
    pub fn head(&self) -> TableHead {
        TableHead {
            base: self.elements.as_ptr() as *mut u32,
            length: self.elements.len(),
            cards: self.cards.as_ptr() as *mut u8,
        }
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

    /// Grows by `delta` elements, each `init`, and returns the former length; `None`, unchanged, where the maximum,
    /// this implementation or memory forbids it.
    pub fn grow(&mut self, delta: u64, init: u32) -> Option<u64> {
        let former = self.length();
        let length = self.reserve(delta)?;
        self.elements.resize(length, Cell::new(init));
        self.cards.resize(length.div_ceil(ELEMENTS_IN_WORD), Cell::new(0));
        self.mark_cards(former as usize, length);
        Some(former)
    }

    /// Takes the memory for growing by `delta`, and returns the length after that; `None` as for [`grow`](Self::grow).
    pub fn reserve(&mut self, delta: u64) -> Option<usize> {
        let length = self.length_after(delta)? as usize;
        // Growth by single elements must not copy the table each time.
        let amortised = self.elements.try_reserve(length - self.elements.len());
        amortised.or_else(|_| self.elements.try_reserve_exact(length - self.elements.len())).ok()?;
        self.cards.try_reserve(length.div_ceil(ELEMENTS_IN_WORD) - self.cards.len()).ok()?;
        Some(length)
    }

    /// Takes a growth back: the table has `length` elements again.
    pub fn shrink(&mut self, length: u64, barrier: &mut impl RootBarrier) {
        self.tell(&self.elements[length as usize..], barrier);
        self.elements.truncate(length as usize);
        self.cards.truncate((length as usize).div_ceil(ELEMENTS_IN_WORD));
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
    pub fn set(&self, index: u64, reference: u32, barrier: &mut impl RootBarrier) -> Option<()> {
        self.fill(index, 1, reference, barrier)
    }

    /// Sets elements from `start` on; `None`, unchanged, where some would lie beyond the end.
    pub fn write(&self, start: u64, references: &[Reference], barrier: &mut impl RootBarrier) -> Option<()> {
        self.overwrite(start, references.len() as u64, barrier, |elements| {
            elements.iter().zip(references).for_each(|(element, reference)| element.set(reference.0));
        })
    }

    /// Whether there are `length` elements from `start` on; `None` where not.
    pub fn holds(&self, start: u64, length: u64) -> Option<()> {
        self.range(start, length).map(|_| ())
    }

    /// The `length` elements from `start`; `None` where some lie beyond the end.
    fn range(&self, start: u64, length: u64) -> Option<&[Cell<u32>]> {
        let end = start.checked_add(length).filter(|&end| end <= self.length())?;
        Some(&self.elements[start as usize..end as usize])
    }

    /// The one way to write elements that have been written before: lets `write` write `length` of them from `start`
    /// on; `None`, unchanged, where some lie beyond the end.
    fn overwrite(
        &self,
        start: u64,
        length: u64,
        barrier: &mut impl RootBarrier,
        write: impl FnOnce(&[Cell<u32>]),
    ) -> Option<()> {
        let elements = self.range(start, length)?;
        self.tell(elements, barrier);
        write(elements);
        if self.traced && barrier.has_old_copies() {
            elements.iter().for_each(|element| element.set(barrier.current(Reference(element.get())).0));
        }
        self.mark_cards(start as usize, (start + length) as usize);
        Some(())
    }

    /// Tells the barrier of elements that are about to be overwritten.
    fn tell(&self, elements: &[Cell<u32>], barrier: &mut impl RootBarrier) {
        if self.traced {
            barrier.before_store(elements.iter().map(|element| Reference(element.get())));
        }
    }

    /// Marks the cards of the elements from `start` up to `end`.
    fn mark_cards(&self, start: usize, end: usize) {
        if start == end {
            return;
        }
        for card in start >> TABLE_CARD_LOG2..=(end - 1) >> TABLE_CARD_LOG2 {
            let word = &self.cards[card / CARDS_IN_WORD];
            let mut cards = word.get().to_ne_bytes();
            cards[card % CARDS_IN_WORD] = 1;
            word.set(u64::from_ne_bytes(cards));
        }
    }

    /// Sets `length` elements from `start`; `None`, unchanged, where some lie beyond the end.
    pub fn fill(&self, start: u64, length: u64, reference: u32, barrier: &mut impl RootBarrier) -> Option<()> {
        self.overwrite(start, length, barrier, |elements| elements.iter().for_each(|element| element.set(reference)))
    }

    /// Copies `length` elements of `source` (possibly this very table, overlapping) from `from` to `start`; `None`,
    /// unchanged, where some lie beyond either end.
    pub fn copy_from(
        &self,
        start: u64,
        source: &TableStorage,
        from: u64,
        length: u64,
        barrier: &mut impl RootBarrier,
    ) -> Option<()> {
        let from = source.range(from, length)?;
        self.overwrite(start, length, barrier, |to| {
            if to.as_ptr() <= from.as_ptr() {
                to.iter().zip(from).for_each(|(to, from)| to.set(from.get()));
            } else {
                to.iter().zip(from).rev().for_each(|(to, from)| to.set(from.get()));
            }
        })
    }

    /// Visits the elements from the cursor's index on, where they are traced.
    pub fn visit_roots(&self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        if !self.traced {
            return Done::Yes;
        }
        cursor.advance(self.elements.len(), budget, |range| {
            visit(&self.elements[range], visitor);
        })
    }

    /// Visits the elements that have been written since the last visit by this method, or were young then, where they
    /// are traced.
    pub fn visit_young_roots(&self, visitor: &mut dyn RootVisitor) {
        if !self.traced {
            return;
        }
        for (word, elements) in self.cards.iter().zip(self.elements.chunks(ELEMENTS_IN_WORD)) {
            if word.get() == 0 {
                continue;
            }
            let mut cards = word.get().to_ne_bytes();
            for (card, elements) in cards.iter_mut().zip(elements.chunks(1 << TABLE_CARD_LOG2)) {
                *card = u8::from(*card != 0 && visit(elements, visitor));
            }
            word.set(u64::from_ne_bytes(cards));
        }
    }
}

/// Visits elements; returns whether one of them still leads to a young object.
fn visit(elements: &[Cell<u32>], visitor: &mut dyn RootVisitor) -> bool {
    let mut is_young = false;
    for element in elements {
        let mut root = Reference(element.get());
        is_young |= visitor.visit(&mut root);
        element.set(root.0);
    }
    is_young
}

#[cfg(test)]
mod tests {
    use super::*;
    use legato_compiler::module::{HeapType, RefType};

    fn ty(minimum: u64, maximum: Option<u64>) -> TableType {
        let element = RefType { nullable: true, heap: HeapType::Func };
        TableType { table64: false, element, minimum, maximum }
    }

    /// Takes down what is overwritten.
    #[derive(Default)]
    struct Told(Vec<u32>);

    impl RootBarrier for Told {
        fn before_store(&mut self, overwritten: impl Iterator<Item = Reference>) {
            self.0.extend(overwritten.map(|reference| reference.0));
        }

        fn current(&self, stored: Reference) -> Reference {
            stored
        }
    }

    fn contents(table: &TableStorage) -> Vec<u32> {
        table.elements().iter().map(Cell::get).collect()
    }

    #[test]
    fn tables_grow_up_to_their_maximum() {
        let error = TableStorage::new(ty(5, Some(2)), 8, true).unwrap_err();
        assert_eq!(error.to_string(), "a table of at least 5 elements and at most 2 cannot be");
        let mut table = TableStorage::new(ty(2, Some(4)), 8, true).unwrap();
        assert_eq!(table.head().length, 2);
        assert_eq!(table.grow(2, 16), Some(2));
        assert_eq!(table.grow(1, 0), None);
        assert_eq!(table.grow(u64::MAX, 0), None);
        assert_eq!(contents(&table), [8, 8, 16, 16]);
        assert!(TableStorage::new(ty(u32::MAX as u64, None), 0, true).is_err());
        assert_eq!(TableStorage::new(ty(1, None), 0, true).unwrap().grow(0xffff_fff0, 0), None);
    }

    #[test]
    fn copies_overlap_rightly_and_stay_within_bounds() {
        let table = TableStorage::new(ty(5, None), 0, true).unwrap();
        let told = &mut Told::default();
        (0..5).for_each(|i| table.set(i, i as u32 * 8, told).unwrap());
        table.copy_from(1, &table, 0, 4, told).unwrap();
        assert_eq!(contents(&table), [0, 0, 8, 16, 24]);
        table.copy_from(0, &table, 2, 3, told).unwrap();
        assert_eq!(contents(&table), [8, 16, 24, 16, 24]);
        assert_eq!(table.copy_from(3, &table, 0, 3, told), None);
        assert_eq!(table.copy_from(5, &table, 5, 0, told), Some(()));
        assert_eq!(table.fill(u64::MAX, 2, 0, told), None);
        table.fill(0, 5, 8, told).unwrap();
        assert_eq!(contents(&table), [8; 5]);
        // What compiled code writes through the head is seen.
        // SAFETY: the element exists.
        unsafe { *table.head().base.add(4) = 40 };
        assert_eq!(table.get(4), Some(40));
        assert_eq!(table.get(5), None);
    }

    #[test]
    fn what_is_overwritten_is_told_before() {
        let told = &mut Told::default();
        let taken = |told: &mut Told| std::mem::take(&mut told.0);
        let mut table = TableStorage::new(ty(4, None), 8, true).unwrap();
        table.set(1, 16, told).unwrap();
        assert_eq!(taken(told), [8]);
        table.write(0, &[Reference(24), Reference(32)], told).unwrap();
        assert_eq!(taken(told), [8, 16]);
        // The copy overlaps: what is told is what was there before all of it.
        table.copy_from(1, &table, 0, 3, told).unwrap();
        assert_eq!(taken(told), [32, 8, 8]);
        table.fill(2, 2, 0, told).unwrap();
        assert_eq!(taken(told), [32, 8]);
        table.grow(3, 40).unwrap();
        table.shrink(5, told);
        assert_eq!(taken(told), [40, 40]);
        assert_eq!(table.fill(4, 2, 8, told), None);
        assert_eq!(taken(told), []);
        // References to functions are none that a collector traces.
        let table = TableStorage::new(ty(2, None), 8, false).unwrap();
        table.set(1, 16, told).unwrap();
        assert_eq!(taken(told), []);
    }

    /// Takes the references up to a bound for young ones, and counts what it visits.
    struct YoungBelow(u32, Vec<u32>);

    impl RootVisitor for YoungBelow {
        fn visit(&mut self, slot: &mut Reference) -> bool {
            self.1.push(slot.0);
            slot.0 < self.0
        }
    }

    #[test]
    fn what_has_not_been_written_is_not_visited_again() {
        let visited = |table: &TableStorage, young_below: u32| {
            let mut visitor = YoungBelow(young_below, Vec::new());
            table.visit_young_roots(&mut visitor);
            visitor.1
        };
        let card = 1 << TABLE_CARD_LOG2;
        let mut table = TableStorage::new(ty(20 * card, None), 8, true).unwrap();
        assert_eq!(visited(&table, 0).len() as u64, 20 * card, "a new table has been written");
        assert_eq!(visited(&table, 0), []);
        let told = &mut Told::default();
        table.set(3 * card + 5, 16, told).unwrap();
        table.fill(9 * card - 1, 2, 24, told).unwrap();
        table.copy_from(15 * card, &table, 3 * card, 6, told).unwrap();
        table.fill(19 * card, 0, 1, told).unwrap();
        assert_eq!(visited(&table, 0).len() as u64, 4 * card);
        // A young reference is visited until it is old.
        table.set(0, 2, told).unwrap();
        for _ in 0..3 {
            assert_eq!(visited(&table, 4).len() as u64, card);
        }
        assert_eq!(visited(&table, 0).len() as u64, card);
        table.grow(card / 2, 32).unwrap();
        assert_eq!(visited(&table, 0).len() as u64, card / 2);
        // What compiled code marks through the head.
        // SAFETY: element and card exist.
        unsafe {
            *table.head().base.add(7 * card as usize) = 40;
            *table.head().cards.add(7) = 1;
        }
        assert_eq!(visited(&table, 0)[0], 40);
        assert_eq!(visited(&table, 0), []);
    }
}
