//! Exceptions that are thrown where they are made.

use crate::mir::{Block, Function, Op, Terminator};
use crate::module::TagIndex;
use crate::passes::support::use_counts;

/// For each instruction whether it makes an exception whose only use is the throw at the end of its own block, right
/// behind it, of a tag that `takes_part` says this of. One call then does both.
pub(crate) fn fused_throws(mir: &Function, order: &[Block], takes_part: impl Fn(TagIndex) -> bool) -> Vec<bool> {
    let mut fused = vec![false; mir.insts.len()];
    let candidates = order.iter().filter_map(|&block| {
        let data = &mir.blocks[block.index()];
        let Some(Terminator::Throw { exception, .. }) = &data.terminator else { return None };
        let &inst = data.insts.last()?;
        let made = &mir.insts[inst.index()];
        let Op::ExceptionNew(tag) = made.op else { return None };
        let exception = mir.resolve(*exception);
        (made.results[0] == exception && takes_part(tag)).then_some((exception, inst))
    });
    let candidates: Vec<_> = candidates.collect();
    if candidates.is_empty() {
        return fused;
    }
    let uses = use_counts(mir, order);
    for (exception, inst) in candidates {
        fused[inst.index()] = uses[exception.index()] == 1;
    }
    fused
}
