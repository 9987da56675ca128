//! Which accesses are made on the edge of the program's own bounds check.
//!
//! Compilers to WebAssembly whose languages throw an exception for an index out of bounds compare it with the array's
//! length themselves. WebAssembly's check behind that is proven and gone, so that no access is left to make it. Where
//! arrays have inline lengths, the comparison with one decides for the program's as well: no inline length is more than
//! the length, and no length more than the greatest signed number. So the branch compares with the inline length, and
//! the access, which comes first in the block that the branch leads to, is made on the way there; the program's
//! comparison moves to the cold path.

use legato_heap::layout::StorageKind;
use legato_heap::plan::SpinePlan;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::mir::{Block, Cfg, CompareOp, Edge, Function, Inst, Op, Terminator, Value, ValueDef};
use crate::passes::heap::HeapFacts;
use crate::passes::support::{definition, is_length_of, root};

/// The program's own bounds check of an access, at the end of the block before it.
#[derive(Clone, Copy)]
pub(crate) struct Guard {
    /// The access.
    pub(crate) access: Inst,
    /// The comparison that the branch depends on.
    pub(crate) compare: Inst,
    /// The length that it compares with.
    pub(crate) length: Value,
    /// Whether the index is within the bounds where the comparison holds.
    pub(crate) holds_inside: bool,
}

/// The guards of a function.
#[derive(Default)]
pub(crate) struct Guards {
    /// By the block that ends with the check.
    by_block: FxHashMap<Block, Guard>,
    accesses: FxHashSet<Inst>,
}

impl Guards {
    /// The guard at the end of a block.
    pub(crate) fn at_end(&self, block: Block) -> Option<Guard> {
        self.by_block.get(&block).copied()
    }

    /// Whether an access is made on the edge that leads to its block.
    pub(crate) fn is_guarded(&self, access: Inst) -> bool {
        self.accesses.contains(&access)
    }

    /// All guards.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Guard> {
        self.by_block.values()
    }
}

/// Finds the guards, where arrays have inline lengths. Counted accesses are left alone.
pub(crate) fn find_guards(heap: &HeapFacts, mir: &Function, cfg: &Cfg) -> Guards {
    let mut guards = Guards::default();
    let Some(spines) = heap.growing_spines() else { return guards };
    for &block in &cfg.order {
        let Some(Terminator::Branch { cond, then, otherwise }) = &mir.blocks[block.index()].terminator else {
            continue;
        };
        let Some(compare) = definition(mir, mir.resolve(*cond)) else { continue };
        let Some(comparison) = Comparison::of(mir, compare) else { continue };
        let (edge, holds_inside) = if comparison.or_equal { (otherwise, false) } else { (then, true) };
        let (index, length) = comparison.inside();
        if edge.block == mir.entry || cfg.predecessors(edge.block).len() != 1 {
            continue;
        }
        if let Some(access) = first_access(heap, mir, &spines, edge, index, length) {
            guards.accesses.insert(access);
            guards.by_block.insert(block, Guard { access, compare, length, holds_inside });
        }
    }
    guards
}

/// A comparison of two numbers by size.
struct Comparison {
    less: Value,
    greater: Value,
    /// Whether they may be equal.
    or_equal: bool,
}

impl Comparison {
    fn of(mir: &Function, compare: Inst) -> Option<Comparison> {
        use CompareOp::*;
        let data = &mir.insts[compare.index()];
        let Op::Compare(op) = data.op else { return None };
        let [left, right] = [data.args[0], data.args[1]].map(|arg| mir.resolve(arg));
        let (less, greater, or_equal) = match op {
            I32LtU | I32LtS => (left, right, false),
            I32LeU | I32LeS => (left, right, true),
            I32GtU | I32GtS => (right, left, false),
            I32GeU | I32GeS => (right, left, true),
            _ => return None,
        };
        Some(Comparison { less, greater, or_equal })
    }

    /// Index and length, if it compares such: it holds where the index is below the length, or else where it is not.
    fn inside(&self) -> (Value, Value) {
        if self.or_equal { (self.greater, self.less) } else { (self.less, self.greater) }
    }
}

/// The access to the element at `index` of the array of this length that begins the block an edge leads to, if it can
/// be made before. It is known to be within the bounds: nothing checks them in the block before it.
fn first_access(
    heap: &HeapFacts,
    mir: &Function,
    spines: &SpinePlan,
    edge: &Edge,
    index: Value,
    length: Value,
) -> Option<Inst> {
    let block = &mir.blocks[edge.block.index()];
    if block.cold {
        return None;
    }
    let position = block.insts.iter().position(|inst| !mir.insts[inst.index()].op.properties().is_computation())?;
    let access = block.insts[position];
    let data = &mir.insts[access.index()];
    let kind = match data.op {
        Op::ArrayGet(ty, _) => heap.info.element_kind(ty),
        // A barrier needs the element's address in the block of the store.
        Op::ArraySet(ty) => Some(heap.info.element_kind(ty)).filter(|&kind| kind != StorageKind::Ref)?,
        _ => return None,
    };
    let is_before = |value: Value| match mir.values[mir.resolve(value).index()].def {
        ValueDef::Param(def_block, _) => def_block != edge.block,
        ValueDef::Result(inst, _) => !block.insts[..position].contains(&inst),
        ValueDef::Alias(_) => unreachable!("aliases are resolved"),
    };
    let array = root(mir, data.args[0]);
    let is_found = mir.resolve(data.args[1]) == index
        && is_length_of(mir, length, array)
        && is_before(array)
        && data.args.get(2).is_none_or(|&stored| is_before(stored))
        && !heap.lies_inline(mir, spines, kind, array, index);
    is_found.then_some(access)
}
