//! One pass over each body before any is compiled. It validates, and finds out what passes must know of other bodies:
//! what structs are made, and which functions may be inlined. Operands are followed on the stack alone, not through
//! locals or labels: what is not seen to be the same counts as different.

use serde::{Deserialize, Serialize};
use wasmparser::{Catch, Operator, OperatorsReader};

use super::profile::BodySites;
use crate::CompileError;
use crate::error::invalid;
use crate::mir::{Constant, Op};
use crate::module::{FuncIndex, FunctionSource, GlobalIndex, ModuleInfo, TypeIndex, TypeMap, check_vectors};
use crate::passes::{Made, Returns, Settings, Stored, global_value};
use crate::translate::{Allocations, translate_function};

/// No longer body is looked at for inlining, in bytes.
const MAX_INLINED: usize = 512;
/// The same for calls that are not made often, but where it has loops that only make something once: these are left.
pub(super) const MAX_INLINED_RARELY: u32 = 256;

/// Bytes of a body without locals and instructions, but for its end.
const EMPTY: usize = 2;

/// A longer body may pass the translator's limits, which only translating it tells, in bytes.
const MIN_TRANSLATED: usize = 16 << 10;

/// What a scan keeps from one body to the next.
#[derive(Default)]
pub(super) struct Scratch {
    allocations: Allocations,
    stack: Vec<Option<Op>>,
}

/// What is found in a body.
#[derive(Debug)]
pub(super) struct Scanned {
    pub(super) made: Vec<Made>,
    pub(super) stored: Vec<Stored>,
    /// Whether it is so small, and free of handlers and of loops that it may go through each time, that it may be
    /// inlined.
    pub(super) is_small: bool,
    /// Whether it returns at once.
    pub(super) is_empty: bool,
    pub(super) settings: Settings,
    pub(super) loops: Loops,
    pub(super) returns: Returns,
    /// What it calls, and where its loops begin.
    pub(super) sites: BodySites,
}

/// Whether a function has loops, and whether quick code of it can go on in optimised code there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Loops {
    None,
    Replaceable,
    /// The same, but optimised code leaves none of its loops, whether they have run or not.
    Together,
    /// There are too many bytes, or locals and operands at all loops.
    Fixed,
}

/// A longer body is compiled with optimisations at once, in bytes: its quick code takes long to compile, too, and would
/// have to run for long until it is replaced.
const MAX_REPLACEABLE: usize = 16 << 10;
/// A longer body with a loop that has parameters, or operands below it, is optimised in one piece: compilers make such
/// loops of expressions, in functions that are called once mostly, which takes less time to compile once than in parts.
const MAX_BELOW: usize = 600;
/// No more locals and operands are passed on at loops, counted once for each loop.
const MOST_PASSED: u32 = 4000;
/// No more are passed on at one loop.
const MOST_LOCALS: u32 = 200;

/// Whether a body asks, before its first loop, whether a global or a field is zero: it may find there what the loop has
/// made once, and can be [inlined in part](crate::passes) then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asking {
    Elsewhere,
    /// Its content is on top of the stack, or what it is compared with zero.
    Loaded,
    Asked,
}

impl Asking {
    fn behind(self, operator: &Operator<'_>) -> Asking {
        match (self, operator) {
            (Asking::Asked, _) => Asking::Asked,
            (_, Operator::GlobalGet { .. } | Operator::StructGet { .. }) => Asking::Loaded,
            (Asking::Loaded, Operator::RefIsNull | Operator::I32Eqz | Operator::LocalTee { .. }) => Asking::Loaded,
            (
                Asking::Loaded,
                Operator::If { .. } | Operator::BrIf { .. } | Operator::BrOnNull { .. } | Operator::BrOnNonNull { .. },
            ) => Asking::Asked,
            _ => Asking::Elsewhere,
        }
    }
}

/// Validates a body and looks through it. Errors: those of [`translate_function`].
pub(super) fn scan(
    info: &ModuleInfo,
    source: &FunctionSource<'_>,
    scratch: &mut Scratch,
) -> Result<Scanned, CompileError> {
    let range = source.body.range();
    let bytes = (range.end - range.start) as usize;
    if bytes >= MIN_TRANSLATED {
        translate_function(info, source, &mut scratch.allocations)?;
    }
    let mut validator = source.validator(&mut scratch.allocations.0);
    let mut reader = source.body.get_binary_reader();
    reader.set_features(source.validation.features);
    validator.read_locals(&mut reader).map_err(invalid)?;
    let mut scanned = Scanned {
        made: Vec::new(),
        stored: Vec::new(),
        is_small: bytes <= MAX_INLINED,
        is_empty: bytes == EMPTY,
        settings: Settings::default(),
        loops: Loops::None,
        returns: Returns::Never,
        sites: BodySites::default(),
    };
    // The function that the instruction before calls.
    let mut called = None;
    // Whether nothing has come so far but functions that globals are set to.
    let mut is_first = true;
    let mut asking = Asking::Elsewhere;
    let mut passed = 0;
    let types = TypeMap { canonical: &info.canonical_types };
    let stack = &mut scratch.stack;
    stack.clear();
    let mut operators = OperatorsReader::new(reader);
    while !operators.eof() {
        let offset = operators.original_position();
        let operator = operators.read().map_err(invalid)?;
        // What lies below an operation's operands stays; an operation that leaves a frame leaves nothing of it.
        let height = validator.operand_stack_height() as usize;
        let is_reachable = validator.get_control_frame(0).is_some_and(|frame| !frame.unreachable);
        let depth = validator.control_stack_height();
        if is_reachable && scanned.returns == Returns::Never {
            scanned.returns = match &operator {
                Operator::End if depth == 1 => called.map_or(Returns::Perhaps, Returns::After),
                Operator::Return
                | Operator::ReturnCall { .. }
                | Operator::ReturnCallIndirect { .. }
                | Operator::ReturnCallRef { .. } => Returns::Perhaps,
                operator if leaves_function(operator, depth - 1)? => Returns::Perhaps,
                _ => Returns::Never,
            };
        }
        called = match &operator {
            Operator::Call { function_index } => Some(FuncIndex(*function_index)),
            _ => None,
        };
        asking = asking.behind(&operator);
        is_first &= matches!(operator, Operator::RefFunc { .. } | Operator::GlobalSet { .. });
        let kept = match &operator {
            Operator::StructNew { struct_type_index } if is_reachable => {
                let ty = TypeIndex(*struct_type_index);
                let fields = info.types.get(ty.index()).map_or(0, |ty| ty.composite.field_count());
                let kept = height.saturating_sub(fields);
                scanned.made.push(Made { ty, contents: stack.get(kept..).map(<[_]>::to_vec) });
                Some(kept)
            }
            Operator::StructNewDefault { struct_type_index } => {
                scanned.made.push(Made { ty: TypeIndex(*struct_type_index), contents: None });
                None
            }
            Operator::StructSet { struct_type_index, field_index } if is_reachable => {
                let (ty, field) = (TypeIndex(*struct_type_index), *field_index);
                let is_field =
                    info.types.get(ty.index()).is_some_and(|ty| (field as usize) < ty.composite.field_count());
                if is_field && Stored::concerns(info, ty, field) {
                    scanned.stored.push(Stored { ty, field, content: stack.last().cloned().flatten() });
                }
                None
            }
            Operator::GlobalSet { global_index } if is_reachable => {
                let set = match stack.last() {
                    Some(Some(Op::RefFunc(function))) => Some(*function),
                    _ => None,
                };
                scanned.settings.sets.push((GlobalIndex(*global_index), set));
                scanned.settings.at_first += usize::from(is_first);
                None
            }
            Operator::CallRef { .. } => {
                scanned.sites.calls.push((offset as u32, None));
                None
            }
            Operator::Call { function_index } => {
                scanned.sites.calls.push((offset as u32, Some(*function_index)));
                None
            }
            Operator::Loop { .. } => {
                scanned.sites.loops.push(offset as u32);
                scanned.is_small &= asking == Asking::Asked;
                let locals = validator.len_locals() + height as u32;
                passed += locals;
                let is_replaceable = bytes <= MAX_REPLACEABLE && passed <= MOST_PASSED && locals <= MOST_LOCALS;
                scanned.loops = match scanned.loops {
                    Loops::None | Loops::Replaceable if is_replaceable && (height == 0 || bytes <= MAX_BELOW) => {
                        Loops::Replaceable
                    }
                    Loops::None | Loops::Replaceable | Loops::Together if is_replaceable => Loops::Together,
                    _ => Loops::Fixed,
                };
                None
            }
            Operator::TryTable { .. }
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::ReturnCallRef { .. } => {
                scanned.is_small = false;
                None
            }
            _ => None,
        };
        let kept = match kept {
            Some(kept) => kept,
            None => match operator.operator_arity(&validator) {
                Some((operands, _)) => height.saturating_sub(operands as usize),
                None => 0,
            },
        };
        validator.op(offset, &operator).map_err(invalid)?;
        check_vectors(&operator, offset as usize)?;
        stack.truncate(kept);
        stack.resize(validator.operand_stack_height() as usize, None);
        if let (Some(leaf), Some(top)) = (leaf(info, types, &operator, offset as usize), stack.last_mut()) {
            *top = Some(leaf);
        }
    }
    operators.finish().map_err(invalid)?;
    scratch.allocations.0 = validator.into_allocations();
    Ok(scanned)
}

/// Whether an instruction may branch so many blocks outwards. Errors: none, as the body is valid.
fn leaves_function(operator: &Operator<'_>, outermost: u32) -> Result<bool, CompileError> {
    Ok(match operator {
        Operator::Br { relative_depth }
        | Operator::BrIf { relative_depth }
        | Operator::BrOnNull { relative_depth }
        | Operator::BrOnNonNull { relative_depth }
        | Operator::BrOnCast { relative_depth, .. }
        | Operator::BrOnCastFail { relative_depth, .. } => *relative_depth == outermost,
        Operator::BrTable { targets } => {
            let mut leaves = targets.default() == outermost;
            for target in targets.targets() {
                leaves |= target.map_err(invalid)? == outermost;
            }
            leaves
        }
        Operator::TryTable { try_table } => try_table.catches.iter().any(|clause| match *clause {
            Catch::One { label, .. } | Catch::OneRef { label, .. } | Catch::All { label } | Catch::AllRef { label } => {
                label == outermost
            }
        }),
        _ => false,
    })
}

/// The pure operation without operands that an instruction is.
fn leaf(info: &ModuleInfo, types: TypeMap<'_>, operator: &Operator<'_>, offset: usize) -> Option<Op> {
    Some(match *operator {
        Operator::I32Const { value } => Op::Const(Constant::I32(value)),
        Operator::I64Const { value } => Op::Const(Constant::I64(value)),
        Operator::F32Const { value } => Op::Const(Constant::F32(value.bits())),
        Operator::F64Const { value } => Op::Const(Constant::F64(value.bits())),
        Operator::V128Const { value } => Op::Const(Constant::V128(value.i128() as u128)),
        Operator::RefNull { hty } => Op::Const(Constant::Null(types.heap(hty, offset).ok()?)),
        Operator::RefFunc { function_index } => Op::RefFunc(FuncIndex(function_index)),
        Operator::GlobalGet { global_index } => {
            let global = GlobalIndex(global_index);
            if info.globals[global.index()].mutable {
                return None;
            }
            global_value(info, global).unwrap_or(Op::GlobalGet(global))
        }
        _ => return None,
    })
}
