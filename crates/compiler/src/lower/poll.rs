//! Polls: the stack check of function entries and the poll of loop back-edges.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::MutatorContext;

use super::Lowering;
use super::access::Region;
use super::env::POINTER;
use crate::abi::Builtin;
use crate::mir::{self, Block, Terminator, ValueDef};
use crate::passes::analysis::SafepointKey;

/// A function without calls and with at most this many instructions has so small a frame that it needs no stack check.
const SMALL_LEAF: usize = 200;

/// Whether a function checks the stack at its entry.
pub(super) fn needs_stack_check(mir: &mir::Function, order: &[Block]) -> bool {
    let mut count = 0;
    for &block in order {
        let data = &mir.blocks[block.index()];
        count += data.insts.len();
        let calls = data.insts.iter().any(|&inst| mir.insts[inst.index()].op.properties().calls);
        let ends_in_call = matches!(
            data.terminator,
            Some(Terminator::TryCall { .. } | Terminator::TailCall { .. } | Terminator::Throw { .. })
        );
        if calls || ends_in_call {
            return true;
        }
    }
    count > SMALL_LEAF
}

impl Lowering<'_, '_> {
    /// Calls the poll builtin where the stack pointer is below the limit. `params` are the function's parameters.
    pub(super) fn check_stack(&mut self, params: &[ir::Value]) {
        let sp = self.b.ins().get_stack_pointer(POINTER);
        let mutator = self.mutator();
        let flags = self.flags(Region::Poll).with_aligned();
        let limit = self.b.ins().load(POINTER, flags, mutator, MutatorContext::STACK_LIMIT_OFFSET as i32);
        let below = self.b.ins().icmp(IntCC::UnsignedLessThan, sp, limit);
        let mir = self.mir;
        self.cold_poll(below, SafepointKey::Entry, |_, value| match mir.values[value.index()].def {
            ValueDef::Param(_, number) => params[number as usize],
            other => panic!("only parameters live at the entry, not {other:?}"),
        });
    }

    /// A safepoint at a loop back-edge.
    pub(super) fn poll(&mut self, key: SafepointKey) {
        let mutator = self.mutator();
        let flags = self.flags(Region::Poll).with_aligned();
        let word = self.b.ins().load(types::I32, flags, mutator, MutatorContext::POLL_OFFSET as i32);
        self.cold_poll(word, key, |l, value| l.value(value));
    }

    fn cold_poll(
        &mut self,
        condition: ir::Value,
        key: SafepointKey,
        find: impl Fn(&mut Self, mir::Value) -> ir::Value,
    ) {
        let cold = self.b.create_block();
        let rejoin = self.b.create_block();
        self.b.ins().brif(condition, cold, &[], rejoin, &[]);
        self.b.set_cold_block(cold);
        self.b.switch_to_block(cold);
        self.spill_roots_with(key, find);
        let function = self.builtin_ref(Builtin::Poll);
        let call = self.b.ins().call(function, &[self.context]);
        self.map_roots(call, key);
        self.reload_roots(key);
        self.b.ins().jump(rejoin, &[]);
        self.b.switch_to_block(rejoin);
    }
}
