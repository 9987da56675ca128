//! Calls, returns, and where they pass values: as Cranelift's calling conventions say.

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::ir::{self, ExceptionTableItem, ExternalName, Opcode, Value};
use cranelift_codegen::isa::CallConv;

use super::conventions::{Location, Locations};
use super::operands::{Alu, Float, Gpr, Mem, R10, RAX, RBP, RDX, RSP, Width, Xmm};
use super::plan::Kind;
use super::registers::{CONTEXT, SCRATCH, SCRATCH_FLOAT};
use super::state::{Baseline, RETURN_ADDRESS};
use crate::emit::code::{CodeCallSite, Relocation};
use crate::lower::env::Symbol;

/// What a handler finds of an exception.
const CAUGHT: &[Gpr] = &[RAX, RDX];

/// Where a value that is passed is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Gpr(Gpr),
    Xmm(Xmm),
    Home(Mem),
    Number(i64),
    /// The address of a slot.
    Stack(i32),
}

impl Baseline<'_> {
    fn source_of(&self, value: Value) -> Source {
        let value = self.same(value);
        match self.kind(value) {
            Kind::Context => Source::Gpr(CONTEXT),
            Kind::Number(number) => Source::Number(number),
            Kind::Stack(offset) => Source::Stack(offset),
            _ => match (self.registers.gpr(value), self.registers.xmm(value), self.home(value)) {
                (Some(register), ..) => Source::Gpr(register),
                (_, Some(register), _) => Source::Xmm(register),
                (_, _, home) => Source::Home(home.expect("a value that is used is somewhere")),
            },
        }
    }

    /// Where values are found that are used in this place.
    fn sources(&mut self, values: &[Value]) -> Vec<Source> {
        let sources = values.iter().map(|&value| self.source_of(value)).collect();
        values.iter().for_each(|&value| self.used(value));
        sources
    }

    /// Moves what is passed to where it is to be: on the stack from `stack` on. Registers that are written to lose what
    /// they hold.
    fn move_all(&mut self, moves: &[(Location, Source)], stack: Mem) {
        for &(to, from) in moves {
            let Location::Stack(offset) = to else { continue };
            let to = Mem { offset: stack.offset + offset, ..stack };
            let register = match from {
                Source::Gpr(register) => register,
                // All eight bytes, as for integers.
                Source::Xmm(register) => {
                    self.asm.store_float(Float::F64, to, register);
                    continue;
                }
                other => {
                    self.load_source(SCRATCH, other);
                    SCRATCH
                }
            };
            self.asm.store(8, to, register);
        }
        let gprs = moves.iter().filter_map(|&it| match it {
            (Location::Gpr(to), Source::Gpr(from)) => Some((to, from)),
            _ => None,
        });
        in_parallel(gprs.collect(), SCRATCH, |to, from| self.asm.copy(to, from));
        let xmms = moves.iter().filter_map(|&it| match it {
            (Location::Xmm(to), Source::Xmm(from)) => Some((to, from)),
            _ => None,
        });
        in_parallel(xmms.collect(), SCRATCH_FLOAT, |to, from| self.asm.copy_float(to, from));
        for &(to, from) in moves {
            match (to, from) {
                (Location::Gpr(_), Source::Gpr(_)) => {}
                (Location::Gpr(to), from) => self.load_source(to, from),
                (Location::Xmm(to), Source::Number(bits)) => self.float_number(to, bits),
                (Location::Xmm(to), Source::Home(home)) => {
                    self.asm.load_float(Float::F64, to, home);
                }
                (Location::Xmm(_) | Location::Stack(_), _) => {}
            }
        }
    }

    fn load_source(&mut self, to: Gpr, from: Source) {
        match from {
            Source::Number(number) => self.asm.number(to, number),
            Source::Home(home) => self.asm.mov(Width::W64, to, home),
            Source::Stack(offset) => self.asm.address(Width::W64, to, Mem::at(RBP, offset)),
            Source::Gpr(from) => self.asm.copy(to, from),
            Source::Xmm(_) => unreachable!("a float is passed as one"),
        }
    }

    pub(super) fn return_(&mut self, inst: ir::Inst) -> Option<()> {
        let values = self.function.dfg.inst_args(inst);
        let results = Locations::of_results(&self.function.signature)?;
        let sources = self.sources(values);
        let moves: Vec<_> = results.each.into_iter().zip(sources).collect();
        self.move_all(&moves, Mem::at(RSP, 0));
        self.restore();
        self.asm.leave();
        self.asm.ret(self.arguments);
        Some(())
    }

    /// Passes the arguments of a tail call, as many bytes of them on the stack, and drops the frame. They end where
    /// this function's own do, so the return address is moved, where there are more or fewer.
    fn replace_frame(&mut self, moves: &[(Location, Source)], stack_bytes: i32) {
        let up = i32::from(self.arguments) - stack_bytes;
        let arguments = Mem::at(RBP, RETURN_ADDRESS + 8 + up);
        if up >= 0 {
            // What this function has been passed there is no source: it was loaded at the beginning.
            self.move_all(moves, arguments);
        } else {
            // They overwrite the end of the frame, where sources may lie, so they are put aside first, far below.
            self.most_arguments = self.most_arguments.max(2 * stack_bytes);
            self.move_all(moves, Mem::at(RSP, 0));
        }
        self.restore();
        if up == 0 {
            return self.asm.leave();
        }
        // Neither register passes anything.
        let (return_address, frame) = (SCRATCH, R10);
        self.asm.mov(Width::W64, return_address, Mem::at(RBP, RETURN_ADDRESS));
        self.asm.mov(Width::W64, frame, Mem::at(RBP, 0));
        if up < 0 {
            for offset in (0..stack_bytes).step_by(8) {
                self.asm.load_float(Float::F64, SCRATCH_FLOAT, Mem::at(RSP, offset));
                self.asm.store_float(Float::F64, Mem { offset: arguments.offset + offset, ..arguments }, SCRATCH_FLOAT);
            }
        }
        self.asm.store(8, Mem::at(RBP, RETURN_ADDRESS + up), return_address);
        self.asm.address(Width::W64, RSP, Mem::at(RBP, RETURN_ADDRESS + up));
        self.asm.copy(RBP, frame);
    }

    /// The callee of a direct call.
    fn symbol(&self, callee: ir::FuncRef) -> Option<Symbol> {
        let function = &self.function.dfg.ext_funcs[callee];
        let ExternalName::User(name) = function.name else { return None };
        function.colocated.then(|| Symbol::of(&self.function.params.user_named_funcs()[name]))
    }

    /// Passes the arguments of a call and calls, or jumps. Gives back where the results are, and the call returns to.
    fn transfer(
        &mut self,
        inst: ir::Inst,
        callee: Option<ir::FuncRef>,
        signature: ir::SigRef,
        returns: bool,
    ) -> Option<(Locations, u32)> {
        let function = self.function;
        let signature = &function.dfg.signatures[signature];
        let arguments = Locations::of_arguments(signature)?;
        let results = Locations::of_results(signature)?;
        let symbol = match callee {
            Some(callee) => Some(self.symbol(callee)?),
            None => None,
        };
        // The code that is called by its address comes first among the values.
        let sources = self.sources(function.dfg.inst_args(inst));
        let code = callee.is_none().then_some(Location::Gpr(RAX));
        let to = code.into_iter().chain(arguments.each.iter().copied());
        let moves: Vec<_> = to.zip(sources).collect();
        if returns && signature.call_conv == CallConv::PreserveAll {
            for location in moves.iter().map(|&(to, _)| to).chain(results.each.iter().copied()) {
                match location {
                    Location::Gpr(register) => self.empty_gpr(register),
                    Location::Xmm(_) | Location::Stack(_) => return None,
                }
            }
        } else if returns {
            self.spill_all();
        }
        if returns {
            self.most_arguments = self.most_arguments.max(arguments.stack_bytes);
            self.move_all(&moves, Mem::at(RSP, 0));
        } else {
            self.replace_frame(&moves, arguments.stack_bytes);
        }
        match symbol {
            Some(target) => {
                let offset = self.asm.call_or_jump(returns);
                self.code.relocations.push(Relocation { offset, kind: Reloc::X86CallPCRel4, target, addend: -4 });
            }
            None => self.asm.call_or_jump_to(returns, RAX),
        }
        let return_address = self.asm.offset();
        if !returns {
            return Some((results, return_address));
        }
        self.map_roots(inst);
        if signature.call_conv != CallConv::PreserveAll {
            self.registers.forget();
        }
        // The callee has dropped its arguments: the stack pointer goes back to where it was.
        if arguments.stack_bytes > 0 && signature.call_conv == CallConv::Tail {
            self.asm.alu_number(Alu::Sub, Width::W64, RSP, arguments.stack_bytes);
        }
        Some((results, return_address))
    }

    /// Notes which slots of the frame hold references while a call has not returned.
    fn map_roots(&mut self, call: ir::Inst) {
        let Some(entries) = self.function.dfg.user_stack_map_entries(call) else { return };
        let distance = |entry: &ir::UserStackMapEntry| (-self.plan.slot(entry.slot)) as u32 - entry.offset;
        let mut distances: Vec<u32> = entries.iter().map(distance).collect();
        distances.sort_unstable();
        self.code.stack_maps.push((self.asm.offset(), distances));
    }

    pub(super) fn call(&mut self, inst: ir::Inst, opcode: Opcode, callee: Option<ir::FuncRef>) -> Option<()> {
        let function = self.function;
        let signature = function.dfg.call_signature(inst)?;
        if matches!(opcode, Opcode::ReturnCall | Opcode::ReturnCallIndirect) {
            return self.transfer(inst, callee, signature, false).map(|_| ());
        }
        if !matches!(opcode, Opcode::Call | Opcode::CallIndirect) {
            return None;
        }
        let (results, _) = self.transfer(inst, callee, signature, true)?;
        for (&value, location) in function.dfg.inst_results(inst).iter().zip(results.each) {
            match location {
                Location::Gpr(register) => self.define_gpr(value, register),
                Location::Xmm(register) => self.define_xmm(value, register),
                Location::Stack(_) => unreachable!("results are in registers"),
            }
        }
        Some(())
    }

    pub(super) fn try_call(
        &mut self,
        inst: ir::Inst,
        callee: Option<ir::FuncRef>,
        exception: ir::ExceptionTable,
    ) -> Option<()> {
        let table = &self.function.dfg.exception_tables[exception];
        let signature = table.signature();
        let (results, offset) = self.transfer(inst, callee, signature, true)?;
        self.registers.forget();
        self.pass(table.normal_return(), &results.each, &[])?;
        self.asm.jump(self.label_of(table.normal_return().block(&self.function.dfg.value_lists)));
        let context_home = self.context_home?;
        let mut handlers = Vec::new();
        for item in table.items() {
            let (tag, call) = match item {
                ExceptionTableItem::Tag(tag, call) => (Some(tag.as_u32()), call),
                ExceptionTableItem::Default(call) => (None, call),
                ExceptionTableItem::Context(context) if self.kind(self.same(context)) == Kind::Context => continue,
                ExceptionTableItem::Context(_) => return None,
            };
            let landing = self.asm.label();
            self.asm.bind(landing);
            // No register has kept anything.
            self.asm.mov(Width::W64, CONTEXT, Mem::at(RBP, context_home));
            self.pass(&call, &[], CAUGHT)?;
            self.asm.jump(self.label_of(call.block(&self.function.dfg.value_lists)));
            handlers.push((tag, landing.number()));
        }
        if !handlers.is_empty() {
            // The frame's size is not known yet.
            self.code.call_sites.push(CodeCallSite { offset, sp_distance: 0, context_offset: 0, handlers });
        }
        Some(())
    }
}

/// Copies registers as if all at once. `scratch` is written to where they form a circle.
fn in_parallel<R: Copy + PartialEq>(mut moves: Vec<(R, R)>, scratch: R, mut copy: impl FnMut(R, R)) {
    moves.retain(|(to, from)| to != from);
    while !moves.is_empty() {
        let is_read = |to: R, moves: &[(R, R)]| moves.iter().any(|&(_, from)| from == to);
        match (0..moves.len()).find(|&number| !is_read(moves[number].0, &moves)) {
            Some(number) => {
                let (to, from) = moves.swap_remove(number);
                copy(to, from);
            }
            None => {
                let (first, _) = moves[0];
                copy(scratch, first);
                moves.iter_mut().filter(|(_, from)| *from == first).for_each(|(_, from)| *from = scratch);
            }
        }
    }
}
