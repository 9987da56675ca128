//! Type tests and casts: inline display checks.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::types::{MIN_DISPLAY, TypeKind, TypeRecord};

use super::Lowering;
use super::access::{Region, trap};
use super::env::POINTER;
use crate::abi::FuncRef;
use crate::artifact::TrapCode;
use crate::mir::{Edge, Value};
use crate::module::{CompositeType, HeapType, RefType, TypeIndex, ValueType};

/// Where the outcomes of a test go. Tests are written as a sequence of `pass_if`, `fail_if` and one `finish`.
enum Outcome {
    /// Failing is a trap; passing goes on here, by way of the block, once there is one.
    Cast { pass: Option<ir::Block> },
    /// Both outcomes go to blocks.
    Branch { pass: (ir::Block, Vec<ir::BlockArg>), fail: (ir::Block, Vec<ir::BlockArg>) },
    /// The outcome becomes a 0 or 1: the parameter of the block, once there is one.
    Value { join: Option<ir::Block>, value: Option<ir::Value> },
}

impl Outcome {
    /// The trap that may stand for failing.
    fn trap(&self) -> Option<TrapCode> {
        match self {
            Outcome::Cast { .. } => Some(TrapCode::CastFailure),
            _ => None,
        }
    }
}

impl Lowering<'_, '_> {
    pub(super) fn ref_test(&mut self, value: Value, target: RefType) -> ir::Value {
        let mut outcome = Outcome::Value { join: None, value: None };
        self.check(value, target, &mut outcome);
        match outcome {
            Outcome::Value { value: Some(value), .. } => value,
            _ => unreachable!("every check finishes"),
        }
    }

    pub(super) fn ref_cast(&mut self, value: Value, target: RefType) -> ir::Value {
        self.check(value, target, &mut Outcome::Cast { pass: None });
        self.value(value)
    }

    pub(super) fn branch_on_test(&mut self, value: Value, target: RefType, then: &Edge, otherwise: &Edge) {
        let mut outcome = Outcome::Branch { pass: self.edge(then), fail: self.edge(otherwise) };
        self.check(value, target, &mut outcome);
    }

    /// Goes to the pass outcome where the condition is not zero.
    fn pass_if(&mut self, condition: ir::Value, outcome: &mut Outcome) {
        let next = self.b.create_block();
        match outcome {
            Outcome::Cast { pass } => {
                let pass = *pass.get_or_insert_with(|| self.b.create_block());
                self.b.ins().brif(condition, pass, &[], next, &[]);
            }
            Outcome::Branch { pass: (pass, args), .. } => {
                self.b.ins().brif(condition, *pass, &*args, next, &[]);
            }
            Outcome::Value { join, .. } => {
                let join = *join.get_or_insert_with(|| self.b.create_block());
                let one = self.b.ins().iconst(types::I32, 1);
                self.b.ins().brif(condition, join, &[one.into()], next, &[]);
            }
        }
        self.b.switch_to_block(next);
    }

    /// Goes to the fail outcome where the condition is not zero.
    fn fail_if(&mut self, condition: ir::Value, outcome: &mut Outcome) {
        match outcome {
            Outcome::Cast { .. } => {
                self.b.ins().trapnz(condition, trap(TrapCode::CastFailure));
            }
            Outcome::Branch { fail: (fail, args), .. } => {
                let next = self.b.create_block();
                self.b.ins().brif(condition, *fail, &*args, next, &[]);
                self.b.switch_to_block(next);
            }
            Outcome::Value { join, .. } => {
                let next = self.b.create_block();
                let join = *join.get_or_insert_with(|| self.b.create_block());
                let zero = self.b.ins().iconst(types::I32, 0);
                self.b.ins().brif(condition, join, &[zero.into()], next, &[]);
                self.b.switch_to_block(next);
            }
        }
    }

    /// The last step: passes where the condition is not zero, fails otherwise.
    fn finish(&mut self, condition: ir::Value, outcome: &mut Outcome) {
        match outcome {
            Outcome::Cast { pass } => {
                self.b.ins().trapz(condition, trap(TrapCode::CastFailure));
                if let Some(pass) = *pass {
                    self.b.ins().jump(pass, &[]);
                    self.b.switch_to_block(pass);
                }
            }
            Outcome::Branch { pass, fail } => {
                self.b.ins().brif(condition, pass.0, &pass.1, fail.0, &fail.1);
            }
            Outcome::Value { join, value } => {
                let boolean = self.boolean(condition);
                *value = Some(match *join {
                    None => boolean,
                    Some(join) => {
                        let result = self.b.append_block_param(join, types::I32);
                        self.b.ins().jump(join, &[boolean.into()]);
                        self.b.switch_to_block(join);
                        result
                    }
                });
            }
        }
    }

    fn finish_constant(&mut self, pass: bool, outcome: &mut Outcome) {
        let condition = self.b.ins().iconst(types::I8, i64::from(pass));
        self.finish(condition, outcome);
    }

    /// Checks whether `value` belongs to `target`.
    fn check(&mut self, value: Value, target: RefType, outcome: &mut Outcome) {
        let ValueType::Ref(source) = self.mir.value_type(self.mir.resolve(value)) else {
            panic!("a type test of something that is no reference")
        };
        // What is loaded after a branch does not dominate what follows the check.
        let (bases, located, block) = (self.bases, self.located.take_note(), self.b.current_block());
        let reference = self.value(value);
        self.check_reference(reference, source, target, outcome);
        self.return_to_bases(bases, block);
        self.located.restore(located);
    }

    fn check_reference(&mut self, reference: ir::Value, source: RefType, target: RefType, outcome: &mut Outcome) {
        let is_null = |l: &mut Self| l.b.ins().icmp_imm_u(IntCC::Equal, reference, 0);
        if self.env.info.is_heap_subtype(source.heap, target.heap) {
            // Only null can fail.
            if target.nullable || !source.nullable {
                return self.finish_constant(true, outcome);
            }
            let not_null = self.b.ins().icmp_imm_u(IntCC::NotEqual, reference, 0);
            return self.finish(not_null, outcome);
        }
        if is_bottom(target.heap) {
            if !source.nullable || !target.nullable {
                return self.finish_constant(false, outcome);
            }
            let null = is_null(self);
            return self.finish(null, outcome);
        }
        // A cast that null fails leaves the check to the fault of its first access, where there is one.
        let mut null_trap = None;
        if source.nullable {
            if target.nullable {
                let null = is_null(self);
                self.pass_if(null, outcome);
            } else if target.heap == HeapType::I31 {
                // Null has no low bit.
            } else if outcome.trap().is_some() {
                null_trap = outcome.trap();
            } else {
                let null = is_null(self);
                self.fail_if(null, outcome);
            }
        }
        if matches!(source.heap, HeapType::Any | HeapType::Eq) {
            let low_bit = self.b.ins().band_imm_u(reference, 1);
            match target.heap {
                HeapType::I31 => return self.finish(low_bit, outcome),
                HeapType::Eq => self.pass_if(low_bit, outcome),
                _ => self.fail_if(low_bit, outcome),
            }
        }
        if source.heap == HeapType::I31 {
            // An immediate is no object.
            return self.finish_constant(false, outcome);
        }
        match target.heap {
            HeapType::Struct => self.check_kind(reference, null_trap, TypeKind::Struct, outcome),
            HeapType::Array => self.check_kind(reference, null_trap, TypeKind::Array, outcome),
            HeapType::Eq => {
                // Struct or array; what else may stand there is a host value.
                let kind = self.object_kind(reference, null_trap);
                let number = self.b.ins().iadd_imm_s(kind, -(TypeKind::Struct as i64));
                let object = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, number, 1);
                self.finish(object, outcome);
            }
            HeapType::Concrete(ty) => self.check_concrete(reference, null_trap, ty, outcome),
            // i31 from a type that holds none; the tops of the hierarchies are supertypes of every source.
            _ => self.finish_constant(false, outcome),
        }
    }

    /// A field of the record of the type whose id is given.
    fn record_field(&mut self, type_id: ir::Value, offset: u32) -> ir::Value {
        let table = self.types();
        let id = self.b.ins().uextend(POINTER, type_id);
        let record = self.b.ins().iadd(table, id);
        let flags = self.flags(Region::Types).with_aligned().with_readonly();
        self.b.ins().load(types::I32, flags, record, offset as i32)
    }

    fn object_kind(&mut self, reference: ir::Value, null_trap: Option<TrapCode>) -> ir::Value {
        let id = self.object_type_id(reference, null_trap);
        self.record_field(id, TypeRecord::KIND_OFFSET)
    }

    fn check_kind(&mut self, reference: ir::Value, null_trap: Option<TrapCode>, kind: TypeKind, outcome: &mut Outcome) {
        let found = self.object_kind(reference, null_trap);
        let equal = self.b.ins().icmp_imm_u(IntCC::Equal, found, kind as i64);
        self.finish(equal, outcome);
    }

    fn check_concrete(
        &mut self,
        reference: ir::Value,
        null_trap: Option<TrapCode>,
        ty: TypeIndex,
        outcome: &mut Outcome,
    ) {
        let id = match self.env.info.types[ty.index()].composite {
            CompositeType::Func(_) => {
                if let Some(code) = null_trap {
                    self.b.ins().trapz(reference, trap(code));
                }
                let record = self.func_ref_record(reference);
                self.func_ref_field(types::I32, record, std::mem::offset_of!(FuncRef, type_id))
            }
            _ => self.object_type_id(reference, null_trap),
        };
        let target = &self.env.info.types[ty.index()];
        if target.is_final {
            let wanted = self.type_id(ty);
            let equal = self.b.ins().icmp(IntCC::Equal, id, wanted);
            return self.finish(equal, outcome);
        }
        let depth = target.depth;
        if !self.env.info.has_subtypes(ty) {
            // Only another module can have subtypes of it: mostly, objects are of the type itself.
            let wanted = self.type_id(ty);
            let equal = self.b.ins().icmp(IntCC::Equal, id, wanted);
            self.pass_if(equal, outcome);
            if matches!(outcome, Outcome::Cast { .. }) {
                self.b.set_cold_block(self.b.current_block().expect("it is being filled"));
            }
        }
        if depth >= MIN_DISPLAY {
            let length = self.record_field(id, TypeRecord::DISPLAY_LENGTH_OFFSET);
            let shallow = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, length, i64::from(depth));
            self.fail_if(shallow, outcome);
        }
        let equal = self.display_matches(id, ty, depth);
        self.finish(equal, outcome);
    }

    /// Whether the display of the type `id` has the type `wanted` at `depth`. The display is known to be that long.
    fn display_matches(&mut self, id: ir::Value, wanted: TypeIndex, depth: u32) -> ir::Value {
        let found = self.record_field(id, TypeRecord::DISPLAY_OFFSET + 4 * depth);
        // Behind the other: so it is an operand of the comparison in memory.
        let wanted = self.type_id(wanted);
        self.b.ins().icmp(IntCC::Equal, found, wanted)
    }

    /// Traps with `BadSignature` unless the type `id` of a function is the function type `ty` or a subtype of it. With
    /// `null`, the function's reference may be null, and that is the trap then.
    pub(super) fn check_signature(&mut self, id: ir::Value, ty: TypeIndex, null: Option<(ir::Value, TrapCode)>) {
        let wanted = self.type_id(ty);
        let equal = self.b.ins().icmp(IntCC::Equal, id, wanted);
        let target = &self.env.info.types[ty.index()];
        let (is_final, depth) = (target.is_final, target.depth);
        let bases = self.bases;
        let different = self.b.create_block();
        let done = self.b.create_block();
        self.b.ins().brif(equal, done, &[], different, &[]);
        self.b.set_cold_block(different);
        self.b.switch_to_block(different);
        if let Some((reference, code)) = null {
            self.b.ins().trapz(reference, trap(code));
        }
        if is_final {
            self.b.ins().trap(trap(TrapCode::BadSignature));
            self.b.switch_to_block(done);
            self.bases = bases;
            return;
        }
        if depth >= MIN_DISPLAY {
            let length = self.record_field(id, TypeRecord::DISPLAY_LENGTH_OFFSET);
            let shallow = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, length, i64::from(depth));
            self.b.ins().trapnz(shallow, trap(TrapCode::BadSignature));
        }
        let matches = self.display_matches(id, ty, depth);
        self.b.ins().trapz(matches, trap(TrapCode::BadSignature));
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        self.bases = bases;
    }
}

fn is_bottom(heap: HeapType) -> bool {
    matches!(heap, HeapType::None | HeapType::NoFunc | HeapType::NoExtern | HeapType::NoExn)
}
