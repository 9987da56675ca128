//! Which values registers hold while a block's code is made.
//!
//! A register is a copy of a value's home, or all that there is of a value that one block alone uses; that is stored
//! into the frame where its register is needed for something else, or a call comes. Nothing here changes the flags.

use cranelift_codegen::ir::{Value, types};
use cranelift_entity::EntityRef;

use super::operands::{Float, Gpr, Mem, Place, R8, R9, R10, R11, RAX, RBP, RBX, RCX, RDI, RDX, RSI, Width, Xmm};
use super::plan::Kind;
use super::state::Baseline;

/// The register that the context is kept in.
pub(super) const CONTEXT: Gpr = RBX;
/// Registers that hold something within an instruction alone.
pub(super) const SCRATCH: Gpr = R11;
pub(super) const SCRATCH_FLOAT: Xmm = Xmm(15);

/// What values are kept in: registers that calls do not preserve.
const GPRS: [Gpr; 8] = [RAX, RCX, RDX, RSI, RDI, R8, R9, R10];
const MOST_XMMS: usize = 15;

/// A value's register; general-purpose ones come first.
const NO_REGISTER: u8 = u8::MAX;
const FIRST_XMM: u8 = 16;

/// What registers hold.
pub(super) struct Registers {
    /// The value that each holds.
    values: [Option<Value>; 32],
    /// For each value its register.
    of: Vec<u8>,
    /// Registers that must keep what they hold, as bits.
    locked: u32,
    /// Where the search for a register begins, which moves on.
    next: usize,
}

impl Registers {
    pub(super) fn new(values: usize) -> Registers {
        Registers { values: [None; 32], of: vec![NO_REGISTER; values], locked: 0, next: 0 }
    }

    /// The number of the register that holds a value.
    fn find(&self, value: Value) -> Option<u8> {
        let number = self.of[value.index()];
        (number != NO_REGISTER).then_some(number)
    }

    fn bind(&mut self, number: u8, value: Value) {
        debug_assert!(self.values[number as usize].is_none());
        self.values[number as usize] = Some(value);
        self.of[value.index()] = number;
    }

    fn unbind(&mut self, number: u8) -> Option<Value> {
        let value = self.values[number as usize].take()?;
        self.of[value.index()] = NO_REGISTER;
        Some(value)
    }

    pub(super) fn gpr(&self, value: Value) -> Option<Gpr> {
        self.find(value).filter(|&number| number < FIRST_XMM).map(Gpr)
    }

    pub(super) fn xmm(&self, value: Value) -> Option<Xmm> {
        self.find(value).filter(|&number| number >= FIRST_XMM).map(|number| Xmm(number - FIRST_XMM))
    }

    pub(super) fn lock(&mut self, register: Gpr) {
        self.locked |= 1 << register.0;
    }

    pub(super) fn lock_float(&mut self, register: Xmm) {
        self.locked |= 1 << (register.0 + FIRST_XMM);
    }

    /// The instruction is done.
    pub(super) fn unlock(&mut self) {
        self.locked = 0;
    }

    /// No register holds a value any more.
    pub(super) fn forget(&mut self) {
        for number in 0..self.values.len() as u8 {
            self.unbind(number);
        }
    }
}

impl Baseline<'_> {
    /// Where a value lies in the frame, if it does.
    pub(super) fn home(&self, value: Value) -> Option<Mem> {
        let home = self.plan.value(value).home;
        (home != 0).then(|| Mem::at(RBP, home))
    }

    /// Makes room in the frame for a value that one block uses.
    fn spill(&mut self, value: Value, number: u8) {
        if self.plan.value(value).home == 0 {
            self.spilled += 8;
            self.most_spilled = self.most_spilled.max(self.spilled);
            self.plan.value_mut(value).home = -(self.plan.frame + self.spilled);
            self.store_home(value, number);
        }
    }

    fn store_home(&mut self, value: Value, number: u8) {
        let Some(home) = self.home(value) else { return };
        if number < FIRST_XMM {
            self.asm.store(8, home, Gpr(number));
        } else {
            self.asm.store_float(self.float_of(value), home, Xmm(number - FIRST_XMM));
        }
    }

    /// The width of a value that is a float.
    pub(super) fn float_of(&self, value: Value) -> Float {
        if self.function.dfg.value_type(value) == types::F32 { Float::F32 } else { Float::F64 }
    }

    /// Has a register hold nothing, so that something else can be put there. What it holds and is still used is kept in
    /// the frame.
    fn empty(&mut self, number: u8) {
        let Some(value) = self.registers.values[number as usize] else { return };
        if self.plan.value(value).uses > 0 {
            self.spill(value, number);
        }
        self.registers.unbind(number);
    }

    /// As [`empty`](Self::empty), for a general-purpose register.
    pub(super) fn empty_gpr(&mut self, register: Gpr) {
        self.empty(register.0);
    }

    /// Keeps all values in the frame that are used behind a call.
    pub(super) fn spill_all(&mut self) {
        for number in 0..32 {
            if let Some(value) = self.registers.values[number as usize]
                && self.plan.value(value).uses > 0
            {
                self.spill(value, number);
            }
        }
    }

    /// One of `count` registers that can be written to; it is locked.
    fn take(&mut self, registers: impl Fn(usize) -> u8, count: usize) -> u8 {
        let is_locked = |locked: u32, number: u8| locked & 1 << number != 0;
        let locked = self.registers.locked;
        let start = self.registers.next;
        let each = (0..count).map(|step| registers((start + step) % count)).filter(|&it| !is_locked(locked, it));
        let (mut kept, mut any) = (None, None);
        let mut free = None;
        for number in each {
            match self.registers.values[number as usize] {
                None => {
                    free = Some(number);
                    break;
                }
                Some(value) if self.plan.value(value).home != 0 => kept = kept.or(Some(number)),
                Some(_) => any = any.or(Some(number)),
            }
        }
        let taken = free.or(kept).or(any).expect("an instruction locks few registers");
        self.registers.next = self.registers.next.wrapping_add(1);
        self.empty(taken);
        self.registers.locked |= 1 << taken;
        taken
    }

    /// A general-purpose register that can be written to; it is locked.
    pub(super) fn take_gpr(&mut self) -> Gpr {
        Gpr(self.take(|number| GPRS[number].0, GPRS.len()))
    }

    /// A vector register that can be written to; it is locked.
    pub(super) fn take_xmm(&mut self) -> Xmm {
        Xmm(self.take(|number| FIRST_XMM + number as u8, MOST_XMMS) - FIRST_XMM)
    }

    /// Has a register hold a value that has just been computed there.
    pub(super) fn define_gpr(&mut self, value: Value, register: Gpr) {
        self.define(value, register.0);
    }

    /// As [`define_gpr`](Self::define_gpr), for a float.
    pub(super) fn define_xmm(&mut self, value: Value, register: Xmm) {
        self.define(value, register.0 + FIRST_XMM);
    }

    fn define(&mut self, value: Value, number: u8) {
        // Blocks that use it may have their code already.
        self.store_home(value, number);
        if self.plan.value(value).uses > 0 {
            self.registers.bind(number, value);
        }
    }

    /// A value has been used once more. A register that holds nothing else is free then, but stays locked.
    pub(super) fn used(&mut self, value: Value) {
        let value = self.same(value);
        let planned = self.plan.value_mut(value);
        debug_assert!(planned.uses > 0, "{value} is used more often than has been counted");
        planned.uses -= 1;
        if planned.uses == 0
            && let Some(number) = self.registers.find(value)
        {
            self.registers.unbind(number);
        }
    }

    /// A register that holds an integer; it is locked, and may not be written to.
    pub(super) fn gpr(&mut self, value: Value) -> Gpr {
        let value = self.same(value);
        let register = match (self.registers.gpr(value), self.kind(value)) {
            (Some(register), _) => register,
            (None, Kind::Context) => return CONTEXT,
            (None, Kind::Number(number)) => {
                let register = self.take_gpr();
                self.asm.number(register, number);
                register
            }
            (None, Kind::Stack(offset)) => {
                let register = self.take_gpr();
                self.asm.address(Width::W64, register, Mem::at(RBP, offset));
                register
            }
            (None, _) => {
                let home = self.home(value).expect("a value that is used is somewhere");
                let register = self.take_gpr();
                self.asm.mov(Width::W64, register, home);
                self.registers.bind(register.0, value);
                register
            }
        };
        self.registers.lock(register);
        register
    }

    /// A register that holds a float; it is locked, and may not be written to.
    pub(super) fn xmm(&mut self, value: Value) -> Xmm {
        let value = self.same(value);
        let register = match (self.registers.xmm(value), self.kind(value)) {
            (Some(register), _) => register,
            (None, Kind::Number(bits)) => {
                let register = self.take_xmm();
                self.float_number(register, bits);
                register
            }
            (None, _) => {
                let home = self.home(value).expect("a value that is used is somewhere");
                let register = self.take_xmm();
                self.asm.load_float(self.float_of(value), register, home);
                self.registers.bind(register.0 + FIRST_XMM, value);
                register
            }
        };
        self.registers.lock_float(register);
        register
    }

    /// Where an integer can be read: in its register, or at home where it is used for the last time.
    pub(super) fn operand(&mut self, value: Value) -> Place {
        let value = self.same(value);
        if self.registers.gpr(value).is_none()
            && self.plan.value(value).uses == 1
            && let Some(home) = self.home(value)
        {
            return home.into();
        }
        self.gpr(value).into()
    }

    /// As [`operand`](Self::operand), for a float.
    pub(super) fn float_operand(&mut self, value: Value) -> Place {
        let value = self.same(value);
        if self.registers.xmm(value).is_none()
            && self.plan.value(value).uses == 1
            && let Some(home) = self.home(value)
        {
            return home.into();
        }
        self.xmm(value).into()
    }

    /// Whether a register may be written to, as it holds nothing that is still used.
    pub(super) fn is_free(&self, register: Gpr) -> bool {
        register != CONTEXT && self.registers.values[register.0 as usize].is_none()
    }

    /// A register for the result of an instruction that begins with a copy of `source`, which has been used: that
    /// register itself, where it holds nothing any more.
    pub(super) fn result_gpr(&mut self, source: Gpr) -> Gpr {
        if self.is_free(source) {
            return source;
        }
        let register = self.take_gpr();
        self.asm.copy(register, source);
        register
    }

    /// As [`result_gpr`](Self::result_gpr), for floats.
    pub(super) fn result_xmm(&mut self, source: Xmm) -> Xmm {
        if self.registers.values[(source.0 + FIRST_XMM) as usize].is_none() {
            return source;
        }
        let register = self.take_xmm();
        self.asm.copy_float(register, source);
        register
    }
}
