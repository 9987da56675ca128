//! Which bounds checks are left to the access behind them.
//!
//! An access that compares its index with something that is never more than the array's length - the end of a strip, an
//! inline length - makes a bounds check right before it superfluous where that comparison holds. The check moves to the
//! access' cold path, and the read of the length with it where nothing else needs that. Between check and access lies
//! nothing that traps, calls or stores, so no effect changes its place.

use rustc_hash::{FxHashMap, FxHashSet};

use super::guards::Guards;
use super::strips::StripPlan;
use crate::mir::{Block, Cfg, Function, Inst, NullCheck, Op, Value};
use crate::passes::heap::HeapFacts;
use crate::passes::support::is_length_of;

/// A bounds check that is left to the access behind it.
#[derive(Clone, Copy)]
pub(crate) enum MergedCheck {
    /// Against this length. Where arrays have inline lengths, it may have been left to an access before: it is to be
    /// read from the array, which is not null.
    Length(Value),
    /// Against the length of this array: to read that is left to the access too, with its check for null.
    LengthOf(Value, NullCheck),
}

/// The bounds checks of a function that are left to accesses.
#[derive(Default)]
pub(crate) struct MergedChecks {
    /// By access.
    checks: FxHashMap<Inst, MergedCheck>,
    /// Bounds checks, comparisons of the program's own, and reads of lengths.
    merged: FxHashSet<Inst>,
}

impl MergedChecks {
    /// The bounds check that an access makes.
    pub(crate) fn of(&self, access: Inst) -> Option<MergedCheck> {
        self.checks.get(&access).copied()
    }

    /// Whether a bounds check, the program's own comparison, or the read of a length, is left to the access behind it.
    pub(crate) fn is_merged(&self, inst: Inst) -> bool {
        self.merged.contains(&inst)
    }
}

/// Finds the checks to leave to accesses: to those by strips, and, where arrays have inline lengths, to all that
/// compare with one. Each instruction is looked at once or twice.
pub(crate) fn merge_checks(
    heap: &HeapFacts,
    mir: &Function,
    cfg: &Cfg,
    strips: &StripPlan,
    guards: &Guards,
) -> MergedChecks {
    let mut merger = Merger { mir, lengths: Vec::new(), merged: MergedChecks::default() };
    let Some(spines) = heap.spines else { return merger.merged };
    let grows = spines.layout.grows;
    if !grows && strips.strips.is_empty() {
        return merger.merged;
    }
    for &block in &cfg.order {
        let insts = &mir.blocks[block.index()].insts;
        for (position, &inst) in insts.iter().enumerate() {
            let data = &mir.insts[inst.index()];
            let (Op::ArrayGet(ty, _) | Op::ArraySet(ty)) = data.op else { continue };
            let (array, index) = (data.args[0], data.args[1]);
            let compares = strips.of(inst).is_some()
                || grows && !heap.lies_inline(mir, &spines, heap.info.element_kind(ty), array, index);
            if compares {
                merger.merge(inst, array, index, &insts[..position]);
            }
        }
        if let Some(guard) = guards.at_end(block) {
            merger.merged.checks.insert(guard.access, MergedCheck::Length(guard.length));
            merger.leave_length(guard.access, guard.length, insts);
        }
    }
    if !merger.lengths.is_empty() {
        let mut uses = uses_of_lengths(mir, &cfg.order, strips, &merger.merged, grows);
        merger.merge_guards(guards, &mut uses);
        // Where only strips make checks, one does not read a length that another has left out.
        let own = u32::from(!grows);
        merger.merge_lengths(&uses, own);
    }
    merger.merged
}

/// By value, how often it is used, the starts of strips included. Where arrays have inline lengths, accesses read
/// lengths again: their checks do not count.
fn uses_of_lengths(
    mir: &Function,
    order: &[Block],
    strips: &StripPlan,
    merged: &MergedChecks,
    grows: bool,
) -> Vec<u32> {
    let mut uses = vec![0; mir.values.len()];
    let mut count = |value: Value| uses[mir.resolve(value).index()] += 1;
    for &block in order {
        let data = &mir.blocks[block.index()];
        for &inst in &data.insts {
            let data = &mir.insts[inst.index()];
            if grows && matches!(data.op, Op::BoundsCheck) && merged.is_merged(inst) {
                continue;
            }
            data.args.iter().copied().for_each(&mut count);
            data.op.for_each_use(&mut count);
        }
        if let Some(terminator) = &data.terminator {
            terminator.for_each_use(&mut count);
        }
    }
    strips.strips.iter().filter_map(|strip| strip.length).for_each(count);
    uses
}

struct Merger<'a> {
    mir: &'a Function,
    /// The reads of lengths that could be left to accesses.
    lengths: Vec<LengthBefore>,
    merged: MergedChecks,
}

/// The read of a length right before the bounds check of an access.
struct LengthBefore {
    access: Inst,
    inst: Inst,
}

impl Merger<'_> {
    /// Leaves the check of an access to it, where it ends what lies before the access in its block.
    fn merge(&mut self, access: Inst, array: Value, index: Value, before: &[Inst]) {
        let mir = self.mir;
        let index = mir.resolve(index);
        for (position, &inst) in before.iter().enumerate().rev() {
            let data = &mir.insts[inst.index()];
            match data.op {
                Op::BoundsCheck => {
                    let length = mir.resolve(data.args[1]);
                    if mir.resolve(data.args[0]) == index && is_length_of(mir, length, array) {
                        self.merged.merged.insert(inst);
                        self.merged.checks.insert(access, MergedCheck::Length(length));
                        self.leave_length(access, length, &before[..position]);
                    }
                    return;
                }
                ref op if op.properties().is_computation() => {}
                _ => return,
            }
        }
    }

    /// Notes the read of a length as one to leave to an access, where it ends what lies before the check.
    fn leave_length(&mut self, access: Inst, length: Value, before: &[Inst]) {
        let effect = before.iter().rev().find(|inst| !self.mir.insts[inst.index()].op.properties().is_computation());
        if let Some(&inst) = effect
            && let data = &self.mir.insts[inst.index()]
            && matches!(data.op, Op::ArrayLen(_))
            && data.results[0] == length
        {
            self.lengths.push(LengthBefore { access, inst });
        }
    }

    /// Leaves the program's own comparisons that only decide for guarded accesses to these.
    fn merge_guards(&mut self, guards: &Guards, uses: &mut [u32]) {
        for guard in guards.iter() {
            let data = &self.mir.insts[guard.compare.index()];
            if uses[data.results[0].index()] == 1 {
                self.merged.merged.insert(guard.compare);
                uses[guard.length.index()] -= 1;
            }
        }
    }

    /// Leaves the reads of lengths that are not used otherwise to accesses. `own`: as how many uses the access counts.
    fn merge_lengths(&mut self, uses: &[u32], own: u32) {
        for LengthBefore { access, inst } in std::mem::take(&mut self.lengths) {
            let data = &self.mir.insts[inst.index()];
            let Op::ArrayLen(check) = data.op else { unreachable!("the read of a length") };
            if uses[data.results[0].index()] == own {
                self.merged.merged.insert(inst);
                self.merged.checks.insert(access, MergedCheck::LengthOf(data.args[0], check));
            }
        }
    }
}
