//! Steps with arrays, tables and segments.

use super::body::Body;
use super::names::*;
use super::types::{Array, Field, Kind};
use wasm_encoder::{BlockType, Instruction as I, ValType};

impl Body<'_> {
    /// Works on a range of an array, between whose making, operands and reading there may be collections.
    pub fn bulk_array(&mut self) {
        let array = self.one_of(&Array::ALL);
        let kind = Kind::Array(array);
        let local = self.local_of(kind);
        let length = if self.chance(50) {
            let length = self.length(array);
            self.make_array(array, length, 1);
            length
        } else {
            self.value(kind, false, 1);
            self.types.least(array)
        };
        if self.chance(50) {
            self.emit(I::LocalSet(local));
            self.safepoint();
            self.emit_all([I::LocalGet(local), I::RefAsNonNull]);
        } else {
            self.emit(I::LocalTee(local));
        }
        let changed = self.bulk_operation(array, length, local);
        if self.chance(40) {
            self.safepoint();
        }
        // What was written must be found in the object that everything else refers to.
        self.emit(I::LocalGet(local));
        if let Some(changed) = changed.filter(|_| self.chance(70)) {
            self.emit(I::RefAsNonNull);
            self.amount(changed);
            self.array_get(array.index(), array.element());
            self.fold_field(array.element(), 1);
        } else {
            self.fold(kind, 1);
        }
    }

    /// Takes the array from the stack. Gives back the index of an element that changed.
    fn bulk_operation(&mut self, array: Array, length: u32, local: u32) -> Option<u32> {
        let type_index = array.index();
        let element = array.element();
        let operation = self.below(4);
        let most = match (operation, element) {
            (0 | 1, _) => length,
            (_, Field::Ref(..)) => length.min(SEGMENT_ELEMENTS),
            _ => length.min(DATA_BYTES / element.bytes()),
        };
        let (start, count) = self.range(length, most);
        self.amount(start);
        match (operation, element) {
            (0, _) => {
                self.field_value(element, 2);
                self.amount(count);
                self.emit(I::ArrayFill(type_index));
            }
            (1, _) => {
                let available = if self.chance(30) {
                    self.emit_all([I::LocalGet(local), I::RefAsNonNull]);
                    length
                } else if length > self.types.least(array) && self.chance(70) {
                    self.make_array(array, length, 1);
                    length
                } else {
                    self.value(Kind::Array(array), false, 1);
                    self.types.least(array)
                };
                let count = count.min(available);
                let from = self.below((available - count + 1) as usize) as u32;
                self.amount(from);
                self.amount(count);
                self.emit(I::ArrayCopy { array_type_index_dst: type_index, array_type_index_src: type_index });
                return (count > 0).then_some(start);
            }
            (_, Field::Ref(kind, _)) => {
                let from = self.below((SEGMENT_ELEMENTS - count + 1) as usize) as u32;
                self.amount(from);
                self.amount(count);
                let array_elem_index = segment(kind).expect("every kind of element has its segment");
                self.emit(I::ArrayInitElem { array_type_index: type_index, array_elem_index });
            }
            _ => {
                let from = self.below((DATA_BYTES - count * element.bytes() + 1) as usize) as u32;
                self.amount(from);
                self.amount(count);
                self.emit(I::ArrayInitData { array_type_index: type_index, array_data_index: 0 });
            }
        }
        (count > 0).then(|| start + count - 1)
    }

    /// A start and a count within `length`, the count at most `most`.
    fn range(&mut self, length: u32, most: u32) -> (u32, u32) {
        let count = match self.below(4) {
            0 => most,
            _ => self.below(most as usize + 1) as u32,
        };
        let start = self.below((length - count + 1) as usize) as u32;
        (start, count)
    }

    /// Writes an element.
    pub fn set_element(&mut self) {
        let array = self.one_of(&Array::ALL);
        self.value(Kind::Array(array), false, 2);
        self.index(array);
        self.field_value(array.element(), 2);
        self.emit(I::ArraySet(array.index()));
    }

    /// Stores one reference, mostly to a new object, in every element of an array, mostly an old one: as many entries
    /// for what remembers such stores.
    pub fn scatter(&mut self) {
        let array = self.one_of(&[Array::Nodes, Array::Leaves, Array::Anys, Array::Externs]);
        let Field::Ref(kind, _) = array.element() else { return };
        let (target, value) = (self.local_of(Kind::Array(array)), self.local_of(kind));
        let index = self.local(ValType::I32);
        if self.chance(15) {
            let length = 1000 + self.below(12_000) as u32;
            self.make_array(array, length, 1);
            self.emit(I::LocalSet(target));
            self.emit(I::Call(GC));
        } else {
            self.value(Kind::Array(array), false, 1);
            self.emit(I::LocalSet(target));
        }
        self.make(kind, 1);
        self.emit_all([I::LocalSet(value), I::LocalGet(target), I::ArrayLen, I::LocalSet(index)]);
        self.emit(I::Loop(BlockType::Empty));
        self.emit_all([I::LocalGet(index), I::I32Const(1), I::I32Sub, I::LocalSet(index)]);
        self.emit_all([I::LocalGet(target), I::LocalGet(index), I::LocalGet(value)]);
        if !array.element().is_defaultable() {
            self.emit(I::RefAsNonNull);
        }
        self.emit_all([I::ArraySet(array.index()), I::LocalGet(index), I::BrIf(0), I::End]);
        self.safepoint();
        self.emit(I::LocalGet(target));
        self.fold(Kind::Array(array), 2);
    }

    /// Writes a field.
    pub fn set_field(&mut self) {
        let kind = self.one_of(&[Kind::Base, Kind::Derived, Kind::Last, Kind::Leaf]);
        let fields = self.types.fields(kind);
        let index = self.below(fields.len());
        self.value(kind, false, 2);
        self.field_value(fields[index], 2);
        self.emit(I::StructSet { struct_type_index: kind.index(), field_index: index as u32 });
    }

    /// Does something with a table of references.
    pub fn table(&mut self) {
        let table = 1 + self.below(TABLES.len()) as u32;
        let (kind, nullable) = TABLES[table as usize - 1];
        let element = self.below(TABLE_ELEMENTS as usize) as u32;
        match self.below(9) {
            0 | 1 => {
                self.amount(element);
                self.emit(I::TableGet(table));
                self.take(Field::Ref(kind, nullable));
            }
            2..=4 => {
                self.amount(element);
                self.value(kind, nullable, 2);
                self.emit(I::TableSet(table));
            }
            5 => {
                self.value(kind, nullable, 2);
                let more = self.below(4) as u32;
                self.amount(more);
                self.emit(I::TableGrow(table));
                self.fold_i32();
                self.emit(I::TableSize(table));
                self.fold_i32();
            }
            6 => {
                let (start, count) = self.range(TABLE_ELEMENTS, TABLE_ELEMENTS);
                self.amount(start);
                self.value(kind, nullable, 2);
                self.amount(count);
                self.emit(I::TableFill(table));
            }
            7 => {
                let sources: Vec<u32> =
                    (1..).zip(TABLES).filter(|(_, other)| other.0.is_below(kind)).map(|s| s.0).collect();
                let src_table = self.one_of(&sources);
                let (start, count) = self.range(TABLE_ELEMENTS, TABLE_ELEMENTS);
                let from = self.below((TABLE_ELEMENTS - count + 1) as usize) as u32;
                self.amount(start);
                self.amount(from);
                self.amount(count);
                // Every table but that of leaves may hold null.
                self.emit(I::TableCopy { src_table, dst_table: table });
            }
            _ => {
                let Some(elem_index) = segment(kind) else { return };
                let (start, count) = self.range(TABLE_ELEMENTS, TABLE_ELEMENTS);
                let from = self.below((SEGMENT_ELEMENTS - count + 1) as usize) as u32;
                self.amount(start);
                self.amount(from);
                self.amount(count);
                self.emit(I::TableInit { elem_index, table });
            }
        }
    }

    /// Uses a segment that may have been dropped, so that it traps the second time, or drops it.
    pub fn droppable_segment(&mut self) {
        let array = Array::Nodes;
        match self.below(8) {
            0 => self.emit(I::ElemDrop(DROPPED_SEGMENT)),
            1 => self.emit(I::DataDrop(DROPPED_DATA)),
            operation => {
                let count = if self.chance(80) { 0 } else { 3 };
                let type_index = if operation < 5 { array.index() } else { Array::Bytes.index() };
                let kind = if operation < 5 { Kind::Array(array) } else { Kind::Array(Array::Bytes) };
                self.value(kind, false, 1);
                for amount in [0, 0, count] {
                    self.amount(amount);
                }
                self.emit(if operation < 5 {
                    I::ArrayInitElem { array_type_index: type_index, array_elem_index: DROPPED_SEGMENT }
                } else {
                    I::ArrayInitData { array_type_index: type_index, array_data_index: DROPPED_DATA }
                });
            }
        }
    }
}
