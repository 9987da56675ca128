//! Linear memory.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};

use super::Lowering;
use super::access::{Region, trap};
use super::env::POINTER;
use crate::abi::{Builtin, MemoryHead};
use crate::artifact::TrapCode;
use crate::mir::{LoadKind, StoreKind};
use crate::module::{DataIndex, MemoryIndex, MemoryPlan, MemoryType, STATIC_MEMORY_OFFSET_GUARD};

impl Lowering<'_, '_> {
    fn memory_type(&self, memory: MemoryIndex) -> &MemoryType {
        &self.env.info.memories[memory.index()]
    }

    fn memory_head(&mut self, memory: MemoryIndex) -> (ir::Value, i32) {
        let imported = self.env.info.imported_memories;
        if memory.0 < imported {
            (self.context_constant(POINTER, self.env.layout.memory_imports + 8 * memory.0), 0)
        } else {
            let offset = self.env.layout.memories + (memory.0 - imported) * size_of::<MemoryHead>() as u32;
            (self.context, offset as i32)
        }
    }

    /// Current length in bytes.
    fn memory_bytes(&mut self, memory: MemoryIndex) -> ir::Value {
        let (head, offset) = self.memory_head(memory);
        let flags = self.flags(Region::MemoryHeads).with_aligned();
        self.b.ins().load(types::I64, flags, head, offset + std::mem::offset_of!(MemoryHead, bytes) as i32)
    }

    fn memory_base(&mut self, memory: MemoryIndex, plan: MemoryPlan) -> ir::Value {
        let (head, offset) = self.memory_head(memory);
        let flags = match plan {
            MemoryPlan::Static => self.constant_flags(Region::MemoryHeads),
            MemoryPlan::Dynamic => self.flags(Region::MemoryHeads).with_aligned(),
        };
        self.b.ins().load(POINTER, flags, head, offset + std::mem::offset_of!(MemoryHead, base) as i32)
    }

    /// The address of an access of `size` bytes at `index + offset`, and what remains of the offset. Traps outside the
    /// memory, unless the access itself will.
    fn memory_address(&mut self, memory: MemoryIndex, index: ir::Value, offset: u64, size: u32) -> (ir::Value, i32) {
        let plan = MemoryPlan::of(self.memory_type(memory), self.env.info.checked_memories);
        let wide = self.b.func.dfg.value_type(index) == types::I64;
        let index = self.index64(index);
        if plan == MemoryPlan::Dynamic || offset >= STATIC_MEMORY_OFFSET_GUARD {
            self.check_memory_bounds(memory, index, wide, offset, size);
        }
        let base = self.memory_base(memory, plan);
        let address = self.b.ins().iadd(base, index);
        match i32::try_from(offset) {
            Ok(offset) => (address, offset),
            Err(_) => (self.b.ins().iadd_imm_s(address, offset as i64), 0),
        }
    }

    fn check_memory_bounds(&mut self, memory: MemoryIndex, index: ir::Value, wide: bool, offset: u64, size: u32) {
        let bytes = self.memory_bytes(memory);
        // The end of the access, exactly: where the sum passes 64 bits, the access is outside too.
        let (end, overflow) = match offset.checked_add(u64::from(size)) {
            None => (index, true),
            Some(reach) => {
                let reach = self.b.ins().iconst(types::I64, reach as i64);
                if wide {
                    let code = trap(TrapCode::MemoryOutOfBounds);
                    (self.b.ins().uadd_overflow_trap(index, reach, code), false)
                } else {
                    (self.b.ins().iadd(index, reach), false)
                }
            }
        };
        let outside = if overflow {
            self.b.ins().iconst(types::I8, 1)
        } else {
            self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, bytes)
        };
        self.b.ins().trapnz(outside, trap(TrapCode::MemoryOutOfBounds));
    }

    pub(super) fn memory_load(
        &mut self,
        memory: MemoryIndex,
        kind: LoadKind,
        offset: u64,
        index: ir::Value,
    ) -> ir::Value {
        let size = match kind {
            LoadKind::I32From8S | LoadKind::I32From8U | LoadKind::I64From8S | LoadKind::I64From8U => 1,
            LoadKind::I32From16S | LoadKind::I32From16U | LoadKind::I64From16S | LoadKind::I64From16U => 2,
            LoadKind::I32 | LoadKind::F32 | LoadKind::I64From32S | LoadKind::I64From32U => 4,
            LoadKind::I64 | LoadKind::F64 => 8,
            LoadKind::V128 => 16,
        };
        let (address, offset) = self.memory_address(memory, index, offset, size);
        let flags = self.flags_trapping(Region::Memory, Some(TrapCode::MemoryOutOfBounds));
        let ins = self.b.ins();
        match kind {
            LoadKind::I32 => ins.load(types::I32, flags, address, offset),
            LoadKind::I64 => ins.load(types::I64, flags, address, offset),
            LoadKind::F32 => ins.load(types::F32, flags, address, offset),
            LoadKind::F64 => ins.load(types::F64, flags, address, offset),
            LoadKind::I32From8S => ins.sload8(types::I32, flags, address, offset),
            LoadKind::I32From8U => ins.uload8(types::I32, flags, address, offset),
            LoadKind::I32From16S => ins.sload16(types::I32, flags, address, offset),
            LoadKind::I32From16U => ins.uload16(types::I32, flags, address, offset),
            LoadKind::I64From8S => ins.sload8(types::I64, flags, address, offset),
            LoadKind::I64From8U => ins.uload8(types::I64, flags, address, offset),
            LoadKind::I64From16S => ins.sload16(types::I64, flags, address, offset),
            LoadKind::I64From16U => ins.uload16(types::I64, flags, address, offset),
            LoadKind::I64From32S => ins.sload32(flags, address, offset),
            LoadKind::I64From32U => ins.uload32(flags, address, offset),
            LoadKind::V128 => ins.load(types::I8X16, flags, address, offset),
        }
    }

    pub(super) fn memory_store(
        &mut self,
        memory: MemoryIndex,
        kind: StoreKind,
        offset: u64,
        index: ir::Value,
        value: ir::Value,
    ) {
        let size = match kind {
            StoreKind::I32To8 | StoreKind::I64To8 => 1,
            StoreKind::I32To16 | StoreKind::I64To16 => 2,
            StoreKind::I32 | StoreKind::F32 | StoreKind::I64To32 => 4,
            StoreKind::I64 | StoreKind::F64 => 8,
            StoreKind::V128 => 16,
        };
        let (address, offset) = self.memory_address(memory, index, offset, size);
        let flags = self.flags_trapping(Region::Memory, Some(TrapCode::MemoryOutOfBounds));
        let ins = self.b.ins();
        match kind {
            StoreKind::I32 | StoreKind::I64 | StoreKind::F32 | StoreKind::F64 | StoreKind::V128 => {
                ins.store(flags, value, address, offset)
            }
            StoreKind::I32To8 | StoreKind::I64To8 => ins.istore8(flags, value, address, offset),
            StoreKind::I32To16 | StoreKind::I64To16 => ins.istore16(flags, value, address, offset),
            StoreKind::I64To32 => ins.istore32(flags, value, address, offset),
        };
    }

    /// 64 bits reduced to the memory's address type.
    fn memory_index(&mut self, memory: MemoryIndex, value: ir::Value) -> ir::Value {
        if self.memory_type(memory).memory64 { value } else { self.b.ins().ireduce(types::I32, value) }
    }

    pub(super) fn memory_size(&mut self, memory: MemoryIndex) -> ir::Value {
        let bytes = self.memory_bytes(memory);
        let shift = i64::from(self.memory_type(memory).page_size_log2);
        let pages = self.b.ins().ushr_imm_u(bytes, shift);
        self.memory_index(memory, pages)
    }

    pub(super) fn memory_grow(&mut self, memory: MemoryIndex, delta: ir::Value) -> ir::Value {
        let number = self.b.ins().iconst(types::I32, i64::from(memory.0));
        let delta = self.index64(delta);
        let old = self.builtin(Builtin::MemoryGrow, &[number, delta]);
        self.memory_index(memory, old)
    }

    /// (destination, source, length)
    pub(super) fn memory_copy(&mut self, to: MemoryIndex, from: MemoryIndex, args: &[ir::Value]) {
        let [to, from] = [to, from].map(|memory| self.b.ins().iconst(types::I32, i64::from(memory.0)));
        let [to_start, from_start, length] = [0, 1, 2].map(|number| self.index64(args[number]));
        self.builtin(Builtin::MemoryCopy, &[to, from, to_start, from_start, length]);
    }

    /// (destination, byte, length)
    pub(super) fn memory_fill(&mut self, memory: MemoryIndex, args: &[ir::Value]) {
        let number = self.b.ins().iconst(types::I32, i64::from(memory.0));
        let (start, length) = (self.index64(args[0]), self.index64(args[2]));
        self.builtin(Builtin::MemoryFill, &[number, start, args[1], length]);
    }

    /// (destination, source offset, length)
    pub(super) fn memory_init(&mut self, memory: MemoryIndex, segment: DataIndex, args: &[ir::Value]) {
        let number = self.b.ins().iconst(types::I32, i64::from(memory.0));
        let segment = self.b.ins().iconst(types::I32, i64::from(segment.0));
        let start = self.index64(args[0]);
        self.builtin(Builtin::MemoryInit, &[number, segment, start, args[1], args[2]]);
    }

    pub(super) fn data_drop(&mut self, segment: DataIndex) {
        let segment = self.b.ins().iconst(types::I32, i64::from(segment.0));
        self.builtin(Builtin::DataDrop, &[segment]);
    }
}
