//! Which functions Cranelift's mid-end has something to do in.
//!
//! The passes of MIR have merged what is computed or loaded twice, and lowering asks once for each base address and for
//! each form of a reference. What remains for the mid-end is to move things out of loops, accesses to linear memories,
//! and arithmetic: divisions by constants, and shifts that are a rotation together.

use crate::mir::{BinaryOp, Cfg, Function, Op};

/// Whether the mid-end may make a function's code faster.
pub(crate) fn gains_by_mid_end(function: &Function, cfg: &Cfg) -> bool {
    let mut insts = cfg.order.iter().flat_map(|block| &function.blocks[block.index()].insts);
    insts.any(|inst| gains(&function.insts[inst.index()].op)) || cfg.has_loops()
}

fn gains(op: &Op) -> bool {
    use BinaryOp::*;
    match op {
        Op::Load(..) | Op::Store(..) => true,
        Op::Binary(op) => matches!(
            op,
            I32DivS | I32DivU | I32RemS | I32RemU | I32Shl | I32ShrS | I32ShrU | I64DivS | I64DivU | I64RemS | I64RemU
                | I64Shl | I64ShrS | I64ShrU
        ),
        _ => false,
    }
}
