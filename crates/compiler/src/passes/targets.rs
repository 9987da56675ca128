//! Calls by reference that lead to the same few functions each time: of an interface's or a superclass's method, of a
//! closure. Quick code [notes](note_calls) them, and optimised code [compares](guess_targets) the reference with
//! them, so that they can be inlined.

use smallvec::SmallVec;

use crate::mir::{Block, BlockData, Callee, Edge, Function, Inst, InstData, Op, Terminator, Value, ValueDef};
use crate::module::{FuncIndex, TypeIndex, ValueType};

/// A call by reference.
pub(crate) struct CallByReference {
    /// The type of the function.
    pub ty: TypeIndex,
    /// The reference to it.
    pub reference: Value,
    /// The call's source.
    pub source: u32,
}

/// Functions that a call by reference may lead to.
#[derive(Default)]
pub(crate) struct Likely {
    /// The functions.
    pub targets: SmallVec<[FuncIndex; 4]>,
    /// Whether it has led to no others so far.
    pub is_complete: bool,
    /// Whether it has been seen to lead to each of them.
    pub is_seen: bool,
}

/// Has calls by reference note what they lead to, and loops with a way out that they run, and so calls in blocks that
/// `counts` says. `reference` tells a call by reference's number, `word` the word that counts how often something runs,
/// both by offsets in the module file: nothing has been inlined.
pub(crate) fn note_calls(
    function: &mut Function,
    counts: impl Fn(&BlockData) -> bool,
    reference: impl Fn(u32) -> Option<u32>,
    word: impl Fn(u32) -> Option<u32>,
) {
    let run = |function: &mut Function, block: Block, offset: u32, source: u32| {
        if let Some(word) = word(offset) {
            function.push(block, Op::NoteRun(word), &[], &[], source);
        }
    };
    let call = |function: &mut Function, block: Block, callee: &Callee, source: u32| {
        if counts(&function.blocks[block.index()]) {
            run(function, block, source, source);
        }
        if let Callee::Reference(_, target, _) = *callee
            && let Some(number) = reference(source)
        {
            function.push(block, Op::NoteTarget(number), &[target], &[], source);
        }
    };
    for block in (0..function.blocks.len() as u32).map(Block) {
        let insts = std::mem::take(&mut function.blocks[block.index()].insts);
        for inst in insts {
            if let InstData { op: Op::Call(callee), source, .. } = &function.insts[inst.index()] {
                let (callee, source) = (callee.clone(), *source);
                call(function, block, &callee, source);
            }
            function.blocks[block.index()].insts.push(inst);
            if let InstData { op: Op::OsrEntry(offset), source, .. } = function.insts[inst.index()] {
                run(function, block, offset, source);
            }
        }
        let BlockData { terminator, terminator_source, .. } = &function.blocks[block.index()];
        if let Some(Terminator::TryCall { callee, .. }) = terminator {
            let (callee, source) = (callee.clone(), *terminator_source);
            call(function, block, &callee, source);
        }
    }
}

/// Compares the references of calls with the functions that they are likely to lead to, and calls these directly.
/// `likely` tells them. Calls in blocks known as cold stay as they are.
pub(crate) fn guess_targets(function: &mut Function, likely: &dyn Fn(&Function, CallByReference) -> Likely) {
    for number in 0..function.blocks.len() {
        if function.blocks[number].cold {
            continue;
        }
        let insts = std::mem::take(&mut function.blocks[number].insts);
        let mut current = Block(number as u32);
        let terminator = function.blocks[number].terminator.take();
        let source = function.blocks[number].terminator_source;
        for inst in insts {
            let data = &function.insts[inst.index()];
            let likely = match data.op {
                Op::Call(Callee::Reference(ty, reference, _)) => {
                    likely(function, CallByReference { ty, reference, source: data.source })
                }
                _ => Likely::default(),
            };
            match likely.targets.is_empty() {
                true => function.blocks[current.index()].insts.push(inst),
                false => current = split_call(function, current, inst, &likely),
            }
        }
        if let Some(Terminator::TryCall { callee, args, normal, handlers }) = &terminator
            && let Callee::Reference(ty, reference, _) = *callee
        {
            let likely = likely(function, CallByReference { ty, reference, source });
            let call = |callee: Callee| Terminator::TryCall {
                callee,
                args: args.clone(),
                normal: normal.clone(),
                handlers: handlers.clone(),
            };
            for &target in &likely.targets {
                let (direct, otherwise) = branch(function, current, target, reference, source);
                finish(function, direct, call(Callee::Direct(target)), source);
                current = otherwise;
            }
            function.blocks[current.index()].cold |= likely.is_complete && !likely.targets.is_empty();
            finish(function, current, call(callee.clone()), source);
        } else {
            function.blocks[current.index()].terminator = terminator;
            function.blocks[current.index()].terminator_source = source;
        }
    }
}

/// Puts direct calls of the targets, and the call itself for any other function, at the end of block `current`, which
/// has no terminator. Returns the block in which the function goes on.
fn split_call(function: &mut Function, mut current: Block, inst: Inst, likely: &Likely) -> Block {
    let data = function.insts[inst.index()].clone();
    let Op::Call(Callee::Reference(_, reference, _)) = data.op else { unreachable!("a call by reference") };
    let types: SmallVec<[ValueType; 2]> = data.results.iter().map(|&result| function.value_type(result)).collect();
    let is_cold = function.blocks[current.index()].cold;
    let rest = function.add_block();
    function.blocks[rest.index()].cold = is_cold;
    for (&result, &ty) in data.results.iter().zip(&types) {
        let param = function.add_param(rest, ty);
        function.values[result.index()].def = ValueDef::Alias(param);
    }
    let call = |function: &mut Function, block: Block, op: Op| {
        let call = function.push(block, op, &data.args, &types, data.source);
        let results = function.insts[call.index()].results.iter().copied().collect();
        finish(function, block, Terminator::Jump(Edge { block: rest, args: results }), data.source);
    };
    for &target in &likely.targets {
        let (direct, otherwise) = branch(function, current, target, reference, data.source);
        call(function, direct, Op::Call(Callee::Direct(target)));
        current = otherwise;
    }
    function.blocks[current.index()].cold |= likely.is_complete;
    call(function, current, data.op.clone());
    rest
}

/// Ends a block by asking whether a reference is one to `target`. Returns the blocks for both answers.
fn branch(function: &mut Function, block: Block, target: FuncIndex, reference: Value, source: u32) -> (Block, Block) {
    let compare = function.push(block, Op::IsFunction(target, None), &[reference], &[ValueType::I32], source);
    let cond = function.insts[compare.index()].results[0];
    let (direct, otherwise) = (function.add_block(), function.add_block());
    for added in [direct, otherwise] {
        function.blocks[added.index()].cold = function.blocks[block.index()].cold;
    }
    finish(
        function,
        block,
        Terminator::Branch { cond, then: Edge::to(direct), otherwise: Edge::to(otherwise) },
        source,
    );
    (direct, otherwise)
}

fn finish(function: &mut Function, block: Block, terminator: Terminator, source: u32) {
    let block = &mut function.blocks[block.index()];
    block.terminator = Some(terminator);
    block.terminator_source = source;
}
