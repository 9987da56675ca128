//! Which references live across which safepoints, found in one walk over each block from its end.

use std::ops::Range;

use rustc_hash::FxHashSet;

use super::references::{NONE, References};
use super::safepoint::{SafepointKey, Safepoints, Temperature, is_safepoint};
use crate::mir::{self, Block, Terminator, Value};

/// A reference that lives across more safepoints than this that are not hot is stored at its definition: stores in many
/// cold paths would cost more space than one store costs time.
const MAX_COLD_SPILLS: u32 = 4;

/// The references alive at one point, with constant-time insertion and removal.
struct LiveSet {
    members: Vec<u32>,
    /// Position of each reference in `members`, or `NONE`.
    positions: Vec<u32>,
}

impl LiveSet {
    fn new(references: usize) -> LiveSet {
        LiveSet { members: Vec::new(), positions: vec![NONE; references] }
    }

    /// Returns whether it was absent.
    fn insert(&mut self, number: u32) -> bool {
        if number == NONE || self.positions[number as usize] != NONE {
            return false;
        }
        self.positions[number as usize] = self.members.len() as u32;
        self.members.push(number);
        true
    }

    fn remove(&mut self, number: u32) {
        if number == NONE || self.positions[number as usize] == NONE {
            return;
        }
        let position = self.positions[number as usize];
        self.members.swap_remove(position as usize);
        if let Some(&moved) = self.members.get(position as usize) {
            self.positions[moved as usize] = position;
        }
        self.positions[number as usize] = NONE;
    }

    fn clear(&mut self) {
        for &number in &self.members {
            self.positions[number as usize] = NONE;
        }
        self.members.clear();
    }
}

/// A safepoint that references live across.
#[derive(Clone, Copy)]
pub(super) struct Crossed {
    pub(super) key: SafepointKey,
    pub(super) temperature: Temperature,
    pub(super) block: Block,
    /// Of its instruction, as in [`References::values`]; 0 before the entry block.
    pub(super) position: u32,
    /// Its references, in [`Crossings::live`].
    start: u32,
    end: u32,
}

impl Crossed {
    pub(super) fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// What lives across each safepoint, and where references die.
pub(super) struct Crossings {
    pub(super) safepoints: Vec<Crossed>,
    /// The references that live across them, safepoint by safepoint.
    pub(super) live: Vec<u32>,
    /// For each of these whether it is stored at the safepoint, unless it is at its definition.
    pub(super) spilled: Vec<bool>,
    /// How many hot safepoints, and how many others, each reference crosses.
    pub(super) hot: Vec<u32>,
    pub(super) cold: Vec<u32>,
    /// Which references cross one that is reached whenever its instruction is executed.
    pub(super) surely: Vec<bool>,
    /// For each block: references that die within it, with the position of the instruction, in descending order.
    pub(super) deaths: Vec<Vec<(u32, u32)>>,
}

impl Crossings {
    pub(super) fn find(
        mir: &mir::Function,
        order: &[Block],
        references: &References,
        live_in: &[Vec<u32>],
        entry_check: bool,
        safepoints: &Safepoints,
    ) -> Crossings {
        let count = references.values.len();
        let mut crossings = Crossings {
            safepoints: Vec::new(),
            live: Vec::new(),
            spilled: Vec::new(),
            hot: vec![0; count],
            cold: vec![0; count],
            surely: vec![false; count],
            deaths: vec![Vec::new(); mir.blocks.len()],
        };
        let mut live = LiveSet::new(count);
        for &block in order {
            let data = &mir.blocks[block.index()];
            let first = crossings.safepoints.len();
            live.clear();
            if let Some(terminator) = &data.terminator {
                terminator.for_each_edge(|edge| {
                    for &number in &live_in[edge.block.index()] {
                        live.insert(number);
                    }
                });
                // Nothing dies "at the terminator" as far as slots go: its uses end with the block.
                if is_safepoint(Some(terminator)) {
                    terminator.for_each_edge(|edge| {
                        for &arg in &edge.args {
                            live.insert(references.of(mir, arg));
                        }
                    });
                    if let Terminator::Throw { exception, .. } = terminator {
                        live.insert(references.of(mir, *exception));
                    }
                    let position = data.insts.len() as u32 + 1;
                    crossings.record(SafepointKey::Terminator(block), Temperature::Hot, (block, position), &live);
                }
                terminator.for_each_use(|value| {
                    live.insert(references.of(mir, value));
                });
            }
            for (position, &inst) in data.insts.iter().enumerate().rev() {
                let data = &mir.insts[inst.index()];
                if !data.op.properties().copies {
                    for &result in &data.results {
                        live.remove(references.of(mir, result));
                    }
                }
                let mut deaths = std::mem::take(&mut crossings.deaths[block.index()]);
                let mut insert = |live: &mut LiveSet, value: Value| {
                    let number = references.of(mir, value);
                    if live.insert(number) {
                        deaths.push((position as u32, number));
                    }
                };
                let temperature = safepoints.get(&inst).copied();
                if let Some(temperature) = temperature {
                    if data.op.properties().fills {
                        data.args.iter().for_each(|&arg| insert(&mut live, arg));
                    }
                    crossings.record(SafepointKey::Inst(inst), temperature, (block, position as u32 + 1), &live);
                }
                data.args.iter().for_each(|&arg| insert(&mut live, arg));
                data.op.for_each_use(|value| insert(&mut live, value));
                crossings.deaths[block.index()] = deaths;
            }
            if block == mir.entry && entry_check {
                crossings.record(SafepointKey::Entry, Temperature::Cold, (block, 0), &live);
            }
            crossings.find_spills(first);
        }
        crossings
    }

    fn record(&mut self, key: SafepointKey, temperature: Temperature, (block, position): (Block, u32), live: &LiveSet) {
        if live.members.is_empty() {
            return;
        }
        let start = self.live.len() as u32;
        self.live.extend_from_slice(&live.members);
        self.live[start as usize..].sort_unstable();
        let end = self.live.len() as u32;
        self.safepoints.push(Crossed { key, temperature, block, position, start, end });
        let counts = if temperature == Temperature::Hot { &mut self.hot } else { &mut self.cold };
        for &number in &live.members {
            counts[number as usize] += 1;
            self.surely[number as usize] |= temperature != Temperature::Cold;
        }
    }

    /// Finds what the safepoints of a block store, which have been recorded from `first` on, the last one first: what
    /// no earlier one of the block has stored that is always reached.
    fn find_spills(&mut self, first: usize) {
        self.spilled.resize(self.live.len(), false);
        let mut stored = FxHashSet::<u32>::default();
        for crossed in self.safepoints[first..].iter().rev() {
            if crossed.temperature == Temperature::Hot {
                continue;
            }
            for entry in crossed.range() {
                self.spilled[entry] = !stored.contains(&self.live[entry]);
            }
            if crossed.temperature == Temperature::OutOfLine {
                stored.extend(&self.live[crossed.range()]);
            }
        }
    }

    /// Whether a reference is stored into its slot where it is defined.
    pub(super) fn at_definition(&self, number: u32) -> bool {
        self.hot[number as usize] > 0 || self.cold[number as usize] > MAX_COLD_SPILLS
    }
}
