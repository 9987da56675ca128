//! The references of a function, and in which blocks they live.

use crate::mir::{self, Block, Cfg, Op, Value};
use crate::passes::heap::HeapFacts;

/// No reference, or no slot.
pub(super) const NONE: u32 = u32::MAX;

/// The traced references of a function, numbered. Checked and refined forms of a reference are the same one.
pub(super) struct References {
    /// For each MIR value its number, or `NONE`.
    pub(super) numbers: Vec<u32>,
    /// For each number its value, the block that defines it, and where in it: 0 for a parameter, else one more than the
    /// position of the instruction.
    pub(super) values: Vec<(Value, Block, u32)>,
}

impl References {
    pub(super) fn number(heap: &HeapFacts, mir: &mir::Function, order: &[Block], late: &[bool]) -> References {
        let mut references = References { numbers: vec![NONE; mir.values.len()], values: Vec::new() };
        for &block in order {
            let data = &mir.blocks[block.index()];
            for &param in &data.params {
                references.define(heap, mir, param, block, 0);
            }
            for (position, &inst) in data.insts.iter().enumerate() {
                let data = &mir.insts[inst.index()];
                match &data.op {
                    Op::Const(_) => {}
                    _ if late[inst.index()] => {}
                    op if op.properties().copies => {
                        references.numbers[data.results[0].index()] = references.of(mir, data.args[0]);
                    }
                    _ => {
                        let position = position as u32 + 1;
                        data.results.iter().for_each(|&result| references.define(heap, mir, result, block, position));
                    }
                }
            }
        }
        references
    }

    fn define(&mut self, heap: &HeapFacts, mir: &mir::Function, value: Value, block: Block, position: u32) {
        if heap.info.is_traced(mir.value_type(value)) {
            self.numbers[value.index()] = self.values.len() as u32;
            self.values.push((value, block, position));
        }
    }

    /// The number of a value, or `NONE`.
    pub(super) fn of(&self, mir: &mir::Function, value: Value) -> u32 {
        self.numbers[mir.resolve(value).index()]
    }

    /// For each block the references live at its start, its own parameters apart.
    pub(super) fn live_in(&self, mir: &mir::Function, cfg: &Cfg) -> Vec<Vec<u32>> {
        // Pairs of reference and block that uses it without defining it.
        let mut uses: Vec<(u32, Block)> = Vec::new();
        let mut seen = vec![NONE; self.values.len()];
        for (position, &block) in cfg.order.iter().enumerate() {
            let data = &mir.blocks[block.index()];
            let mut note = |value: Value| {
                let number = self.of(mir, value);
                if number != NONE && self.values[number as usize].1 != block && seen[number as usize] != position as u32
                {
                    seen[number as usize] = position as u32;
                    uses.push((number, block));
                }
            };
            for &inst in &data.insts {
                let data = &mir.insts[inst.index()];
                data.args.iter().copied().for_each(&mut note);
                data.op.for_each_use(&mut note);
            }
            if let Some(terminator) = &data.terminator {
                terminator.for_each_use(&mut note);
            }
        }
        uses.sort_unstable();

        let mut live_in = vec![Vec::new(); mir.blocks.len()];
        let mut last = vec![NONE; mir.blocks.len()];
        let mut work = Vec::new();
        for (number, block) in uses {
            work.push(block);
            while let Some(block) = work.pop() {
                if last[block.index()] == number || self.values[number as usize].1 == block {
                    continue;
                }
                last[block.index()] = number;
                live_in[block.index()].push(number);
                work.extend(cfg.predecessors(block).iter().map(|&(source, _)| source));
            }
        }
        live_in
    }
}
