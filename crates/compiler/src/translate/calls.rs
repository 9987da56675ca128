//! Calls and tail calls.

use smallvec::SmallVec;
use wasmparser::Operator;

use super::Translator;
use crate::mir::{Callee, Edge, NullCheck, Op, Terminator, Value};
use crate::module::{FuncIndex, TableIndex, TypeIndex};

impl Translator<'_> {
    /// Translates a call; false if it is none.
    pub(super) fn calls(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::Call { function_index } => {
                let (callee, ty) = self.direct(function_index);
                self.call(callee, ty);
            }
            Operator::CallIndirect { type_index, table_index } => {
                let (callee, ty) = self.indirect(type_index, table_index);
                self.call(callee, ty);
            }
            Operator::CallRef { type_index } => {
                let (callee, ty) = self.reference(type_index);
                self.call(callee, ty);
            }
            Operator::ReturnCall { function_index } => {
                let (callee, ty) = self.direct(function_index);
                self.tail_call(callee, ty);
            }
            Operator::ReturnCallIndirect { type_index, table_index } => {
                let (callee, ty) = self.indirect(type_index, table_index);
                self.tail_call(callee, ty);
            }
            Operator::ReturnCallRef { type_index } => {
                let (callee, ty) = self.reference(type_index);
                self.tail_call(callee, ty);
            }
            _ => return false,
        }
        true
    }

    fn direct(&mut self, function: u32) -> (Callee, TypeIndex) {
        let function = FuncIndex(function);
        (Callee::Direct(function), self.info.type_of(function))
    }

    fn indirect(&mut self, ty: u32, table: u32) -> (Callee, TypeIndex) {
        let ty = self.types.index(ty);
        (Callee::Indirect(TableIndex(table), ty, self.pop()), ty)
    }

    fn reference(&mut self, ty: u32) -> (Callee, TypeIndex) {
        let ty = self.types.index(ty);
        let reference = self.pop();
        (Callee::Reference(ty, reference, self.null_check_of(reference)), ty)
    }

    /// Whether an operation on the reference has to check for null.
    pub(super) fn null_check_of(&self, reference: Value) -> NullCheck {
        if self.ref_type(reference).nullable { NullCheck::Needed } else { NullCheck::Elided }
    }

    fn call(&mut self, callee: Callee, ty: TypeIndex) {
        let info = self.info;
        let signature = info.func_type(ty);
        let args = self.pop_many(signature.params.len());
        let handlers = self.handler_edges();
        if handlers.is_empty() {
            let inst = self.emit(Op::Call(callee), &args, &signature.results);
            let results = &self.builder.function.insts[inst.index()].results;
            self.stack.extend_from_slice(results);
            return;
        }
        let normal = self.new_block();
        for &ty in &signature.results {
            let result = self.builder.function.add_param(normal, ty);
            self.stack.push(result);
        }
        self.builder.limits.spend(signature.results.len() as u64);
        self.terminate(Terminator::TryCall { callee, args, normal: Edge::to(normal), handlers });
        self.continue_in(normal);
    }

    /// The frame is gone when the callee runs, so that no handler of this function applies.
    fn tail_call(&mut self, callee: Callee, ty: TypeIndex) {
        let info = self.info;
        let args: SmallVec<[Value; 4]> = self.pop_many(info.func_type(ty).params.len());
        self.terminate(Terminator::TailCall { callee, args });
    }
}
