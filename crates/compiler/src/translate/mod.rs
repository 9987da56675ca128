//! From a function body to MIR, validating it on the way.
//!
//! The operand stack holds SSA values; structured control becomes blocks whose parameters are the labels' values. Code
//! that cannot be reached is validated but not translated.

mod calls;
mod control;
mod dispatch;
mod exceptions;
mod gc;
mod memory;
mod numeric;
mod ssa;
mod state;
mod table;
mod vectors;

use rustc_hash::FxHashMap;
use wasmparser::{FuncValidator, FuncValidatorAllocations, FunctionBody, Operator, ValidatorResources, WasmFeatures};

use crate::CompileError;
use crate::error::invalid;
use crate::mir::{Block, Function};
use crate::module::{FuncIndex, FunctionSource, ModuleInfo, TypeMap, ValueType};
use crate::passes;
use ssa::{Builder, Limits};
use state::{Handlers, Translator};

/// The validator's memory, to be used for one function after the other.
#[derive(Default)]
pub struct Allocations(pub(crate) FuncValidatorAllocations);

/// Validates a function body and translates it. The result has no trivial block parameters and no aliases; every block
/// has a terminator.
///
/// Fails at the body's first invalid or unsupported instruction.
pub fn translate_function(
    info: &ModuleInfo,
    source: &FunctionSource<'_>,
    allocations: &mut Allocations,
) -> Result<Function, CompileError> {
    let mut validator = source.validator(&mut allocations.0);
    let features = source.validation.features;
    let function = translate(info, source.index, &source.body, features, Part::WHOLE, Some(&mut validator))?;
    allocations.0 = validator.into_allocations();
    Ok(function)
}

/// What is made of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part<'a> {
    /// What comes after the header of the loop at this offset in the module file, with all locals and all that is on
    /// the operand stack there as parameters; or all of it.
    pub(crate) from: Option<u32>,
    /// The loops around that one, outermost first, by their offsets. They are entered by their headers, as any loop:
    /// code that was entered in the midst of one would have loops without a header.
    pub(crate) around: &'a [u32],
    /// Loops with a way out to code that goes on there.
    pub(crate) left: Left<'a>,
}

/// Loops with a way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left<'a> {
    /// All that there are.
    All,
    /// Those at these offsets in the module file, which ascend.
    These(&'a [u32]),
}

impl Part<'_> {
    /// All of a function.
    pub(crate) const WHOLE: Part<'static> = Part { from: None, around: &[], left: Left::These(&[]) };

    /// The same, with a way out at each loop.
    pub(crate) const REPLACEABLE: Part<'static> = Part { from: None, around: &[], left: Left::All };

    /// Whether there is a way out at the loop at this offset in the module file.
    fn leaves(&self, offset: u32) -> bool {
        match self.left {
            Left::All => true,
            Left::These(left) => left.binary_search(&offset).is_ok(),
        }
    }
}

/// As [`translate_function`], of a body that has been validated, or part of it.
pub(crate) fn translate_valid_function(
    info: &ModuleInfo,
    index: FuncIndex,
    body: &FunctionBody<'_>,
    features: WasmFeatures,
    part: Part<'_>,
) -> Result<Function, CompileError> {
    translate(info, index, body, features, part, None)
}

fn translate(
    info: &ModuleInfo,
    index: FuncIndex,
    body: &FunctionBody<'_>,
    features: WasmFeatures,
    part: Part<'_>,
    mut validator: Option<&mut FuncValidator<ValidatorResources>>,
) -> Result<Function, CompileError> {
    let range = body.range();
    let mut reader = body.get_binary_reader();
    reader.set_features(features);
    let ty = info.functions[index.index()].ty;
    let signature = info.func_type(ty);
    let function = Function::new(index, ty, range.start as u32);
    let mut translator = Translator {
        info,
        part,
        non_null: FxHashMap::default(),
        types: TypeMap { canonical: &info.canonical_types },
        builder: Builder::new(function, &signature.params, Limits::new()),
        stack: Vec::new(),
        control: Vec::new(),
        handlers: Handlers::default(),
        block: Block(0),
        reachable: true,
        dead_depth: 0,
        entering: None,
        offset: range.start as usize,
    };

    for _ in 0..reader.read_var_u32().map_err(invalid)? {
        let offset = reader.original_position();
        let count = reader.read_var_u32().map_err(invalid)?;
        let ty: wasmparser::ValType = reader.read().map_err(invalid)?;
        if let Some(validator) = &mut validator {
            validator.define_locals(offset, count, ty).map_err(invalid)?;
        }
        translator.add_locals(count, translator.types.value(ty, offset as usize)?);
    }
    translator.builder.end_locals();
    if let Some(offset) = part.from {
        translator.builder.function.osr = Some(offset);
        translator.enter_elsewhere();
    }
    let mut operators = wasmparser::OperatorsReader::new(reader);
    translator.begin(&signature.results);
    while !operators.eof() {
        let offset = operators.original_position();
        let operator = operators.read().map_err(invalid)?;
        if let Some(validator) = &mut validator {
            validator.op(offset, &operator).map_err(invalid)?;
        }
        translator.offset = offset as usize;
        translator.operator(&operator)?;
        if translator.builder.limits.exceeded() {
            let what = "a function with so many values and branches".to_string();
            return Err(CompileError::Unsupported { what, offset: range.start as usize });
        }
    }
    operators.finish().map_err(invalid)?;
    let is_entered = translator.entering.is_none();
    let mut function = translator.builder.finish();
    if !is_entered {
        let message = "no loop begins where one is to be entered".to_string();
        return Err(CompileError::CodeGeneration { function: index.0, message });
    }
    passes::settle(&mut function);
    Ok(function)
}

impl Translator<'_> {
    fn add_locals(&mut self, count: u32, ty: ValueType) {
        let ty = match ty {
            ValueType::Ref(ty) if !ty.nullable && self.part != Part::WHOLE => {
                let first = self.builder.local_count();
                self.non_null.extend((first..first + count).map(|local| (local, ty)));
                Self::nullable(ValueType::Ref(ty))
            }
            ty => ty,
        };
        self.builder.add_locals(count, ty);
    }

    fn operator(&mut self, operator: &Operator<'_>) -> Result<(), CompileError> {
        if self.reachable { self.dispatch(operator) } else { self.skip(operator) }
    }
}
