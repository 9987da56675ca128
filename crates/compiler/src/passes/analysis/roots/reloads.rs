//! Which references have to be loaded from their slots behind which safepoints, where safepoints change references.

use rustc_hash::FxHashSet;

use super::super::held::LocationPlan;
use super::crossings::Crossings;
use super::references::{NONE, References};
use super::safepoint::{SafepointKey, Safepoints, Temperature, is_safepoint};
use crate::mir::{self, Block, Cfg, Value};

/// The references that must be loaded behind each safepoint that is no cold path of its instruction, because they are
/// used there before the next one. Found by exploring, like liveness, from each use backwards, here up to the
/// definition or the next such safepoint.
pub(super) struct Reloads {
    pub(super) needed: FxHashSet<(SafepointKey, u32)>,
}

/// A position behind everything in a block.
const END: u32 = u32::MAX;

impl Reloads {
    pub(super) fn find(
        mir: &mir::Function,
        cfg: &Cfg,
        references: &References,
        crossings: &Crossings,
        safepoints: &Safepoints,
        locations: &LocationPlan,
    ) -> Reloads {
        // Such safepoints of each block, by position as in `References::values`; the terminator's is last.
        let mut sure: Vec<Vec<(u32, SafepointKey)>> = vec![Vec::new(); mir.blocks.len()];
        // Uses: reference, block, and the position such that safepoints at or before it make the value change.
        let mut uses: Vec<(u32, Block, u32)> = Vec::new();
        for &block in &cfg.order {
            let data = &mir.blocks[block.index()];
            let mut note = |value: Value, position: u32| {
                let number = references.of(mir, value);
                if number != NONE && crossings.surely[number as usize] {
                    uses.push((number, block, position));
                }
            };
            for (position, &inst) in data.insts.iter().enumerate() {
                let position = position as u32 + 1;
                let data = &mir.insts[inst.index()];
                if let Some(Temperature::Hot | Temperature::OutOfLine) = safepoints.get(&inst) {
                    sure[block.index()].push((position, SafepointKey::Inst(inst)));
                    // What the loop holds is looked up behind it.
                    locations.held(block).for_each(|held| note(locations.locations[held].reference, position));
                }
                let read = if data.op.properties().fills { position } else { position - 1 };
                data.args.iter().for_each(|&arg| note(arg, read));
                data.op.for_each_use(|value| note(value, read));
            }
            if let Some(terminator) = &data.terminator {
                let position = data.insts.len() as u32 + 1;
                if is_safepoint(Some(terminator)) {
                    sure[block.index()].push((position, SafepointKey::Terminator(block)));
                    terminator.for_each_edge(|edge| edge.args.iter().for_each(|&arg| note(arg, END)));
                }
                terminator.for_each_use(|value| note(value, position - 1));
            }
        }
        for header in locations.headers() {
            for held in locations.held(header) {
                let number = references.of(mir, locations.locations[held].reference);
                if number != NONE && crossings.surely[number as usize] {
                    uses.push((number, header, 0));
                }
            }
        }
        // What is stored at a safepoint is read there.
        for crossed in &crossings.safepoints {
            let stored = crossed.range().filter(|&entry| crossings.spilled[entry]).map(|entry| crossings.live[entry]);
            let read = stored.filter(|&number| crossings.surely[number as usize] && !crossings.at_definition(number));
            uses.extend(read.map(|number| (number, crossed.block, crossed.position.saturating_sub(1))));
        }
        uses.sort_unstable();

        let mut needed = FxHashSet::default();
        let mut explored = vec![NONE; mir.blocks.len()];
        let mut work = Vec::new();
        for (number, block, position) in uses {
            let (_, def_block, defined) = references.values[number as usize];
            work.push((block, position));
            while let Some((block, position)) = work.pop() {
                let before = sure[block.index()].partition_point(|&(at, _)| at <= position);
                let nearest = sure[block.index()][..before].last();
                match nearest {
                    Some(&(at, key)) if block != def_block || at > defined => {
                        needed.insert((key, number));
                    }
                    _ if block == def_block => {}
                    _ => {
                        for &(predecessor, _) in cfg.predecessors(block) {
                            if std::mem::replace(&mut explored[predecessor.index()], number) != number {
                                work.push((predecessor, END));
                            }
                        }
                    }
                }
            }
        }
        Reloads { needed }
    }
}
