//! What several passes need: what an operation may do, constants, replacement.

use smallvec::SmallVec;

use crate::mir::{Block, Cfg, Constant, Function, Inst, Op, Terminator, Value, ValueDef};
use crate::module::{HeapType, ModuleInfo, RefType, ValueType};

/// The instruction that defines a value.
pub(crate) fn definition(function: &Function, value: Value) -> Option<Inst> {
    match function.values[value.index()].def {
        ValueDef::Result(inst, _) => Some(inst),
        ValueDef::Param(..) | ValueDef::Alias(_) => None,
    }
}

/// The operation and operands that give a value.
pub(crate) fn origin(function: &Function, value: Value) -> Option<(&Op, &[Value])> {
    let data = &function.insts[definition(function, value)?.index()];
    Some((&data.op, &data.args))
}

/// The value as a constant.
pub(crate) fn constant(function: &Function, value: Value) -> Option<Constant> {
    match origin(function, value) {
        Some((&Op::Const(constant), _)) => Some(constant),
        _ => None,
    }
}

/// The array length that a value is known to be.
pub(crate) fn constant_length(function: &Function, value: Value) -> Option<u32> {
    constant_i32(function, function.resolve(value)).map(|length| length as u32)
}

/// The value as an `i32` constant.
pub(super) fn constant_i32(function: &Function, value: Value) -> Option<i32> {
    match constant(function, value) {
        Some(Constant::I32(value)) => Some(value),
        _ => None,
    }
}

/// The reference type of a value; that of something without a meaning as a reference panics, as verification excludes
/// it.
pub(super) fn ref_type(function: &Function, value: Value) -> RefType {
    match function.value_type(value) {
        ValueType::Ref(ty) => ty,
        other => panic!("{value} is {other}, not a reference"),
    }
}

/// Whether an instruction may go when nothing uses its results: it has no effect and does not trap.
pub(super) fn is_removable(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst.index()];
    let never_traps = matches!(data.op, Op::Binary(_)) && division_is_safe(function, &data.args);
    never_traps || data.op.properties().is_removable()
}

/// Whether a division by these operands cannot trap: the divisor is a constant other than 0 and -1.
fn division_is_safe(function: &Function, args: &[Value]) -> bool {
    match constant(function, args[1]) {
        Some(Constant::I32(divisor)) => divisor != 0 && divisor != -1,
        Some(Constant::I64(divisor)) => divisor != 0 && divisor != -1,
        _ => false,
    }
}

/// Makes an instruction compute a constant instead.
pub(super) fn become_constant(function: &mut Function, inst: Inst, constant: Constant) {
    let data = &mut function.insts[inst.index()];
    data.op = Op::Const(constant);
    data.args = SmallVec::new();
}

/// Makes the only result of `inst` stand for `value`, which is known to be the same. Returns true if the instruction
/// has become superfluous; otherwise it now narrows the type, so that users see what they saw before.
pub(super) fn replace(function: &mut Function, info: &ModuleInfo, inst: Inst, value: Value) -> bool {
    let result = function.insts[inst.index()].results[0];
    let wanted = function.value_type(result);
    if info.is_subtype(function.value_type(value), wanted) {
        function.values[result.index()].def = ValueDef::Alias(value);
        return true;
    }
    let ValueType::Ref(ty) = wanted else { panic!("{value} and {result} are of different types") };
    let data = &mut function.insts[inst.index()];
    data.op = Op::Refine(ty);
    data.args = SmallVec::from_slice(&[value]);
    false
}

/// Rewrites an instruction's operands to what they stand for.
pub(super) fn resolve_inst(function: &mut Function, inst: Inst) {
    let Function { insts, values, .. } = function;
    let data = &mut insts[inst.index()];
    let resolve = |value: &mut Value| {
        while let ValueDef::Alias(next) = values[value.index()].def {
            *value = next;
        }
    };
    data.args.iter_mut().for_each(resolve);
    data.op.for_each_use_mut(resolve);
}

/// Rewrites a terminator's operands to what they stand for.
pub(super) fn resolve_terminator(function: &mut Function, block: Block) {
    let Function { blocks, values, .. } = function;
    if let Some(terminator) = &mut blocks[block.index()].terminator {
        terminator.for_each_use_mut(|value| {
            while let ValueDef::Alias(next) = values[value.index()].def {
                *value = next;
            }
        });
    }
}

/// The block's terminator. Every reachable block has one.
pub(super) fn terminator(function: &Function, block: Block) -> &Terminator {
    function.blocks[block.index()].terminator.as_ref().expect("reachable blocks are terminated")
}

/// The block of each instruction.
pub(super) struct DefBlocks(Vec<Block>);

impl DefBlocks {
    pub(super) fn new(function: &Function, cfg: &Cfg) -> DefBlocks {
        let mut def_blocks = vec![function.entry; function.insts.len()];
        for &block in &cfg.order {
            for &inst in &function.blocks[block.index()].insts {
                def_blocks[inst.index()] = block;
            }
        }
        DefBlocks(def_blocks)
    }

    /// The block that defines a value. An instruction made since has none; neither has an alias.
    pub(super) fn get(&self, function: &Function, value: Value) -> Option<Block> {
        match function.values[value.index()].def {
            ValueDef::Param(block, _) => Some(block),
            ValueDef::Result(inst, _) => self.0.get(inst.index()).copied(),
            ValueDef::Alias(_) => None,
        }
    }

    /// The block that defines a value that is known to have one.
    pub(super) fn of(&self, function: &Function, value: Value) -> Block {
        self.get(function, value).unwrap_or_else(|| unreachable!("{value} is new, or an alias"))
    }

    /// Notes that an instruction has been moved.
    pub(super) fn moved(&mut self, inst: Inst, block: Block) {
        self.0[inst.index()] = block;
    }
}

/// By value, how often it is used in these blocks.
pub(super) fn use_counts(function: &Function, blocks: &[Block]) -> Vec<u32> {
    let mut counts = vec![0u32; function.values.len()];
    let mut count = |value: Value| counts[function.resolve(value).index()] += 1;
    for &block in blocks {
        let data = &function.blocks[block.index()];
        for &inst in &data.insts {
            let data = &function.insts[inst.index()];
            data.args.iter().copied().for_each(&mut count);
            data.op.for_each_use(&mut count);
        }
        if let Some(terminator) = &data.terminator {
            terminator.for_each_use(&mut count);
        }
    }
    counts
}

/// The reference that a value is a checked, cast or refined copy of.
pub(crate) fn root(function: &Function, value: Value) -> Value {
    let mut at = function.resolve(value);
    while let Some((op, args)) = origin(function, at)
        && op.properties().copies
    {
        at = function.resolve(args[0]);
    }
    at
}

/// Whether a value is the length of this array.
pub(super) fn is_length_of(function: &Function, value: Value, array: Value) -> bool {
    let array = root(function, array);
    if let Some((Op::ArrayLen(_), args)) = origin(function, value) {
        return root(function, args[0]) == array;
    }
    match origin(function, array) {
        Some((Op::ArrayNew(_), args)) => function.resolve(args[1]) == value,
        Some((Op::ArrayNewDefault(_), args)) => function.resolve(args[0]) == value,
        _ => false,
    }
}

/// For every value the reference it is a checked, cast or refined copy of: the same bits, with another static type.
///
/// To be filled while walking through the function in an order in which definitions come before uses.
pub(super) struct Roots(Vec<Value>);

impl Roots {
    pub(super) fn new(function: &Function) -> Roots {
        Roots((0..function.values.len() as u32).map(Value).collect())
    }

    pub(super) fn of(&self, value: Value) -> Value {
        // Values made after the table have no copies.
        self.0.get(value.index()).copied().unwrap_or(value)
    }

    /// Takes note of an instruction whose operands are resolved.
    pub(super) fn visit(&mut self, function: &Function, info: &ModuleInfo, inst: Inst) {
        let data = &function.insts[inst.index()];
        if !data.op.properties().copies {
            return;
        }
        let (from, to) = (data.args[0], data.results[0]);
        // Conversions between the hierarchies of any and extern are not copies: facts about one side would confuse the
        // other's.
        let top = |value| info.top_type(ref_type(function, value).heap);
        if to.index() < self.0.len() && top(from) == top(to) {
            self.0[to.index()] = self.of(from);
        }
    }
}

/// The type without objects at the bottom of a hierarchy.
pub(super) fn bottom(info: &ModuleInfo, heap: HeapType) -> HeapType {
    match info.top_type(heap) {
        HeapType::Func => HeapType::NoFunc,
        HeapType::Extern => HeapType::NoExtern,
        HeapType::Exn => HeapType::NoExn,
        _ => HeapType::None,
    }
}

/// What holds for a reference of both types.
pub(super) fn meet(info: &ModuleInfo, a: RefType, b: RefType) -> RefType {
    let nullable = a.nullable && b.nullable;
    let heap = if info.is_heap_subtype(b.heap, a.heap) {
        b.heap
    } else if info.is_heap_subtype(a.heap, b.heap) {
        a.heap
    } else {
        bottom(info, a.heap)
    };
    RefType { nullable, heap }
}
