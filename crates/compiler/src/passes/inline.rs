//! Inlining of small functions at direct calls.
//!
//! What is inlined is a callee's body as the other passes leave it, before anything has been inlined into that body
//! itself, so that neither recursion nor order matters; then what that calls, a few calls deep. Callees are small, free
//! of loops and of handlers. Handlers of a call become those of all calls and throws in what is inlined there.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::cold::cold_blocks;
use super::fields::Fields;
use super::partial::leave_rare;
use super::targets::{CallByReference, Likely, guess_targets};
use super::unreachable::unreachable_blocks;
use crate::mir::{
    Block, BlockData, Callee, Cfg, Edge, Function, HandlerEdge, Inst, InstData, Op, Terminator, Value, ValueDef,
};
use crate::module::{FuncIndex, ModuleInfo};
use crate::sources::Moved;

/// The largest bodies that are inlined.
const LIMITS: Limits = Limits { cost: 50, cold_cost: 120, blocks: 10, growth: 200 };
/// The same at calls that are known to be made often.
const HOT_LIMITS: Limits = Limits { cost: 100, cold_cost: 240, blocks: 20, growth: 400 };
/// What all bodies may cost together that a call by reference is compared with, if it has not been seen to lead there:
/// most such calls do not matter.
const MAX_UNSEEN_COST: usize = 150;
/// A body of no more instructions is about as long as its call: it counts for nothing.
const TINY: usize = 8;
/// How many calls deep functions are inlined.
const MAX_DEPTH: usize = 3;
/// How many forwarders are followed that call each other. They count for no depth: MoonBit's hash of a number
/// leads through three.
const MAX_FORWARDERS: usize = 6;
/// A larger function is left alone, in instructions: it runs once, or it is at the limits of compile time already.
const MAX_CALLER: usize = 8_000;

/// By how many instructions a function of `original` ones may grow in any case. Interpreters call accessors of their
/// stack in each of a hundred cases: those that do not fit stay calls, however often they run.
fn most_growth(original: usize) -> usize {
    (4 * original).min(MAX_CALLER).max(original)
}

/// How large a body may be that is inlined, but for its [cold](super::cold()) blocks, and what these may cost: checks
/// of the program's own come with a part of a dozen calls that throws, which the way through the body costs nothing.
struct Limits {
    /// In [`cost`]s.
    cost: usize,
    cold_cost: usize,
    blocks: usize,
    /// A function grows by at most this many instructions, or as [`most_growth`] says.
    growth: usize,
}

/// What is known of the functions that another one calls, and how.
pub(crate) trait Callees {
    /// What calls of a function may be replaced by; `is_hot`, if they are made often.
    fn bodies(&self, callee: FuncIndex, is_hot: bool) -> Option<&Bodies>;

    /// Which functions a call by reference probably leads to, given with its offset in the module file.
    fn likely(&self, function: &Function, call: &CallByReference, offset: u32) -> Likely;

    /// Whether the call at this offset in the module file is made often, if that is known.
    fn is_hot(&self, offset: u32) -> Option<bool>;
}

/// The bodies of a whole module that may be inlined.
pub(crate) struct Inliner<'a> {
    /// By function index.
    bodies: Vec<Bodies>,
    fields: &'a Fields,
    info: &'a ModuleInfo,
}

/// What calls of a function may be replaced by.
#[derive(Default)]
pub(crate) struct Bodies {
    /// The function as the other passes have left it.
    pub(crate) whole: Option<Body>,
    /// The same, but it [calls the function](super::partial) for what that does rarely.
    partial: Option<Body>,
}

/// A body that may be inlined.
pub(crate) struct Body {
    pub(crate) function: Function,
    cfg: Cfg,
    /// How many instructions it has.
    size: usize,
    /// The costs of its blocks, but for cold ones, and of these.
    costs: [usize; 2],
    /// How many blocks it has, but for cold ones.
    blocks: usize,
    /// Whether the function's own body cannot be inlined at any call: it has loops, or is too large.
    is_only: bool,
    /// Whether it is a forwarder, which does nothing but call another function.
    is_forwarder: bool,
}

/// The cost of an operation: what it adds to the code, roughly in machine instructions. A call costs most.
fn cost(op: &Op) -> usize {
    match op {
        Op::Const(_) | Op::Refine(_) => 0,
        Op::Call(_) => 8,
        Op::StructNew(_) | Op::StructNewDefault(_) | Op::ArrayNewFixed(_) => 8,
        Op::RefCast(_) | Op::RefTest(_) => 3,
        _ => 1,
    }
}

impl Bodies {
    /// Of a function that is optimised, and has nothing inlined into it.
    pub(crate) fn new(function: &Function, info: &ModuleInfo) -> Bodies {
        if function.insts.len() > 16 * HOT_LIMITS.cost {
            return Bodies::default();
        }
        let whole = if Cfg::new(function).has_loops() { None } else { body(function.clone()) };
        let can_be_whole = whole.as_ref().is_some_and(|body| body.is_cheap_at(0, false));
        let mut partial = function.clone();
        let partial = leave_rare(&mut partial, info, can_be_whole, cost).then_some(partial).and_then(body);
        let partial = partial.map(|body| Body { is_only: !can_be_whole, ..body });
        Bodies { whole, partial }
    }

    /// The body for a call that is `depth` calls deep, is made often or not, and whose exceptions are caught in its own
    /// function or not. Where they are, a `throw` of the whole body becomes a jump.
    fn at(&self, depth: usize, is_hot: bool, is_caught: bool) -> Option<&Body> {
        let whole = self.whole.as_ref().filter(|body| body.is_cheap_at(0, is_hot));
        let body = match is_caught {
            true => whole.or(self.partial.as_ref()),
            false => self.partial.as_ref().or(whole),
        };
        body.filter(|body| body.is_cheap_at(depth, is_hot))
    }
}

impl Body {
    /// Whether a function of `size` instructions, which had `original` ones, may grow by it, at a call that is made
    /// often or not.
    fn fits(&self, size: usize, original: usize, is_hot: bool) -> bool {
        let most = original + most_growth(original).max(Limits::at(is_hot).growth);
        self.size <= TINY && size < MAX_CALLER || size + self.size <= most
    }

    /// Whether it is worth its code `depth` calls deep, at a call that is made often or not. What is left there is
    /// mostly accessors; anything larger made code longer, and programs no faster.
    fn is_cheap_at(&self, depth: usize, is_hot: bool) -> bool {
        let [hot, cold] = self.costs;
        // What has been cut down to a part is seldom found: it does not make code longer one call further down.
        let depth = depth.saturating_sub(usize::from(self.is_only));
        Limits::at(is_hot).take([hot, cold].map(|cost| cost * (depth + 1)), self.blocks)
    }
}

impl Limits {
    fn at(is_hot: bool) -> &'static Limits {
        if is_hot { &HOT_LIMITS } else { &LIMITS }
    }

    fn take(&self, [hot, cold]: [usize; 2], blocks: usize) -> bool {
        hot <= self.cost && cold <= self.cold_cost && blocks <= self.blocks
    }
}

impl<'a> Inliner<'a> {
    /// Chooses among a module's functions, which are optimised, and whose `fields` hold what is called by reference.
    pub(crate) fn new(functions: &[Function], fields: &'a Fields, info: &'a ModuleInfo) -> Inliner<'a> {
        let mut bodies: Vec<_> = (0..info.functions.len()).map(|_| Bodies::default()).collect();
        for function in functions {
            bodies[function.index.index()] = Bodies::new(function, info);
        }
        Inliner { bodies, fields, info }
    }
}

impl Callees for Inliner<'_> {
    fn bodies(&self, callee: FuncIndex, _is_hot: bool) -> Option<&Bodies> {
        self.bodies.get(callee.index())
    }

    fn likely(&self, function: &Function, call: &CallByReference, _offset: u32) -> Likely {
        self.fields.targets(self.info, function, call)
    }

    fn is_hot(&self, _offset: u32) -> Option<bool> {
        None
    }
}

/// Inlines what is worth it; returns whether anything has changed.
pub(crate) fn inline(function: &mut Function, callees: &dyn Callees) -> bool {
    let size = function.insts.len();
    if size > MAX_CALLER {
        return false;
    }
    // What is called by what was inlined comes after all calls of the function's own: these matter most. At each depth,
    // what is called for certain comes first.
    let mut forwarders = FxHashSet::default();
    let inline_at = |&depth: &usize| {
        let is_direct = inline_at(function, depth, size, callees, &mut forwarders);
        guess_targets(function, &|function, call| {
            let is_here = depth_of(function, call.source, &forwarders) == depth;
            let offset = function.sources.offsets(call.source).next().filter(|_| is_here);
            let Likely { mut targets, is_complete, is_seen } =
                offset.map_or_else(Likely::default, |offset| callees.likely(function, &call, offset));
            let is_hot = is_hot(function, call.source, callees);
            let body = |target: FuncIndex| callees.bodies(target, is_hot)?.at(depth, is_hot, false);
            let fits = |target| body(target).is_some_and(|body| body.fits(function.insts.len(), size, is_hot));
            let noted = targets.len();
            targets.retain(|target| *target != function.index && fits(*target));
            let cost = |&target: &FuncIndex| body(target).map(|body| body.costs[0] + body.costs[1] / 2);
            if !is_seen && targets.iter().filter_map(cost).sum::<usize>() > MAX_UNSEEN_COST / (depth + 1) {
                targets.clear();
            }
            Likely { is_complete: is_complete && targets.len() == noted, is_seen, targets }
        });
        is_direct | inline_at(function, depth, size, callees, &mut forwarders)
    };
    let depths = (0..MAX_DEPTH).take_while(inline_at).count();
    if depths > 0 {
        function.resolve_aliases();
        unreachable_blocks(function, &Cfg::new(function));
    }
    depths > 0
}

/// Whether a call is made often, and those that it was inlined at, as far as is known.
fn is_hot(function: &Function, source: u32, callees: &dyn Callees) -> bool {
    let mut known = function.sources.offsets(source).map(|offset| callees.is_hot(offset));
    known.next() == Some(Some(true)) && known.all(|is_hot| is_hot != Some(false))
}

/// How many calls deep an instruction was inlined, but for calls of `forwarders`.
fn depth_of(function: &Function, source: u32, forwarders: &FxHashSet<u32>) -> usize {
    function.sources.calls(source).filter(|call| !forwarders.contains(call)).count()
}

/// Inlines calls that have been inlined `depth` times themselves, but for those in blocks known as cold, as long as the
/// function, which had `original` instructions, may grow. What a forwarder calls comes at the same depth; its own call
/// is added to `forwarders`. Returns whether there were any calls that may be inlined.
fn inline_at(
    function: &mut Function,
    depth: usize,
    original: usize,
    callees: &dyn Callees,
    forwarders: &mut FxHashSet<u32>,
) -> bool {
    let mut any = false;
    for _ in 0..MAX_FORWARDERS {
        let Some(found) = inline_once(function, depth, original, callees, forwarders) else { break };
        any = true;
        if found.is_empty() {
            break;
        }
        forwarders.extend(found);
    }
    any
}

/// As [`inline_at`], but leaves what forwarders call. Returns the sources of those calls of forwarders that have been
/// inlined, if there were any calls at all that may be.
fn inline_once(
    function: &mut Function,
    depth: usize,
    original: usize,
    callees: &dyn Callees,
    forwarders: &FxHashSet<u32>,
) -> Option<Vec<u32>> {
    let index = function.index;
    let body_for = |function: &Function, callee: &Callee, source: u32, is_caught: bool| match callee {
        Callee::Direct(callee) if *callee != index && depth_of(function, source, forwarders) == depth => {
            let is_hot = is_hot(function, source, callees);
            Some((callees.bodies(*callee, is_hot)?.at(depth, is_hot, is_caught)?, is_hot))
        }
        _ => None,
    };
    let called = |function: &Function, inst: Inst| match &function.insts[inst.index()] {
        InstData { op: Op::Call(callee), source, .. } => body_for(function, callee, *source, false),
        _ => None,
    };
    let tried = |function: &Function, terminator: &Option<Terminator>, source: u32| match terminator {
        Some(Terminator::TryCall { callee, .. }) => body_for(function, callee, source, true),
        _ => None,
    };
    let calls = |block: &BlockData| {
        let is_called = |&inst: &Inst| called(function, inst).is_some();
        let is_tried = || tried(function, &block.terminator, block.terminator_source).is_some();
        !block.cold && (block.insts.iter().any(is_called) || is_tried())
    };
    let calling: Vec<usize> = (0..function.blocks.len()).filter(|&number| calls(&function.blocks[number])).collect();
    let mut found = Vec::new();
    for &number in &calling {
        let insts = std::mem::take(&mut function.blocks[number].insts);
        let terminator = function.blocks[number].terminator.take();
        let source = function.blocks[number].terminator_source;
        let mut current = number;
        for inst in insts {
            match called(function, inst) {
                Some((body, is_hot)) if body.fits(function.insts.len(), original, is_hot) => {
                    found.extend(body.is_forwarder.then_some(function.insts[inst.index()].source));
                    current = splice(function, current, inst, body);
                }
                _ => function.blocks[current].insts.push(inst),
            }
        }
        match (tried(function, &terminator, source), terminator) {
            (Some((body, is_hot)), Some(Terminator::TryCall { args, normal, handlers, .. }))
                if body.fits(function.insts.len(), original, is_hot) =>
            {
                found.extend(body.is_forwarder.then_some(source));
                copy(function, current, &args, source, body, &Rest::Edge(normal), &handlers);
            }
            (_, terminator) => {
                function.blocks[current].terminator = terminator;
                function.blocks[current].terminator_source = source;
            }
        }
    }
    (!calling.is_empty()).then_some(found)
}

/// A body that may be inlined, of a function without loops.
fn body(mut function: Function) -> Option<Body> {
    let cfg = Cfg::new(&function);
    for block in cold_blocks(&function, &cfg) {
        function.blocks[block.index()].cold = true;
    }
    let blocks = cfg.order.iter().filter(|block| !function.blocks[block.index()].cold).count();
    let (mut hot_cost, mut cold_cost, mut size) = (blocks - 1, 0, 0);
    for &block in &cfg.order {
        let data = &function.blocks[block.index()];
        let total = if data.cold { &mut cold_cost } else { &mut hot_cost };
        size += data.insts.len();
        for &inst in &data.insts {
            let InstData { op, source, .. } = &function.insts[inst.index()];
            let is_recursive = matches!(op, Op::Call(Callee::Direct(callee)) if *callee == function.index);
            if matches!(op, Op::Poll) || is_recursive && *source != function.source {
                return None;
            }
            *total += cost(op);
        }
        match data.terminator.as_ref()? {
            Terminator::Throw { handlers, .. } if handlers.is_empty() => *total += 8,
            Terminator::TailCall { .. } | Terminator::TryCall { .. } | Terminator::Throw { .. } => return None,
            Terminator::Switch { targets, .. } => *total += targets.len(),
            _ => {}
        }
    }
    let costs = [hot_cost, cold_cost];
    let is_forwarder = is_forwarder(&function, &cfg);
    HOT_LIMITS.take(costs, blocks).then(|| Body { function, cfg, size, costs, blocks, is_only: false, is_forwarder })
}

/// Whether a function does nothing but call another one, with arguments that are its own, perhaps cast, or constants.
fn is_forwarder(function: &Function, cfg: &Cfg) -> bool {
    let mut calls = 0;
    let mut is_passed_on = |inst: &Inst| match &function.insts[inst.index()].op {
        Op::Call(Callee::Direct(_)) => {
            calls += 1;
            true
        }
        op => matches!(op, Op::Refine(_) | Op::Const(_) | Op::RefCast(_)),
    };
    cfg.order.len() == 1 && function.blocks[function.entry.index()].insts.iter().all(&mut is_passed_on) && calls == 1
}

/// Copies the callee's body in place of the call `inst`, which would come at the end of block `current`, whose
/// terminator has been taken. Returns the block in which the caller goes on.
fn splice(caller: &mut Function, current: usize, inst: Inst, body: &Body) -> usize {
    let InstData { args, results, source, .. } = caller.insts[inst.index()].clone();
    let returns = |block: &Block| matches!(body.function.blocks[block.index()].terminator, Some(Terminator::Return(_)));
    if let [block] = body.cfg.order[..]
        && returns(&block)
    {
        let values = copy(caller, current, &args, source, body, &Rest::Here, &[]);
        for (&result, value) in results.iter().zip(values) {
            caller.values[result.index()].def = ValueDef::Alias(value);
        }
        return current;
    }
    let rest = caller.add_block();
    caller.blocks[rest.index()].cold = caller.blocks[current].cold;
    for &result in &results {
        let param = caller.add_param(rest, caller.value_type(result));
        caller.values[result.index()].def = ValueDef::Alias(param);
    }
    copy(caller, current, &args, source, body, &Rest::Edge(Edge::to(rest)), &[]);
    rest.index()
}

/// Where the caller goes on after a body.
enum Rest {
    /// In the copy of its only block, which returns.
    Here,
    /// Along this edge, which begins with what the body returns.
    Edge(Edge),
}

/// Copies the callee's body to the end of block `current`, which has no terminator, and to new blocks. The call has the
/// source `call`; `handlers` catch what it throws. Returns the values that it returns where the caller goes on in its
/// only block.
fn copy(
    caller: &mut Function,
    current: usize,
    args: &[Value],
    call: u32,
    body: &Body,
    rest: &Rest,
    handlers: &[HandlerEdge],
) -> SmallVec<[Value; 4]> {
    let Body { function: callee, cfg, .. } = body;
    let mut moved = Moved::new(&callee.sources, Some(call));
    let mut copies: Vec<Option<Value>> = vec![None; callee.values.len()];
    for (&param, &arg) in callee.blocks[callee.entry.index()].params.iter().zip(args) {
        copies[param.index()] = Some(arg);
    }
    // The entry's copy is the current block itself.
    let mut blocks = vec![None; callee.blocks.len()];
    blocks[callee.entry.index()] = Some(Block(current as u32));
    let is_cold = caller.blocks[current].cold;
    for &block in &cfg.order[1..] {
        let copy = caller.add_block();
        caller.blocks[copy.index()].cold = is_cold || callee.blocks[block.index()].cold;
        blocks[block.index()] = Some(copy);
        for &param in &callee.blocks[block.index()].params {
            copies[param.index()] = Some(caller.add_param(copy, callee.value_type(param)));
        }
    }
    for &block in &cfg.order {
        let data = &callee.blocks[block.index()];
        let mut copy = blocks[block.index()].expect("every reachable block has a copy");
        for &inst in &data.insts {
            let inst = &callee.insts[inst.index()];
            let copied = |value: Value| copies[callee.resolve(value).index()].expect("definitions precede uses");
            let args: SmallVec<[Value; 4]> = inst.args.iter().map(|&arg| copied(arg)).collect();
            let mut op = inst.op.clone();
            op.for_each_use_mut(|value| *value = copied(*value));
            let types: SmallVec<[_; 2]> = inst.results.iter().map(|&result| callee.value_type(result)).collect();
            // The function itself, called again, stands in no frame of its own.
            let source = match inst.source == callee.source {
                true => call,
                false => moved.source(inst.source, &mut caller.sources),
            };
            let results = match op {
                Op::Call(callee) if !handlers.is_empty() => {
                    let normal = caller.add_block();
                    let call =
                        Terminator::TryCall { callee, args, normal: Edge::to(normal), handlers: handlers.to_vec() };
                    let [before, after] = [copy, normal].map(Block::index);
                    caller.blocks[after].cold = caller.blocks[before].cold;
                    caller.blocks[before].terminator = Some(call);
                    caller.blocks[before].terminator_source = source;
                    copy = normal;
                    types.iter().map(|&ty| caller.add_param(normal, ty)).collect()
                }
                op => {
                    let new = caller.push(copy, op, &args, &types, source);
                    caller.insts[new.index()].results.clone()
                }
            };
            for (&result, value) in inst.results.iter().zip(results) {
                copies[result.index()] = Some(value);
            }
        }
        let mut terminator = data.terminator.clone().expect("a finished block");
        terminator.for_each_use_mut(|value| {
            *value = copies[callee.resolve(*value).index()].expect("definitions precede uses");
        });
        terminator.for_each_edge_mut(|edge| edge.block = blocks[edge.block.index()].expect("a reachable block"));
        let terminator = match (terminator, rest) {
            (Terminator::Return(values), Rest::Here) => return values,
            (Terminator::Return(mut values), Rest::Edge(edge)) => {
                values.extend_from_slice(&edge.args);
                Terminator::Jump(Edge { block: edge.block, args: values })
            }
            (Terminator::Throw { exception, .. }, _) => Terminator::Throw { exception, handlers: handlers.to_vec() },
            (other, _) => other,
        };
        caller.blocks[copy.index()].terminator = Some(terminator);
        caller.blocks[copy.index()].terminator_source = moved.source(data.terminator_source, &mut caller.sources);
    }
    SmallVec::new()
}
