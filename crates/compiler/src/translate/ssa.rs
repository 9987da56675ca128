//! Locals into SSA form while the blocks are being built (Braun and others, "Simple and Efficient Construction of
//! Static Single Assignment Form", 2013), without recursion: a chain of a hundred thousand blocks must not overflow the
//! stack.
//!
//! A block is *sealed* when all its predecessors are known. Reading a local in an unsealed block creates a parameter
//! whose arguments are added at sealing. Parameters that turn out to be superfluous are removed when the function is
//! complete.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::mir::{Block, Constant, Function, Inst, Op, Terminator, Value};
use crate::module::ValueType;

/// Bounds the work and memory that one function may cost: a body of a few megabytes can ask for any amount of edges.
pub(crate) struct Limits {
    left: u64,
}

impl Limits {
    pub(super) fn new() -> Limits {
        Limits { left: 64 << 20 }
    }

    /// Counts values, edges, arguments.
    pub(super) fn spend(&mut self, amount: u64) {
        self.left = self.left.saturating_sub(amount);
    }

    pub(super) fn exceeded(&self) -> bool {
        self.left == 0
    }
}

#[derive(Default)]
struct BlockState {
    /// Distinct predecessors; their terminators are set.
    predecessors: SmallVec<[Block; 2]>,
    sealed: bool,
    /// Parameters made while the block was unsealed.
    pending: Vec<(u32, Value)>,
}

/// A function under construction, with the state of its locals.
pub(super) struct Builder {
    pub(super) function: Function,
    pub(super) limits: Limits,
    local_types: Vec<ValueType>,
    /// How many locals the function declares. What follows is the translator's.
    declared: u32,
    blocks: Vec<BlockState>,
    /// The value of a local at the end of a block (so far), by block and local.
    definitions: FxHashMap<(Block, u32), Value>,
    /// Initial values of locals, to go at the start of the entry block.
    defaults: Vec<Inst>,
    /// Where the body begins, if that is not the entry.
    start: Option<Block>,
}

impl Builder {
    /// Begins with the function's parameters as the first locals.
    pub(super) fn new(mut function: Function, params: &[ValueType], limits: Limits) -> Builder {
        let entry = function.entry;
        let mut definitions = FxHashMap::default();
        for (local, &ty) in params.iter().enumerate() {
            let value = function.add_param(entry, ty);
            definitions.insert((entry, local as u32), value);
        }
        let blocks = vec![BlockState { sealed: true, ..BlockState::default() }];
        Builder {
            function,
            limits,
            local_types: params.to_vec(),
            declared: 0,
            blocks,
            definitions,
            defaults: Vec::new(),
            start: None,
        }
    }

    /// Lets the body begin in a block of its own, which nothing leads to yet, and gives the entry every local as a
    /// parameter.
    pub(super) fn enter_elsewhere(&mut self) -> Block {
        let entry = self.function.entry;
        for (local, &ty) in self.local_types.iter().enumerate().skip(self.function.blocks[entry.index()].params.len()) {
            let value = self.function.add_param(entry, ty);
            self.definitions.insert((entry, local as u32), value);
        }
        let start = self.add_block();
        // So that no local has its initial value there, which belongs into the entry.
        for (local, &value) in self.function.blocks[entry.index()].params.iter().enumerate() {
            self.definitions.insert((start, local as u32), value);
        }
        self.seal(start);
        self.start = Some(start);
        start
    }

    /// A constant, made at the start of the entry block.
    pub(super) fn entry_constant(&mut self, constant: Constant) -> Value {
        let source = self.function.source;
        let inst = self.function.add_inst(Op::Const(constant), &[], &[constant.value_type()], source);
        self.defaults.push(inst);
        self.function.insts[inst.index()].results[0]
    }

    /// Gives the entry these locals, too, and then parameters of these types, as parameters. Returns the latter.
    pub(super) fn enter_with(&mut self, locals: &[u32], params: &[ValueType]) -> SmallVec<[Value; 4]> {
        let entry = self.function.entry;
        for &local in locals {
            let value = self.function.add_param(entry, self.local_types[local as usize]);
            for block in [Some(entry), self.start].into_iter().flatten() {
                self.definitions.insert((block, local), value);
            }
        }
        params.iter().map(|&ty| self.function.add_param(entry, ty)).collect()
    }

    /// The value of every local that the function declares at the current end of a block.
    pub(super) fn read_all(&mut self, block: Block) -> SmallVec<[Value; 4]> {
        (0..self.declared).map(|local| self.read(local, block)).collect()
    }

    /// Declares that further locals are not the function's own.
    pub(super) fn end_locals(&mut self) {
        self.declared = self.local_count();
    }

    pub(super) fn local_count(&self) -> u32 {
        self.local_types.len() as u32
    }

    /// Declares `count` more locals.
    pub(super) fn add_locals(&mut self, count: u32, ty: ValueType) {
        self.local_types.extend(std::iter::repeat_n(ty, count as usize));
    }

    /// Appends an empty, unsealed block.
    pub(super) fn add_block(&mut self) -> Block {
        self.blocks.push(BlockState::default());
        self.function.add_block()
    }

    /// Whether some terminator so far leads to the block.
    pub(super) fn has_predecessors(&self, block: Block) -> bool {
        !self.blocks[block.index()].predecessors.is_empty()
    }

    /// How many blocks so far lead to the block.
    pub(super) fn predecessor_count(&self, block: Block) -> usize {
        self.blocks[block.index()].predecessors.len()
    }

    /// Ends a block.
    pub(super) fn terminate(&mut self, block: Block, terminator: Terminator, source: u32) {
        let blocks = &mut self.blocks;
        let mut spent = 1;
        terminator.for_each_edge(|edge| {
            spent += 1 + edge.args.len() as u64;
            let predecessors = &mut blocks[edge.block.index()].predecessors;
            // All edges of one block arrive together, so that a repeated one is the last.
            if predecessors.last() != Some(&block) {
                predecessors.push(block);
            }
        });
        self.limits.spend(spent);
        let data = &mut self.function.blocks[block.index()];
        debug_assert!(data.terminator.is_none());
        data.terminator = Some(terminator);
        data.terminator_source = source;
    }

    /// Declares that the block gets no more predecessors.
    pub(super) fn seal(&mut self, block: Block) {
        let state = &mut self.blocks[block.index()];
        state.sealed = true;
        // One after the other: the arguments on an edge are in the order of the parameters.
        for (local, _) in std::mem::take(&mut state.pending) {
            self.fill(vec![(block, local)]);
        }
    }

    /// Sets a local's value at the current end of a block.
    pub(super) fn write(&mut self, local: u32, block: Block, value: Value) {
        self.definitions.insert((block, local), value);
    }

    /// A local's value at the current end of a block.
    pub(super) fn read(&mut self, local: u32, block: Block) -> Value {
        if let Some(&value) = self.definitions.get(&(block, local)) {
            return value;
        }
        let mut work = Vec::new();
        let value = self.find(local, block, &mut work);
        self.fill(work);
        value
    }

    /// Walks up single predecessors to a definition, or to a block that needs a parameter; one whose arguments can be
    /// found at once goes to `work`.
    fn find(&mut self, local: u32, start: Block, work: &mut Vec<(Block, u32)>) -> Value {
        let mut path: SmallVec<[Block; 16]> = SmallVec::new();
        let mut block = start;
        let value = loop {
            if let Some(&value) = self.definitions.get(&(block, local)) {
                break value;
            }
            path.push(block);
            let state = &self.blocks[block.index()];
            if !state.sealed {
                let param = self.function.add_param(block, self.local_types[local as usize]);
                self.blocks[block.index()].pending.push((local, param));
                break param;
            }
            match state.predecessors.as_slice() {
                [] => break self.default_value(local),
                [single] => block = *single,
                _ => {
                    let param = self.function.add_param(block, self.local_types[local as usize]);
                    work.push((block, local));
                    break param;
                }
            }
        };
        self.limits.spend(1 + path.len() as u64);
        for block in path {
            self.definitions.insert((block, local), value);
        }
        value
    }

    /// Adds the arguments for new parameters, all for one local, to the edges of their blocks' predecessors.
    fn fill(&mut self, mut work: Vec<(Block, u32)>) {
        while let Some((block, local)) = work.pop() {
            for number in 0..self.blocks[block.index()].predecessors.len() {
                if self.limits.exceeded() {
                    return;
                }
                let predecessor = self.blocks[block.index()].predecessors[number];
                let value = self.find(local, predecessor, &mut work);
                self.limits.spend(1);
                let terminator = self.function.blocks[predecessor.index()].terminator.as_mut();
                terminator.expect("a predecessor is terminated").for_each_edge_mut(|edge| {
                    if edge.block == block {
                        edge.args.push(value);
                    }
                });
            }
        }
    }

    /// The initial value of a local, defined at the start of the entry block.
    fn default_value(&mut self, local: u32) -> Value {
        let value = self.entry_constant(Constant::default_of(self.local_types[local as usize]));
        let entry = self.function.entry;
        self.definitions.insert((entry, local), value);
        value
    }

    /// Puts the initial values in place and returns the function. Blocks that nothing reaches are left empty.
    pub(super) fn finish(mut self) -> Function {
        let entry = self.function.entry.index();
        self.function.blocks[entry].insts.splice(0..0, self.defaults);
        self.function
    }
}
