//! One instruction to the function that translates its group; locals, globals and the operand stack here.

use wasmparser::Operator;

use super::Translator;
use crate::CompileError;
use crate::mir::Op;
use crate::module::GlobalIndex;

impl Translator<'_> {
    /// Translates an instruction in reachable code.
    pub(super) fn dispatch(&mut self, operator: &Operator<'_>) -> Result<(), CompileError> {
        match *operator {
            Operator::Nop => {}
            Operator::Drop => {
                self.pop();
            }
            Operator::LocalGet { local_index } => {
                let value = self.builder.read(local_index, self.block);
                let value = match self.non_null.get(&local_index) {
                    Some(&ty) => self.refine(value, ty),
                    None => value,
                };
                self.push(value);
            }
            Operator::LocalSet { local_index } => {
                let value = self.pop();
                self.builder.write(local_index, self.block, value);
            }
            Operator::LocalTee { local_index } => {
                let value = self.pop();
                self.builder.write(local_index, self.block, value);
                self.push(value);
            }
            Operator::GlobalGet { global_index } => {
                let ty = self.info.globals[global_index as usize].value;
                self.apply(0, Op::GlobalGet(GlobalIndex(global_index)), Some(ty));
            }
            Operator::GlobalSet { global_index } => self.apply(1, Op::GlobalSet(GlobalIndex(global_index)), None),
            Operator::Select => {
                let ty = self.value_type(self.stack[self.stack.len() - 2]);
                self.select(ty);
            }
            Operator::TypedSelect { ty } => {
                let ty = self.types.value(ty, self.offset)?;
                self.select(ty);
            }
            _ => {
                let done = self.numeric(operator)
                    || self.control(operator)?
                    || self.gc(operator)?
                    || self.calls(operator)
                    || self.memory(operator)?
                    || self.exceptions(operator)?
                    || self.table(operator)
                    || self.vectors(operator)?;
                if !done {
                    return Err(CompileError::Unsupported { what: format!("{operator:?}"), offset: self.offset });
                }
            }
        }
        Ok(())
    }

    fn select(&mut self, ty: crate::module::ValueType) {
        let cond = self.pop();
        let otherwise = self.pop();
        let then = self.pop();
        self.push_value(Op::Select, &[cond, then, otherwise], ty);
    }
}
