//! From bytes to a compiled module.

use rayon::prelude::*;

use crate::artifact::CompiledModule;
use crate::emit::CodeGenerator;
use crate::module::{FunctionSource, ParsedModule};
use crate::translate::{Allocations, translate_function};
use crate::{CompileError, CompileOptions, mir, passes};

/// Compiles a module in binary form, ahead of time and as a whole. The result depends on the bytes and the options alone, not on
/// `options.parallel`.
///
/// Errors: the first place in the declarations or, if those are valid, the first function that is invalid or not
/// supported; or what the code generator refuses.
pub fn compile(wasm: &[u8], options: &CompileOptions) -> Result<CompiledModule, CompileError> {
    let parsed = ParsedModule::parse(wasm, options.features)?;
    let generator = CodeGenerator::new(parsed.info.clone(), options)?;
    let functions = functions(&parsed, options, |source, allocations| {
        let function = function(&parsed, source, options, allocations)?;
        generator.compile_function(&function)
    })?;
    generator.link(functions)
}

/// Calls `work` for every function body, in parallel where `options` say so. The results are in the order of the functions. If
/// several fail, the error is that of the first function in the module, so that it is always the same.
fn functions<'a, T: Send>(
    parsed: &ParsedModule<'a>,
    options: &CompileOptions,
    work: impl Fn(&FunctionSource<'a>, &mut Allocations) -> Result<T, CompileError> + Sync,
) -> Result<Vec<T>, CompileError> {
    let results: Vec<Result<T, CompileError>> = if options.parallel {
        parsed
            .bodies
            .par_iter()
            .map_init(Allocations::default, |allocations, source| work(source, allocations))
            .collect()
    } else {
        let mut allocations = Allocations::default();
        parsed.bodies.iter().map(|source| work(source, &mut allocations)).collect()
    };
    results.into_iter().collect()
}

/// Validates and translates one function and, if `options` say so, optimises and verifies it.
fn function(
    parsed: &ParsedModule<'_>,
    source: &FunctionSource<'_>,
    options: &CompileOptions,
    allocations: &mut Allocations,
) -> Result<mir::Function, CompileError> {
    let mut function = translate_function(&parsed.info, source, allocations)?;
    if options.verify {
        passes::check(&function, &parsed.info, "translate")?;
    }
    if options.optimize {
        passes::optimize(&mut function, &parsed.info, options.verify)?;
    }
    Ok(function)
}

/// All functions of a module in MIR, for debugging and tests.
pub fn translate_module(
    parsed: &ParsedModule<'_>,
    options: &CompileOptions,
) -> Result<Vec<mir::Function>, CompileError> {
    functions(parsed, options, |source, allocations| function(parsed, source, options, allocations))
}
