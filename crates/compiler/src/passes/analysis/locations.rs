//! Which objects' places are kept in registers while a loop runs.
//!
//! Where a reference leads to its object through a word that changes when the object is moved, each access looks the
//! object up, at least once in every iteration: the poll at the back-edge is a safepoint. But hardly ever does a poll
//! call anything. So a loop *holds* the place of an object whose reference does not change in it: the object is looked
//! up before the loop, and again in the cold path of each safepoint within, if that is taken.
//!
//! Before the loop a reference may be null, which the first access in the loop finds. So what is looked up for null is
//! the start of the cage, where an access faults. It must not be an immediate: what is looked up is a value whose type
//! has none.
//!
//! Loops that call are left alone, as are all but innermost ones: see [`quiet_loops`](super::quiet_loops).

use rustc_hash::{FxHashMap, FxHashSet};

use super::held::{Location, LocationPlan};
use super::quiet_loops::{QuietLoop, quiet_loops};
use super::roots::Safepoints;
use super::strips::StripPlan;
use crate::mir::{Block, Cfg, Dominators, Function, Inst, Op, Value};
use crate::module::{CompositeType, HeapType, ModuleInfo, RefType, ValueType};
use crate::passes::heap::{HeapFacts, Lookups};
use crate::passes::support::{DefBlocks, origin, root};

/// A loop holds at most this many: each takes a register.
const MOST_LOCATIONS: usize = 4;

/// Finds what loops hold.
pub(crate) fn plan_locations(
    heap: &HeapFacts,
    mir: &Function,
    cfg: &Cfg,
    safepoints: &Safepoints,
    strips: &StripPlan,
) -> LocationPlan {
    let mut plan = LocationPlan::default();
    let Some(lookups) = heap.lookups else { return plan };
    let dominators = Dominators::new(mir, cfg);
    let loops = quiet_loops(mir, cfg, &dominators, safepoints);
    if loops.is_empty() {
        return plan;
    }
    let finder = Finder { info: heap.info, mir, lookups, strips, def_blocks: DefBlocks::new(mir, cfg) };
    for quiet in loops {
        let first = plan.locations.len();
        plan.locations.extend(finder.find(&quiet));
        let range = (first, plan.locations.len());
        if range.0 < range.1 {
            plan.headers.push(quiet.header);
            plan.held.extend(quiet.blocks.iter().map(|&block| (block, range)));
        }
    }
    plan
}

struct Finder<'a> {
    info: &'a ModuleInfo,
    mir: &'a Function,
    lookups: Lookups,
    strips: &'a StripPlan,
    def_blocks: DefBlocks,
}

impl Finder<'_> {
    /// What a loop holds: of the references that its hot blocks look up, those that are looked up in the most places.
    fn find(&self, quiet: &QuietLoop) -> impl Iterator<Item = Location> {
        let mir = self.mir;
        let within: FxHashSet<Block> = quiet.blocks.iter().copied().collect();
        let mut found: Vec<(Location, u32)> = Vec::new();
        let mut numbers: FxHashMap<Value, usize> = FxHashMap::default();
        let hot = quiet.blocks.iter().map(|block| &mir.blocks[block.index()]).filter(|data| !data.cold);
        for &inst in hot.flat_map(|data| &data.insts) {
            let Some(reference) = self.looked_up(inst).and_then(|looked_up| self.outside(looked_up, &within)) else {
                continue;
            };
            let Some(nullable) = self.has_no_immediates(reference) else { continue };
            let root = root(mir, reference);
            let number = *numbers.entry(root).or_insert_with(|| {
                found.push((Location { reference, root, nullable }, 0));
                found.len() - 1
            });
            let (location, count) = &mut found[number];
            *count += 1;
            if !nullable && location.nullable {
                (location.reference, location.nullable) = (reference, false);
            }
        }
        found.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        found.into_iter().take(MOST_LOCATIONS).map(|(location, _)| location)
    }

    /// The reference whose object an instruction looks up.
    fn looked_up(&self, inst: Inst) -> Option<Value> {
        let data = &self.mir.insts[inst.index()];
        let looks_up = match data.op {
            Op::StructGet(..) | Op::StructSet(..) => true,
            Op::ArrayGet(..) | Op::ArraySet(..) => self.strips.of(inst).is_none(),
            Op::ArrayLen(_) => self.lookups.lengths,
            Op::RefTest(_) | Op::RefCast(_) => self.lookups.type_ids,
            _ => false,
        };
        looks_up.then(|| data.args[0])
    }

    /// The same reference as it comes from outside of a loop, if it does.
    fn outside(&self, reference: Value, within: &FxHashSet<Block>) -> Option<Value> {
        let mut at = self.mir.resolve(reference);
        while within.contains(&self.def_blocks.of(self.mir, at)) {
            let (op, args) = origin(self.mir, at)?;
            if !op.properties().copies {
                return None;
            }
            at = self.mir.resolve(args[0]);
        }
        Some(at)
    }

    /// Whether a reference may be null; `None` where it may be an immediate, too.
    fn has_no_immediates(&self, reference: Value) -> Option<bool> {
        let ValueType::Ref(RefType { nullable, heap }) = self.mir.value_type(reference) else { return None };
        let is_object = match heap {
            HeapType::Struct | HeapType::Array => true,
            HeapType::Concrete(ty) => !matches!(self.info.types[ty.index()].composite, CompositeType::Func(_)),
            _ => false,
        };
        is_object.then_some(nullable)
    }
}
