//! Type tests that branches perform.

use crate::mir::{Block, Function, Op, Terminator};
use crate::passes::support::use_counts;

/// For each instruction whether it is a type test whose only use is the branch at the end of its own block, with
/// nothing but free operations between. The branch then goes straight from the test's outcomes to its targets.
pub(crate) fn fused_tests(mir: &Function, order: &[Block]) -> Vec<bool> {
    let mut fused = vec![false; mir.insts.len()];
    let mut candidates = Vec::new();
    for &block in order {
        let data = &mir.blocks[block.index()];
        let Some(Terminator::Branch { cond, .. }) = &data.terminator else { continue };
        let cond = mir.resolve(*cond);
        for &inst in data.insts.iter().rev() {
            let data = &mir.insts[inst.index()];
            match data.op {
                Op::RefTest(_) if data.results[0] == cond => {
                    candidates.push((cond, inst));
                    break;
                }
                Op::Refine(_) | Op::Const(_) => {}
                _ => break,
            }
        }
    }
    if candidates.is_empty() {
        return fused;
    }
    let uses = use_counts(mir, order);
    for (cond, inst) in candidates {
        fused[inst.index()] = uses[cond.index()] == 1;
    }
    fused
}
