//! Where the fast path of a loop leaves it.

use legato_heap::layout::StorageKind;
use legato_heap::plan::SpinePlan;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::outline::Outlined;
use crate::mir::{Block, Cfg, Dominators, Function, Inst, Loops, NullCheck, Op, Reach, Terminator, Value};
use crate::module::{CompositeType, HeapType, RefType, ValueType};
use crate::passes::analysis::Comparison;
use crate::passes::effects::Effects;
use crate::passes::heap::HeapFacts;
use crate::passes::support::{DefBlocks, definition, is_length_of, root, use_counts};

/// A loop, with the loops within, of which there are to be a fast path and a slow path.
pub(super) struct VersionedLoop {
    /// All blocks, in reverse post-order.
    pub(super) blocks: Vec<Block>,
    /// The loops: header, and the arrays whose inline lengths are read before.
    pub(super) loops: Vec<(Block, Vec<Value>)>,
    /// By block in the order of instructions: where the fast path leaves it.
    pub(super) side_exits: FxHashMap<Block, Vec<SideExit>>,
    /// By header: loops taken out of the function.
    pub(super) outlined: FxHashMap<Block, Outlined>,
    /// Accesses of the fast path, all of which reach elements in one piece.
    pub(super) inline: FxHashSet<Inst>,
}

/// Where the fast path is left: a comparison with an inline length.
pub(super) struct SideExit {
    /// The instruction before which the comparison comes, as a position in the block.
    pub(super) at: usize,
    /// The first instruction that the slow path executes, where the element does not lie in one piece with the
    /// header. What lies between it and `at` has no effect.
    pub(super) resume: usize,
    /// What the fast path does without: the check that the comparison takes the place of, and the read of the
    /// length for it.
    pub(super) omitted: SmallVec<[Inst; 2]>,
    /// The index.
    pub(super) index: Value,
    /// What it is compared with.
    pub(super) limit: Limit,
    /// The side exit from which the slow path goes on instead, block and number among its side exits: an earlier one,
    /// from which on nothing has been done that may not be done again.
    pub(super) anchor: Option<(Block, usize)>,
    /// Where the program's own check is replaced: whether the index is inside where that holds.
    pub(super) holds_inside: Option<bool>,
    /// Offset in the module of what traps or does the access.
    pub(super) source: u32,
}

/// Which inline length an index is compared with.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// The array's of the second number among those read before the loop of the first.
    Entered(usize, usize),
    /// This array's, read here. With what check for null, and the offset in the module of that.
    Here(Value, NullCheck, u32),
    /// As read for another side exit: block, and number among its side exits.
    Again(Block, usize),
}

/// How many blocks in a straight line are looked through.
const STRAIGHT_LINE: usize = 16;

/// A fact that holds behind a side exit.
struct Known<T> {
    what: T,
    /// From this position in this block on, and in others as [`Finder::holds_on`] says.
    block: Block,
    position: usize,
}

/// An access to an element that may lie anywhere.
#[derive(Clone, Copy)]
struct Access {
    inst: Inst,
    array: Value,
    index: Value,
}

/// The search for side exits.
pub(super) struct Finder<'a> {
    heap: &'a HeapFacts<'a>,
    mir: &'a Function,
    spines: SpinePlan,
    cfg: &'a Cfg,
    dominators: &'a Dominators,
    loops: &'a Loops,
    /// By loop, what it may write.
    effects: Vec<Effects>,
    /// By loop, whether it holds others.
    has_inner: Vec<bool>,
    /// By value, how often it is used.
    uses: Vec<u32>,
    /// The block of each instruction.
    pub(super) def_blocks: DefBlocks,
    /// By array, the blocks that read its length.
    lengths: FxHashMap<Value, SmallVec<[Block; 2]>>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(
        heap: &'a HeapFacts<'a>,
        mir: &'a Function,
        spines: SpinePlan,
        cfg: &'a Cfg,
        dominators: &'a Dominators,
        loops: &'a Loops,
    ) -> Finder<'a> {
        let mut lengths: FxHashMap<Value, SmallVec<[Block; 2]>> = FxHashMap::default();
        for &block in &cfg.order {
            let data = &mir.blocks[block.index()];
            for &inst in &data.insts {
                let data = &mir.insts[inst.index()];
                if let Op::ArrayLen(_) = data.op {
                    lengths.entry(root(mir, data.args[0])).or_default().push(block);
                }
            }
        }
        let uses = use_counts(mir, &cfg.order);
        let def_blocks = DefBlocks::new(mir, cfg);
        let mut has_inner = vec![false; loops.loops.len()];
        loops.loops.iter().filter_map(|data| data.parent).for_each(|parent| has_inner[parent] = true);
        let effects = Effects::of_loops(mir, heap.info, cfg, loops);
        Finder { heap, mir, spines, cfg, dominators, loops, effects, has_inner, uses, def_blocks, lengths }
    }

    /// What becomes of a loop with these blocks, if there is anything to gain.
    pub(super) fn find(&self, blocks: &[Block]) -> Option<VersionedLoop> {
        let mir = self.mir;
        let within: FxHashSet<Block> = blocks.iter().copied().collect();
        let mut version = VersionedLoop {
            blocks: blocks.to_vec(),
            loops: Vec::new(),
            side_exits: FxHashMap::default(),
            outlined: FxHashMap::default(),
            inline: FxHashSet::default(),
        };
        // By loop, its number in the version.
        let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
        for &block in blocks {
            let number = self.loop_of(block);
            let header = self.loops.loops[number].header;
            numbers.entry(number).or_insert_with(|| {
                version.loops.push((header, Vec::new()));
                version.loops.len() - 1
            });
        }
        let mut reached: Vec<Known<(Value, Value)>> = Vec::new();
        let mut read: Vec<Known<(Value, Limit)>> = Vec::new();
        let mut entered: FxHashMap<(usize, Value), Limit> = FxHashMap::default();
        let mut checked: Vec<(Block, usize, Inst)> = Vec::new();
        let mut anchors: FxHashMap<Block, (Block, usize)> = FxHashMap::default();
        for &block in blocks {
            let data = &mir.blocks[block.index()];
            if data.cold {
                continue;
            }
            let before = self.before(block);
            let mut anchor = before.and_then(|before| anchors.get(&before).copied());
            for (position, &inst) in data.insts.iter().enumerate() {
                let data = &mir.insts[inst.index()];
                let anchor_before = anchor;
                if !data.op.properties().is_repeatable() {
                    anchor = None;
                }
                let (Op::ArrayGet(ty, _, Reach::Any) | Op::ArraySet(ty, Reach::Any)) = data.op else { continue };
                let kind = self.heap.info.element_kind(ty);
                let array = root(mir, data.args[0]);
                let index = mir.resolve(data.args[1]);
                if self.heap.lies_inline(mir, &self.spines, kind, array, index) {
                    continue;
                }
                version.inline.insert(inst);
                if self.known(&reached, block, position, |&what| what == (array, index)).is_some() {
                    continue;
                }
                let access = Access { inst, array, index };
                let (def_block, mut side_exit, length) = self.side_exit(block, position, access, &within);
                let number = version.side_exits.get(&def_block).map_or(0, Vec::len);
                if let Some(length) = length {
                    checked.push((def_block, number, length));
                }
                side_exit.limit = if let Some(outermost) =
                    self.entered_with(array, kind, self.loop_of(def_block), &within)
                {
                    let number = numbers[&outermost];
                    *entered.entry((number, array)).or_insert_with(|| {
                        let arrays = &mut version.loops[number].1;
                        arrays.push(array);
                        Limit::Entered(number, arrays.len() - 1)
                    })
                } else if let Some(&(_, limit)) = self.known(&read, def_block, side_exit.at, |&(read, _)| read == array)
                {
                    limit
                } else {
                    let what = (array, Limit::Again(def_block, number));
                    read.push(Known { what, block: def_block, position: side_exit.at });
                    Limit::Here(array, NullCheck::Elided, side_exit.source)
                };
                side_exit.anchor = if def_block == block { anchor_before } else { anchors.get(&def_block).copied() };
                if side_exit.anchor.is_none() {
                    if def_block != block {
                        anchors.insert(def_block, (def_block, number));
                    }
                    if matches!(data.op, Op::ArrayGet(..)) {
                        anchor = Some((def_block, number));
                    }
                }
                let (from, position) = if def_block == block { (def_block, side_exit.at) } else { (block, 0) };
                reached.push(Known { what: (array, index), block: from, position });
                version.side_exits.entry(def_block).or_default().push(side_exit);
            }
            // Calls with handlers and throws end blocks.
            let only_leads = |terminator: &Terminator| {
                matches!(terminator, Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Switch { .. })
            };
            if let Some(anchor) = anchor
                && data.terminator.as_ref().is_some_and(only_leads)
            {
                anchors.insert(block, anchor);
            }
        }
        self.omit_lengths(&mut version, &checked);
        (!version.side_exits.is_empty()).then_some(version)
    }

    /// The blocks of each innermost loop of a version, header first.
    pub(super) fn innermost(&self, version: &VersionedLoop) -> Vec<Vec<Block>> {
        let mut found: Vec<Vec<Block>> = Vec::new();
        for &(header, _) in &version.loops {
            let number = self.loop_of(header);
            if !self.has_inner[number] {
                let is_within = |block: &Block| self.loops.innermost[block.index()] == Some(number);
                found.push(version.blocks.iter().copied().filter(is_within).collect());
            }
        }
        found
    }

    /// The block of the same loop that leads to this one alone, if one does.
    fn before(&self, block: Block) -> Option<Block> {
        match self.cfg.predecessors(block) {
            &[(source, _)] => {
                (self.loops.innermost[source.index()] == self.loops.innermost[block.index()]).then_some(source)
            }
            _ => None,
        }
    }

    fn loop_of(&self, block: Block) -> usize {
        self.loops.innermost[block.index()].expect("a block of a loop")
    }

    fn known<'b, T>(
        &self,
        facts: &'b [Known<T>],
        block: Block,
        position: usize,
        is: impl Fn(&T) -> bool,
    ) -> Option<&'b T> {
        let holds = |fact: &&Known<T>| {
            is(&fact.what)
                && if fact.block == block { fact.position <= position } else { self.holds_on(fact.block, block) }
        };
        facts.iter().find(holds).map(|fact| &fact.what)
    }

    /// Whether what holds in a block of the fast path holds in another one that it dominates. The slow path
    /// goes on in the first at headers, so that nothing may hold on over one.
    fn holds_on(&self, from: Block, to: Block) -> bool {
        let number = self.loop_of(from);
        if self.loops.innermost[to.index()] != Some(number) {
            return false;
        }
        if !self.has_inner[number] {
            return self.dominators.dominates(from, to);
        }
        // No loop lies within a straight line.
        let mut at = to;
        for _ in 0..STRAIGHT_LINE {
            match *self.cfg.predecessors(at) {
                [(source, _)] if source == from => return true,
                [(source, _)] if self.loops.innermost[source.index()] == Some(number) => at = source,
                _ => return false,
            }
        }
        false
    }

    /// Where to compare for an access; with the read of the length right before the check that this takes the place of,
    /// if there is one.
    fn side_exit(
        &self,
        block: Block,
        position: usize,
        access: Access,
        within: &FxHashSet<Block>,
    ) -> (Block, SideExit, Option<Inst>) {
        let mir = self.mir;
        let data = &mir.blocks[block.index()];
        let source = mir.insts[access.inst.index()].source;
        let mut side_exit = SideExit {
            at: position,
            resume: position,
            omitted: SmallVec::new(),
            index: access.index,
            limit: Limit::Entered(0, 0),
            anchor: None,
            holds_inside: None,
            source,
        };
        let before = &data.insts[..position];
        let is_effect = |inst: &Inst| !mir.insts[inst.index()].op.properties().is_computation();
        if let Some(check) = before.iter().rposition(is_effect) {
            let inst = before[check];
            let data = &mir.insts[inst.index()];
            if let Op::BoundsCheck = data.op
                && mir.resolve(data.args[0]) == access.index
                && is_length_of(mir, mir.resolve(data.args[1]), access.array)
            {
                side_exit.at = check;
                side_exit.resume = check;
                side_exit.omitted.push(inst);
                let length = self.length_before(mir.resolve(data.args[1]), &before[..check]);
                return (block, side_exit, length);
            }
            return (block, side_exit, None);
        }
        // Nothing but what is harmless before it: perhaps the program's own check is in the block before.
        if let &[(source_block, _)] = self.cfg.predecessors(block)
            && within.contains(&source_block)
            && !mir.blocks[source_block.index()].cold
            && let Some((mut guard, length)) = self.guard(source_block, block, access)
        {
            guard.source = source;
            return (source_block, guard, length);
        }
        (block, side_exit, None)
    }

    /// A side exit that takes the place of the program's own bounds check at the end of a block.
    fn guard(&self, block: Block, inside: Block, access: Access) -> Option<(SideExit, Option<Inst>)> {
        let mir = self.mir;
        let data = &mir.blocks[block.index()];
        let Some(Terminator::Branch { cond, then, otherwise }) = &data.terminator else { return None };
        let compare = definition(mir, mir.resolve(*cond))?;
        let comparison = Comparison::of(mir, compare)?;
        let edge = if comparison.or_equal { otherwise } else { then };
        let (index, length) = comparison.inside();
        // The values compared are those of the access, and exist before its block.
        if edge.block != inside || index != access.index || !is_length_of(mir, length, access.array) {
            return None;
        }
        if self.def_blocks.of(mir, access.array) == inside {
            return None;
        }
        let end = data.insts.len();
        let mut side_exit = SideExit {
            at: end,
            resume: end,
            omitted: SmallVec::new(),
            index,
            limit: Limit::Entered(0, 0),
            anchor: None,
            holds_inside: Some(!comparison.or_equal),
            source: mir.insts[compare.index()].source,
        };
        let mut found = None;
        if self.uses[mir.resolve(*cond).index()] == 1
            && let Some(position) = data.insts.iter().position(|&inst| inst == compare)
            && data.insts[position..].iter().all(|inst| mir.insts[inst.index()].op.properties().is_computation())
        {
            side_exit.resume = position;
            side_exit.omitted.push(compare);
            found = self.length_before(length, &data.insts[..position]);
        }
        Some((side_exit, found))
    }

    /// The read of a length, where it is the last of the instructions before that has an effect.
    fn length_before(&self, length: Value, before: &[Inst]) -> Option<Inst> {
        let mir = self.mir;
        let &inst = before.iter().rev().find(|inst| !mir.insts[inst.index()].op.properties().is_computation())?;
        let data = &mir.insts[inst.index()];
        (matches!(data.op, Op::ArrayLen(_)) && data.results[0] == length).then_some(inst)
    }

    /// Leaves out the reads of lengths that serve nothing but checks that are left out. `checked`: block and number of
    /// side exits, with the reads right before them.
    fn omit_lengths(&self, version: &mut VersionedLoop, checked: &[(Block, usize, Inst)]) {
        let mir = self.mir;
        let mut left_out: FxHashMap<Value, u32> = FxHashMap::default();
        for &inst in version.side_exits.values().flatten().flat_map(|side_exit| &side_exit.omitted) {
            for &arg in &mir.insts[inst.index()].args {
                *left_out.entry(mir.resolve(arg)).or_default() += 1;
            }
        }
        for &(block, number, inst) in checked {
            let data = &mir.insts[inst.index()];
            let Op::ArrayLen(check) = data.op else { unreachable!("the read of a length") };
            let length = data.results[0];
            if left_out.get(&length) != Some(&self.uses[length.index()]) {
                continue;
            }
            let position = mir.blocks[block.index()].insts.iter().position(|&other| other == inst);
            let side_exit = &mut version.side_exits.get_mut(&block).expect("a block with side exits")[number];
            side_exit.resume = position.expect("the read is in the block of the check");
            side_exit.omitted.push(inst);
            if let Limit::Here(array, ..) = side_exit.limit {
                side_exit.limit = Limit::Here(array, check, data.source);
            }
        }
    }

    /// The loop before which to read the inline length of an array: the loop given, or one around it that leaves
    /// elements of this kind alone. `None` if the array is not the same in all iterations, or not known not to be null
    /// before the first.
    fn entered_with(&self, array: Value, kind: StorageKind, number: usize, within: &FxHashSet<Block>) -> Option<usize> {
        self.is_known_before(array, number).then_some(())?;
        let mut found = number;
        while let Some(parent) = self.loops.loops[found].parent
            && within.contains(&self.loops.loops[parent].header)
            && self.effects[parent].preserve_elements(kind)
            && self.is_known_before(array, parent)
        {
            found = parent;
        }
        Some(found)
    }

    /// Whether an array is the same in all iterations of a loop and known not to be null before the first.
    fn is_known_before(&self, array: Value, number: usize) -> bool {
        let header = self.loops.loops[number].header;
        if self.loops.contains(number, self.def_blocks.of(self.mir, array)) {
            return false;
        }
        let is_read_before =
            |&block: &Block| !self.loops.contains(number, block) && self.dominators.dominates(block, header);
        self.is_array(array) || self.lengths.get(&array).is_some_and(|reads| reads.iter().any(is_read_before))
    }

    /// Whether a value's type says that it is an array and not null.
    fn is_array(&self, value: Value) -> bool {
        let ValueType::Ref(RefType { nullable: false, heap }) = self.mir.value_type(value) else { return false };
        match heap {
            HeapType::Array => true,
            HeapType::Concrete(ty) => matches!(self.heap.info.types[ty.index()].composite, CompositeType::Array(_)),
            _ => false,
        }
    }
}
