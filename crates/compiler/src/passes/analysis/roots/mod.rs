//! Which references the collector must find at which safepoint, and in which stack slots.
//!
//! Every reference that lives across a safepoint gets a 4-byte slot, shared with others that never live at the same
//! time. It is stored there once, at its definition, or, where it lives across a few cold safepoints only, in those
//! cold paths and blocks themselves, so that the hot path pays nothing.
//!
//! Where references do not change at safepoints, compiled code keeps using its registers; the frame only has to be
//! readable. Where they do, the collector updates the slot, and behind the safepoint the reference is loaded from it:
//! in the cold path of an instruction always, elsewhere if it is used before the next such safepoint (see [`Reloads`]);
//! otherwise nothing reads it before it is loaded anew.
//!
//! Liveness explores from each use back to the definition: the time is that of the live-in sets' total size. Slots are
//! coloured greedily in an order in which definitions precede uses; in SSA form that suffices.

mod crossings;
mod references;
mod reloads;
mod safepoint;

use rustc_hash::FxHashMap;

use self::crossings::{Crossed, Crossings};
use self::references::{NONE, References};
use self::reloads::Reloads;
use self::safepoint::is_safepoint;
pub(crate) use self::safepoint::{SafepointKey, Safepoints, Temperature};
use super::held::LocationPlan;
use crate::mir::{self, Block, Cfg, Value};
use crate::passes::heap::HeapFacts;

/// A reference that the collector must find at a safepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Root {
    /// The value.
    pub(crate) value: Value,
    /// The reference's number: see [`RootPlan::reference`].
    pub(crate) reference: u32,
    /// Number of its slot.
    pub(crate) slot: u32,
    /// Whether the safepoint's cold path must store it; otherwise its definition has.
    pub(crate) spill: bool,
    /// Whether it must be loaded behind the safepoint.
    pub(crate) reload: bool,
}

/// The roots of a function.
#[derive(Default)]
pub(crate) struct RootPlan {
    /// How many slots there are.
    pub(crate) slots: u32,
    /// For each value that is stored at its definition: its slot.
    at_definition: FxHashMap<Value, u32>,
    maps: FxHashMap<SafepointKey, (u32, u32)>,
    roots: Vec<Root>,
    /// Where references change: for each value its reference's number, if that has a slot; empty otherwise.
    references: Vec<u32>,
    /// How many references there are, where they change.
    pub(crate) reference_count: u32,
}

impl RootPlan {
    /// The slot in which to store a value where it is defined, if any.
    pub(crate) fn slot_at_definition(&self, value: Value) -> Option<u32> {
        if self.slots == 0 {
            return None;
        }
        self.at_definition.get(&value).copied()
    }

    /// Where references change at safepoints: the number of the reference that a resolved value holds, if it lives
    /// across one. Checked and refined forms of a reference have the same number.
    #[inline]
    pub(crate) fn reference(&self, value: Value) -> Option<u32> {
        self.references.get(value.index()).copied().filter(|&number| number != NONE)
    }

    /// The roots at a safepoint.
    pub(crate) fn at(&self, key: SafepointKey) -> &[Root] {
        match self.maps.get(&key) {
            Some(&(start, end)) => &self.roots[start as usize..end as usize],
            None => &[],
        }
    }
}

/// Finds the roots. `entry_check` says whether there is a safepoint before the entry; `late`: for each instruction
/// whether its result lives across none, as it is [read later](super::late_values) or
/// [made by its throw](super::fused_throws).
pub(crate) fn plan_roots(
    heap: &HeapFacts,
    mir: &mir::Function,
    cfg: &Cfg,
    entry_check: bool,
    safepoints: &Safepoints,
    late: &[bool],
    locations: &LocationPlan,
) -> RootPlan {
    let order = &cfg.order;
    let calls_in_terminators = order.iter().any(|block| is_safepoint(mir.blocks[block.index()].terminator.as_ref()));
    if safepoints.is_empty() && !calls_in_terminators && !entry_check {
        return RootPlan::default();
    }
    let references = References::number(heap, mir, order, late);
    if references.values.is_empty() {
        return RootPlan::default();
    }
    let live_in = references.live_in(mir, cfg);
    let crossings = Crossings::find(mir, order, &references, &live_in, entry_check, safepoints);
    let reloads =
        heap.references_change.then(|| Reloads::find(mir, cfg, &references, &crossings, safepoints, locations));
    crossings.colour(mir, order, references, &live_in, reloads)
}

impl Crossings {
    fn colour(
        self,
        mir: &mir::Function,
        order: &[Block],
        references: References,
        live_in: &[Vec<u32>],
        reloads: Option<Reloads>,
    ) -> RootPlan {
        let needs_slot = |number: u32| self.hot[number as usize] + self.cold[number as usize] > 0;
        let mut slots = Slots { of: vec![NONE; references.values.len()], used: Vec::new(), free: Vec::new() };
        for &block in order {
            let data = &mir.blocks[block.index()];
            slots.start_block(&live_in[block.index()]);
            for &param in &data.params {
                let number = references.of(mir, param);
                if number != NONE && needs_slot(number) {
                    slots.take(number);
                }
            }
            let mut deaths = self.deaths[block.index()].iter().rev().peekable();
            for (position, &inst) in data.insts.iter().enumerate() {
                while let Some(&(_, number)) = deaths.next_if(|death| death.0 <= position as u32) {
                    slots.release(number);
                }
                let data = &mir.insts[inst.index()];
                if data.op.properties().copies {
                    continue;
                }
                for &result in &data.results {
                    let number = references.of(mir, result);
                    if number != NONE && needs_slot(number) {
                        slots.take(number);
                    }
                }
            }
        }

        let mut plan = RootPlan { slots: slots.used.len() as u32, ..RootPlan::default() };
        for (number, &(value, ..)) in references.values.iter().enumerate() {
            if slots.of[number] != NONE && self.at_definition(number as u32) {
                plan.at_definition.insert(value, slots.of[number]);
            }
        }
        for crossed in &self.safepoints {
            let &Crossed { key, temperature, .. } = crossed;
            let first = plan.roots.len() as u32;
            for entry in crossed.range() {
                let number = self.live[entry];
                // Parameters are stored in the entry block, behind the entry's own safepoint.
                let spill = key == SafepointKey::Entry || (self.spilled[entry] && !self.at_definition(number));
                let value = references.values[number as usize].0;
                let reload = reloads
                    .as_ref()
                    .is_some_and(|reloads| temperature == Temperature::Cold || reloads.needed.contains(&(key, number)));
                plan.roots.push(Root { value, reference: number, slot: slots.of[number as usize], spill, reload });
            }
            plan.maps.insert(key, (first, plan.roots.len() as u32));
        }
        if reloads.is_some() {
            plan.reference_count = references.values.len() as u32;
            plan.references = references.numbers;
            for number in &mut plan.references {
                if *number != NONE && slots.of[*number as usize] == NONE {
                    *number = NONE;
                }
            }
        }
        plan
    }
}

/// The assignment of slots while walking a block.
struct Slots {
    /// Slot of each reference, or `NONE`.
    of: Vec<u32>,
    /// For each slot whether it is taken at this point.
    used: Vec<bool>,
    /// Slots that are not, the lowest last (at a block's start).
    free: Vec<u32>,
}

impl Slots {
    fn start_block(&mut self, live_in: &[u32]) {
        self.used.fill(false);
        for &number in live_in {
            let slot = self.of[number as usize];
            if slot != NONE {
                self.used[slot as usize] = true;
            }
        }
        self.free.clear();
        self.free.extend((0..self.used.len() as u32).rev().filter(|&slot| !self.used[slot as usize]));
    }

    fn take(&mut self, number: u32) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.used.push(false);
            self.used.len() as u32 - 1
        });
        self.used[slot as usize] = true;
        self.of[number as usize] = slot;
    }

    fn release(&mut self, number: u32) {
        let slot = self.of[number as usize];
        if slot != NONE && std::mem::replace(&mut self.used[slot as usize], false) {
            self.free.push(slot);
        }
    }
}
