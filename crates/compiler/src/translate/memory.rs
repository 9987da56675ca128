//! Linear memories and data segments.

use wasmparser::{MemArg, MemArgTarget, Operator};

use super::Translator;
use crate::CompileError;
use crate::mir::{LoadKind, Op, StoreKind};
use crate::module::{DataIndex, MemoryIndex, ValueType};

impl Translator<'_> {
    /// Translates an instruction on memories; false if it is none.
    pub(super) fn memory(&mut self, operator: &Operator<'_>) -> Result<bool, CompileError> {
        if let Some((kind, memarg)) = load(operator) {
            let memory = self.target(memarg)?;
            self.apply(1, Op::Load(memory, kind, memarg.offset), Some(kind.value_type()));
            return Ok(true);
        }
        if let Some((kind, memarg)) = store(operator) {
            let memory = self.target(memarg)?;
            self.apply(2, Op::Store(memory, kind, memarg.offset), None);
            return Ok(true);
        }
        match *operator {
            Operator::MemorySize { mem } => {
                let memory = MemoryIndex(mem);
                self.apply(0, Op::MemorySize(memory), Some(self.address_type(memory)));
            }
            Operator::MemoryGrow { mem } => {
                let memory = MemoryIndex(mem);
                self.apply(1, Op::MemoryGrow(memory), Some(self.address_type(memory)));
            }
            Operator::MemoryCopy { dst_mem, src_mem } => {
                self.apply(3, Op::MemoryCopy(MemoryIndex(dst_mem), MemoryIndex(src_mem)), None);
            }
            Operator::MemoryFill { mem } => self.apply(3, Op::MemoryFill(MemoryIndex(mem)), None),
            Operator::MemoryInit { data_index, mem } => {
                self.apply(3, Op::MemoryInit(MemoryIndex(mem), DataIndex(data_index)), None);
            }
            Operator::DataDrop { data_index } => self.apply(0, Op::DataDrop(DataIndex(data_index)), None),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn target(&self, memarg: &MemArg) -> Result<MemoryIndex, CompileError> {
        match memarg.target {
            MemArgTarget::Memory(index) => Ok(MemoryIndex(index)),
            MemArgTarget::Array(_) => {
                Err(CompileError::Unsupported { what: "memory access to an array".to_string(), offset: self.offset })
            }
        }
    }

    fn address_type(&self, memory: MemoryIndex) -> ValueType {
        if self.info.memories[memory.index()].memory64 { ValueType::I64 } else { ValueType::I32 }
    }
}

fn load<'a>(operator: &'a Operator<'_>) -> Option<(LoadKind, &'a MemArg)> {
    Some(match operator {
        Operator::I32Load { memarg } => (LoadKind::I32, memarg),
        Operator::I64Load { memarg } => (LoadKind::I64, memarg),
        Operator::F32Load { memarg } => (LoadKind::F32, memarg),
        Operator::F64Load { memarg } => (LoadKind::F64, memarg),
        Operator::I32Load8S { memarg } => (LoadKind::I32From8S, memarg),
        Operator::I32Load8U { memarg } => (LoadKind::I32From8U, memarg),
        Operator::I32Load16S { memarg } => (LoadKind::I32From16S, memarg),
        Operator::I32Load16U { memarg } => (LoadKind::I32From16U, memarg),
        Operator::I64Load8S { memarg } => (LoadKind::I64From8S, memarg),
        Operator::I64Load8U { memarg } => (LoadKind::I64From8U, memarg),
        Operator::I64Load16S { memarg } => (LoadKind::I64From16S, memarg),
        Operator::I64Load16U { memarg } => (LoadKind::I64From16U, memarg),
        Operator::I64Load32S { memarg } => (LoadKind::I64From32S, memarg),
        Operator::I64Load32U { memarg } => (LoadKind::I64From32U, memarg),
        _ => return None,
    })
}

fn store<'a>(operator: &'a Operator<'_>) -> Option<(StoreKind, &'a MemArg)> {
    Some(match operator {
        Operator::I32Store { memarg } => (StoreKind::I32, memarg),
        Operator::I64Store { memarg } => (StoreKind::I64, memarg),
        Operator::F32Store { memarg } => (StoreKind::F32, memarg),
        Operator::F64Store { memarg } => (StoreKind::F64, memarg),
        Operator::I32Store8 { memarg } => (StoreKind::I32To8, memarg),
        Operator::I32Store16 { memarg } => (StoreKind::I32To16, memarg),
        Operator::I64Store8 { memarg } => (StoreKind::I64To8, memarg),
        Operator::I64Store16 { memarg } => (StoreKind::I64To16, memarg),
        Operator::I64Store32 { memarg } => (StoreKind::I64To32, memarg),
        _ => return None,
    })
}
