//! Tables and element segments.

use wasmparser::Operator;

use super::Translator;
use crate::mir::Op;
use crate::module::{ElemIndex, TableIndex, ValueType};

impl Translator<'_> {
    /// Translates an instruction on tables; false if it is none.
    pub(super) fn table(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::TableGet { table } => {
                let element = self.info.tables[table as usize].element;
                self.apply(1, Op::TableGet(TableIndex(table)), Some(ValueType::Ref(element)));
            }
            Operator::TableSet { table } => self.apply(2, Op::TableSet(TableIndex(table)), None),
            Operator::TableSize { table } => {
                self.apply(0, Op::TableSize(TableIndex(table)), Some(self.table_address_type(table)));
            }
            Operator::TableGrow { table } => {
                self.apply(2, Op::TableGrow(TableIndex(table)), Some(self.table_address_type(table)));
            }
            Operator::TableFill { table } => self.apply(3, Op::TableFill(TableIndex(table)), None),
            Operator::TableCopy { dst_table, src_table } => {
                self.apply(3, Op::TableCopy(TableIndex(dst_table), TableIndex(src_table)), None);
            }
            Operator::TableInit { elem_index, table } => {
                self.apply(3, Op::TableInit(TableIndex(table), ElemIndex(elem_index)), None);
            }
            Operator::ElemDrop { elem_index } => self.apply(0, Op::ElemDrop(ElemIndex(elem_index)), None),
            _ => return false,
        }
        true
    }

    fn table_address_type(&self, table: u32) -> ValueType {
        if self.info.tables[table as usize].table64 { ValueType::I64 } else { ValueType::I32 }
    }
}
