//! On-stack replacement: loops of quickly compiled code go on in optimised code. The locals are passed on by a tail
//! call, so that the frame is the callee's from then on.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};

use super::Lowering;
use super::access::Region;
use super::env::{POINTER, code_signature};
use crate::abi::{Builtin, ContextHead};
use crate::mir::Value;

impl Lowering<'_, '_> {
    /// Counts an iteration of the loop at this offset in the module file; when the count is at its end, asks for code.
    pub(super) fn osr_entry(&mut self, offset: u32) -> ir::Value {
        let flags = self.flags(Region::Loops).with_aligned();
        let at = std::mem::offset_of!(ContextHead, loops_left) as i32;
        let left = self.b.ins().load(types::I32, flags, self.context, at);
        let left = self.b.ins().iadd_imm_s(left, -1);
        self.b.ins().store(flags, left, self.context, at);
        let over = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, left, 0);
        let none = self.b.ins().iconst(POINTER, 0);
        let (asking, rejoin) = (self.b.create_block(), self.b.create_block());
        let code = self.b.append_block_param(rejoin, POINTER);
        self.b.ins().brif(over, asking, &[], rejoin, &[none.into()]);
        self.b.set_cold_block(asking);
        self.b.switch_to_block(asking);
        let [function, offset] =
            [self.mir.index.0, offset].map(|number| self.b.ins().iconst(types::I32, i64::from(number)));
        let found = self.builtin_cold(Builtin::OsrEntry, &[function, offset]);
        self.b.ins().jump(rejoin, &[found.into()]);
        self.b.switch_to_block(rejoin);
        code
    }

    /// Goes on in the code at an address, with these locals.
    pub(super) fn replace_frame(&mut self, code: Value, locals: &[Value]) {
        let results = &self.env.info.func_type(self.mir.ty).results;
        let types: Vec<_> = locals.iter().map(|&local| self.mir.value_type(local)).collect();
        let signature = self.b.import_signature(code_signature(&types, results));
        let code = self.value(code);
        let mut args = vec![self.context];
        args.extend(locals.iter().map(|&local| self.value(local)));
        self.b.ins().return_call_indirect(signature, code, &args);
    }
}
