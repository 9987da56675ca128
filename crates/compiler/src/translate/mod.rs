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

use wasmparser::{FuncValidator, FuncValidatorAllocations, FunctionBody, Operator, ValidatorResources, WasmFeatures};

use crate::CompileError;
use crate::error::invalid;
use crate::mir::{Block, Function};
use crate::module::{FuncIndex, FunctionSource, ModuleInfo, TypeMap, refuse_simd};
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
    let function = translate(info, source.index, &source.body, source.validation.features, Some(&mut validator))?;
    allocations.0 = validator.into_allocations();
    Ok(function)
}

/// As [`translate_function`], of a body that has been validated.
pub(crate) fn translate_valid_function(
    info: &ModuleInfo,
    index: FuncIndex,
    body: &FunctionBody<'_>,
    features: WasmFeatures,
) -> Result<Function, CompileError> {
    translate(info, index, body, features, None)
}

fn translate(
    info: &ModuleInfo,
    index: FuncIndex,
    body: &FunctionBody<'_>,
    features: WasmFeatures,
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
        types: TypeMap { canonical: &info.canonical_types },
        builder: Builder::new(function, &signature.params, Limits::new()),
        stack: Vec::new(),
        control: Vec::new(),
        handlers: Handlers::default(),
        block: Block(0),
        reachable: true,
        dead_depth: 0,
        offset: range.start as usize,
    };

    for _ in 0..reader.read_var_u32().map_err(invalid)? {
        let offset = reader.original_position();
        let count = reader.read_var_u32().map_err(invalid)?;
        let ty: wasmparser::ValType = reader.read().map_err(invalid)?;
        if let Some(validator) = &mut validator {
            validator.define_locals(offset, count, ty).map_err(invalid)?;
        }
        translator.builder.add_locals(count, translator.types.value(ty, offset as usize)?);
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
    let mut function = translator.builder.finish();
    passes::settle(&mut function);
    Ok(function)
}

impl Translator<'_> {
    fn operator(&mut self, operator: &Operator<'_>) -> Result<(), CompileError> {
        refuse_simd(operator, self.offset)?;
        if self.reachable { self.dispatch(operator) } else { self.skip(operator) }
    }
}
