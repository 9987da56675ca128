//! Tables: bounds-checked arrays of references.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};

use super::Lowering;
use super::access::{Region, trap};
use super::barrier::Container;
use super::env::POINTER;
use crate::abi::{Builtin, TABLE_CARD_LOG2, TableHead};
use crate::artifact::TrapCode;
use crate::mir::Value;
use crate::module::{ElemIndex, StorageType, TableIndex, ValueType};
use crate::passes::analysis::SafepointKey;

impl Lowering<'_, '_> {
    fn table_head(&mut self, table: TableIndex) -> (ir::Value, i32) {
        let imported = self.env.info.imported_tables;
        if table.0 < imported {
            (self.context_constant(POINTER, self.env.layout.table_imports + 8 * table.0), 0)
        } else {
            let offset = self.env.layout.tables + (table.0 - imported) * size_of::<TableHead>() as u32;
            (self.context, offset as i32)
        }
    }

    /// The table's length, 64 bits.
    fn table_length(&mut self, table: TableIndex) -> ir::Value {
        if let Some(length) = self.fixed_length(table) {
            return self.b.ins().iconst(types::I64, length as i64);
        }
        let (head, offset) = self.table_head(table);
        let flags = self.flags(Region::TableHeads).with_aligned();
        self.b.ins().load(types::I64, flags, head, offset + std::mem::offset_of!(TableHead, length) as i32)
    }

    /// The length of a table that cannot grow: neither its length nor its base ever changes.
    fn fixed_length(&self, table: TableIndex) -> Option<u64> {
        let ty = &self.env.info.tables[table.index()];
        (ty.maximum == Some(ty.minimum)).then_some(ty.minimum)
    }

    /// A word of the table's head that changes with its length alone.
    fn table_word(&mut self, table: TableIndex, word: usize) -> ir::Value {
        let (head, offset) = self.table_head(table);
        let flags = if self.fixed_length(table).is_some() {
            self.constant_flags(Region::TableHeads)
        } else {
            self.flags(Region::TableHeads).with_aligned()
        };
        self.b.ins().load(POINTER, flags, head, offset + word as i32)
    }

    /// The address of the element at an index of 64 bits. Traps where there is none.
    fn table_element(&mut self, table: TableIndex, index: ir::Value) -> ir::Value {
        let length = self.table_length(table);
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, length);
        self.b.ins().trapnz(outside, trap(TrapCode::TableOutOfBounds));
        let base = self.table_word(table, std::mem::offset_of!(TableHead, base));
        let scaled = self.b.ins().ishl_imm_u(index, 2);
        self.b.ins().iadd(base, scaled)
    }

    pub(super) fn table_get(&mut self, table: TableIndex, index: ir::Value) -> ir::Value {
        let index = self.index64(index);
        let address = self.table_element(table, index);
        let flags = self.flags(Region::Tables).with_aligned();
        self.load_reference(flags, address, 0)
    }

    pub(super) fn table_set(&mut self, table: TableIndex, index: ir::Value, value: Value) {
        let index = self.index64(index);
        let address = self.table_element(table, index);
        let flags = self.flags(Region::Tables);
        let element = self.env.info.tables[table.index()].element;
        let kind = self.env.info.storage_kind(StorageType::Value(ValueType::Ref(element)));
        let store = self.store_into(Container::Table, kind, value);
        self.store(&store, flags, address, 0);
        self.after_table(&store, |l| {
            let card = l.b.ins().ushr_imm_u(index, i64::from(TABLE_CARD_LOG2));
            let cards = l.table_word(table, std::mem::offset_of!(TableHead, cards));
            l.b.ins().iadd(cards, card)
        });
    }

    pub(super) fn table_size(&mut self, table: TableIndex) -> ir::Value {
        let length = self.table_length(table);
        self.table_index(table, length)
    }

    /// 64 bits reduced to the table's index type.
    fn table_index(&mut self, table: TableIndex, value: ir::Value) -> ir::Value {
        if self.env.info.tables[table.index()].table64 { value } else { self.b.ins().ireduce(types::I32, value) }
    }

    fn number(&mut self, number: u32) -> ir::Value {
        self.b.ins().iconst(types::I32, i64::from(number))
    }

    pub(super) fn table_grow(&mut self, table: TableIndex, value: ir::Value, delta: ir::Value) -> ir::Value {
        let number = self.number(table.0);
        let delta = self.index64(delta);
        let old = self.builtin(Builtin::TableGrow, &[number, value, delta]);
        self.table_index(table, old)
    }

    /// (start, reference, length)
    pub(super) fn table_fill(&mut self, table: TableIndex, args: &[ir::Value]) {
        let number = self.number(table.0);
        let (start, length) = (self.index64(args[0]), self.index64(args[2]));
        self.builtin(Builtin::TableFill, &[number, start, args[1], length]);
    }

    /// (destination, source, length)
    pub(super) fn table_copy(&mut self, to: TableIndex, from: TableIndex, args: &[ir::Value]) {
        let (to, from) = (self.number(to.0), self.number(from.0));
        let [to_start, from_start, length] = [0, 1, 2].map(|number| self.index64(args[number]));
        self.builtin(Builtin::TableCopy, &[to, from, to_start, from_start, length]);
    }

    /// (destination, source offset, length)
    pub(super) fn table_init(&mut self, table: TableIndex, segment: ElemIndex, args: &[ir::Value], key: SafepointKey) {
        let (table, segment) = (self.number(table.0), self.number(segment.0));
        let start = self.index64(args[0]);
        self.builtin_safepoint(Builtin::TableInit, &[table, segment, start, args[1], args[2]], key);
    }

    pub(super) fn elem_drop(&mut self, segment: ElemIndex) {
        let segment = self.number(segment.0);
        self.builtin(Builtin::ElemDrop, &[segment]);
    }
}
