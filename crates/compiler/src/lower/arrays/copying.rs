//! `array.copy`. Most copies are of a few elements, or none: parts of short strings, what lies behind an element that a
//! list removes at its end. These are made in line.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::StorageKind;
use legato_heap::plan::ArrayPlan;

use super::{Element, contiguous};
use crate::abi::Builtin;
use crate::lower::Lowering;
use crate::mir::NullCheck;
use crate::module::TypeIndex;
use crate::passes::analysis::SafepointKey;

/// The most that is copied in line, in bytes: two vectors.
const MOST_BYTES: u32 = 32;

/// What loads and stores move at once, in bytes, widest first.
const WIDTHS: [(u32, ir::Type); 5] =
    [(16, types::I8X16), (8, types::I64), (4, types::I32), (2, types::I16), (1, types::I8)];

impl Lowering<'_, '_> {
    /// `array.copy`: (destination, start, source, start, length), to an array of type `ty`. In line are copies of
    /// nothing, and short ones of numbers, between arrays that lie in one piece.
    pub(in crate::lower) fn array_copy(&mut self, ty: TypeIndex, args: &[ir::Value], key: SafepointKey) {
        let plan = self.env.plan;
        let is_plain = plan.arrays == ArrayPlan::Contiguous && plan.store_barrier.mirror.is_none();
        if !self.copies_inline || !is_plain {
            return self.bulk(Builtin::ArrayCopy, args, key);
        }
        let &[to, to_start, from, from_start, count] = args else { unreachable!("five operands") };
        let kind = self.env.element_kind(ty);
        let most = if kind == StorageKind::Ref { 0 } else { MOST_BYTES / kind.bytes() };
        self.cage();
        // What is loaded after a branch does not dominate what follows the copy.
        let (bases, located, block) = (self.bases, self.located.take_note(), self.b.current_block());
        let [by_call, done] = [(); 2].map(|()| self.b.create_block());
        let is_long = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, count, i64::from(most));
        self.branch_away(is_long, by_call);
        let counted = self.index64(count);
        for (array, start) in [(to, to_start), (from, from_start)] {
            let length = self.array_len(NullCheck::Elided, array);
            let (start, length) = (self.index64(start), self.index64(length));
            let end = self.b.ins().iadd(start, counted);
            let is_outside = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, length);
            self.branch_away(is_outside, by_call);
        }
        if kind != StorageKind::Ref {
            let [to, from] = [(to, to_start), (from, from_start)].map(|(array, index)| {
                contiguous::address(self, Element { kind, array, index, is_inline: false, check: None })
            });
            self.copy_few(kind, to, from, counted, done);
        }
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(by_call);
        self.builtin(Builtin::ArrayCopy, args);
        self.b.ins().jump(done, &[]);
        self.b.switch_to_block(done);
        self.return_to_bases(bases, block);
        self.located.restore(located);
    }

    /// Copies up to [`MOST_BYTES`] bytes from one address to another, each with a constant offset, and goes to `done`;
    /// goes on here where there are none. All is loaded before anything is stored, since the two may overlap.
    fn copy_few(
        &mut self,
        kind: StorageKind,
        (to, to_offset): (ir::Value, i32),
        (from, from_offset): (ir::Value, i32),
        count: ir::Value,
        done: ir::Block,
    ) {
        let size = kind.bytes();
        let bytes = self.b.ins().ishl_imm_u(count, i64::from(size.trailing_zeros()));
        let flags = self.element_flags(kind);
        for (width, ty) in WIDTHS.into_iter().filter(|&(width, _)| width >= size) {
            let [copy, next] = [(); 2].map(|()| self.b.create_block());
            let is_enough = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, bytes, i64::from(width));
            self.b.ins().brif(is_enough, copy, &[], next, &[]);
            self.b.switch_to_block(copy);
            let first = self.b.ins().load(ty, flags, from, from_offset);
            // One element is all there is, where twice as much would have been copied before.
            let is_single = width == size && width < WIDTHS[0].0;
            let last = (!is_single).then(|| {
                let behind = self.b.ins().iadd_imm_s(bytes, -i64::from(width));
                let source = self.b.ins().iadd(from, behind);
                (behind, self.b.ins().load(ty, flags, source, from_offset))
            });
            self.b.ins().store(flags, first, to, to_offset);
            if let Some((behind, last)) = last {
                let target = self.b.ins().iadd(to, behind);
                self.b.ins().store(flags, last, target, to_offset);
            }
            self.b.ins().jump(done, &[]);
            self.b.switch_to_block(next);
        }
    }

    /// Leaves for a block where the condition holds.
    fn branch_away(&mut self, condition: ir::Value, block: ir::Block) {
        let next = self.b.create_block();
        self.b.ins().brif(condition, block, &[], next, &[]);
        self.b.switch_to_block(next);
    }
}
