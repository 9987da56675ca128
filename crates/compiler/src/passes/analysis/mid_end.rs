//! Which functions Cranelift's mid-end has something to do in.
//!
//! The passes of MIR have merged what is computed or loaded twice; lowering makes base addresses and forms of
//! references once (`lower/made.rs`), and constants where they are used. What remains for the mid-end is to move things
//! out of loops, accesses to linear memories, vectors, which are seen as other lanes again and again, and arithmetic:
//! divisions and multiplications by constants, and shifts that are a rotation together.

use crate::mir::{BinaryOp, Cfg, Constant, Function, InstData, Op};
use crate::passes::constant;

/// Whether the mid-end may make a function's code faster.
pub(crate) fn gains_by_mid_end(function: &Function, cfg: &Cfg) -> bool {
    let mut insts = cfg.order.iter().flat_map(|block| &function.blocks[block.index()].insts);
    insts.any(|&inst| gains(function, &function.insts[inst.index()])) || cfg.has_loops()
}

fn gains(function: &Function, data: &InstData) -> bool {
    use BinaryOp::*;
    match data.op {
        Op::Load(..) | Op::Store(..) | Op::Vector(_) => true,
        Op::Binary(I32Mul | I64Mul) => {
            let factor = constant(function, function.resolve(data.args[1]));
            matches!(factor, Some(Constant::I32(factor)) if factor.unsigned_abs().is_power_of_two())
                || matches!(factor, Some(Constant::I64(factor)) if factor.unsigned_abs().is_power_of_two())
        }
        Op::Binary(op) => matches!(
            op,
            I32DivS
                | I32DivU
                | I32RemS
                | I32RemU
                | I32Shl
                | I32ShrS
                | I32ShrU
                | I64DivS
                | I64DivU
                | I64RemS
                | I64RemU
                | I64Shl
                | I64ShrS
                | I64ShrU
        ),
        _ => false,
    }
}
