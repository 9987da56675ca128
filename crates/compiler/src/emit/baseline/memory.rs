//! Loads and stores.

use cranelift_codegen::ir::{self, InstructionData, Opcode, Value, ValueDef, types};

use super::operands::{Extend, Mem, RBP, Width};
use super::plan::{Kind, is_distance};
use super::registers::CONTEXT;
use super::state::Baseline;
use crate::emit::code::trap_code;

impl Baseline<'_> {
    /// The place of an address, whose registers are locked. It is used once.
    fn place(&mut self, address: Value, offset: i32) -> Mem {
        let same = self.same(address);
        match self.kind(same) {
            Kind::Context => {
                self.used(same);
                Mem::at(CONTEXT, offset)
            }
            Kind::Stack(distance) => {
                self.used(same);
                Mem::at(RBP, distance + offset)
            }
            Kind::Address => {
                self.used(same);
                let ValueDef::Result(inst, _) = self.function.dfg.value_def(same) else {
                    unreachable!("a sum is made by an instruction")
                };
                let InstructionData::Binary { args: [base, other], .. } = self.function.dfg.insts[inst] else {
                    unreachable!("an address that is not made where it is computed is a sum")
                };
                let distance = self.kind(self.same(other));
                if let (true, Kind::Number(number)) = (is_distance(distance), distance) {
                    self.used(other);
                    if let Some(sum) = offset.checked_add(number as i32) {
                        return self.place(base, sum);
                    }
                    // No instruction has so large a distance.
                    let part = self.place(base, number as i32);
                    let register = self.take_gpr();
                    self.asm.address(Width::W64, register, part);
                    return Mem::at(register, offset);
                }
                let registers = (self.gpr(base), self.gpr(other));
                self.used(base);
                self.used(other);
                Mem { base: registers.0, index: Some(registers.1), offset }
            }
            _ => {
                let register = self.gpr(same);
                self.used(same);
                Mem::at(register, offset)
            }
        }
    }

    /// Notes that the next instruction may trap.
    fn may_trap(&mut self, code: Option<ir::TrapCode>) {
        if let Some(code) = code {
            self.code.traps.push((self.asm.offset(), trap_code(code)));
        }
    }

    pub(super) fn load(
        &mut self,
        inst: ir::Inst,
        opcode: Opcode,
        address: Value,
        trap: Option<ir::TrapCode>,
        offset: i32,
    ) -> Option<()> {
        let result = self.function.dfg.first_result(inst);
        let ty = self.function.dfg.value_type(result);
        let place = self.place(address, offset);
        if ty.is_float() {
            let register = self.take_xmm();
            self.may_trap(trap);
            self.asm.load_float(self.float_of(result), register, place);
            self.define_xmm(result, register);
            return Some(());
        }
        let width = if ty == types::I64 { Width::W64 } else { Width::W32 };
        let register = self.take_gpr();
        self.may_trap(trap);
        match (opcode, ty) {
            (Opcode::Load, types::I32 | types::I64) => self.asm.mov(width, register, place),
            (Opcode::Uload32, _) => self.asm.mov(Width::W32, register, place),
            (Opcode::Uload8, _) => self.asm.extend(Width::W32, Extend::Zero8, register, place),
            (Opcode::Uload16, _) => self.asm.extend(Width::W32, Extend::Zero16, register, place),
            (Opcode::Sload8, _) => self.asm.extend(width, Extend::Sign8, register, place),
            (Opcode::Sload16, _) => self.asm.extend(width, Extend::Sign16, register, place),
            (Opcode::Sload32, _) => self.asm.extend(width, Extend::Sign32, register, place),
            _ => return None,
        }
        self.define_gpr(result, register);
        Some(())
    }

    pub(super) fn store(
        &mut self,
        opcode: Opcode,
        [value, address]: [Value; 2],
        trap: Option<ir::TrapCode>,
        offset: i32,
    ) -> Option<()> {
        let ty = self.function.dfg.value_type(value);
        let bytes = match opcode {
            Opcode::Store if ty.is_float() => 0,
            Opcode::Store if ty == types::I32 => 4,
            Opcode::Store if ty == types::I64 => 8,
            Opcode::Istore8 => 1,
            Opcode::Istore16 => 2,
            Opcode::Istore32 => 4,
            _ => return None,
        };
        let place = self.place(address, offset);
        if ty.is_float() {
            let register = self.xmm(value);
            self.used(value);
            self.may_trap(trap);
            self.asm.store_float(self.float_of(value), place, register);
            return Some(());
        }
        let width = if bytes == 8 { Width::W64 } else { Width::W32 };
        if let Some(number) = self.number(value, width).and_then(|number| i32::try_from(number).ok()) {
            self.used(value);
            self.may_trap(trap);
            self.asm.store_number(bytes, place, number);
            return Some(());
        }
        let register = self.gpr(value);
        self.used(value);
        self.may_trap(trap);
        self.asm.store(bytes, place, register);
        Some(())
    }
}
