//! From bytes to a compiled module.

use std::time::Instant;

use rayon::prelude::*;

use crate::artifact::CompiledModule;
use crate::emit::CodeGenerator;
use crate::module::{FunctionSource, ModuleInfo, ParsedModule};
use crate::passes::{Fields, Inliner, Never, Settled};
use crate::translate::{Allocations, translate_function};
use crate::{CompileError, CompileOptions, mir, passes};

/// Compiles a module in binary form, ahead of time and as a whole. The result depends on the bytes and the options
/// alone, not on `options.parallel`.
///
/// Errors: the first place in the declarations or, if those are valid, the first function that is invalid or not
/// supported; or what the code generator refuses.
pub fn compile(wasm: &[u8], options: &CompileOptions) -> Result<CompiledModule, CompileError> {
    compile_observed(wasm, options, |_| {})
}

/// A function whose machine code has been made.
#[derive(Debug)]
pub struct Generated<'a> {
    /// Its index in the module.
    pub function: u32,
    /// The module that it is of.
    pub info: &'a ModuleInfo,
    /// When its machine code was begun, behind all passes over its MIR.
    pub start: Instant,
    /// Bytes of machine code.
    pub bytes: usize,
}

/// As [`compile`]. The observer is told of each function as soon as its code is made, by the thread that made it; not
/// of those that nothing calls.
pub fn compile_observed(
    wasm: &[u8],
    options: &CompileOptions,
    observer: impl Fn(&Generated<'_>) + Sync,
) -> Result<CompiledModule, CompileError> {
    let parsed = ParsedModule::parse(wasm, options.features)?;
    let generator = CodeGenerator::new(parsed.info.clone(), options)?;
    let uncalled = generator.compile_uncalled()?;
    let code = with_functions(&parsed, options, passes::reached, |function, is_called| match is_called {
        true => {
            let start = Instant::now();
            let code = generator.compile_function(&function)?;
            let (function, info) = (function.index.0, &parsed.info);
            observer(&Generated { function, info, start, bytes: code.length() });
            Ok(code)
        }
        false => Ok(uncalled.in_place_of(&function)),
    })?;
    generator.link(code)
}

/// Calls `work` for every item, with scratch memory that it may keep, in parallel where `options` say so. The results
/// are in the order of the items. If several fail, the error is that of the first one, so that it is always the same.
pub(crate) fn each<I: Send, S: Default, T: Send>(
    items: Vec<I>,
    options: &CompileOptions,
    work: impl Fn(I, &mut S) -> Result<T, CompileError> + Sync,
) -> Result<Vec<T>, CompileError> {
    let results: Vec<Result<T, CompileError>> = if options.parallel {
        items.into_par_iter().map_init(S::default, |scratch, item| work(item, scratch)).collect()
    } else {
        let mut scratch = S::default();
        items.into_iter().map(|item| work(item, &mut scratch)).collect()
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

/// What only the whole module tells: replaces reads of `fields` that hold the same in every object, skips calls through
/// globals that settle on a function that does nothing, and cuts what follows calls that never return. Returns for each
/// function, too, whether it has to be optimised anew: after inlining is soon enough.
fn propagate(
    functions: Vec<mir::Function>,
    fields: &Fields,
    info: &ModuleInfo,
    options: &CompileOptions,
) -> Result<Vec<(mir::Function, bool)>, CompileError> {
    let settled = Settled::new(&functions, info);
    let never = Never::new(&functions, info);
    each(functions, options, |mut function: mir::Function, (): &mut ()| {
        let is_cut = never.cut(&mut function);
        let has_changed = fields.replace(&mut function, info);
        if is_cut || has_changed {
            passes::tidy(&mut function, info, options.verify)?;
        }
        settled.replace(&mut function);
        Ok((function, is_cut || has_changed))
    })
}

/// All functions of a module in MIR, with what `options` say done to them. Errors as for [`compile`].
pub fn translate_module(
    parsed: &ParsedModule<'_>,
    options: &CompileOptions,
) -> Result<Vec<mir::Function>, CompileError> {
    with_functions(parsed, options, |functions, _| vec![true; functions.len()], |function, _| Ok(function))
}

/// Calls `work` for every function of a module in MIR, with what `options` say done to it, and whether it is one of
/// those that `select` has chosen after inlining: less is done to the others. Each is freed as soon as `work` is done
/// with it: a large module's functions take more memory than its code.
fn with_functions<T: Send>(
    parsed: &ParsedModule<'_>,
    options: &CompileOptions,
    select: impl Fn(&[mir::Function], &ModuleInfo) -> Vec<bool>,
    work: impl Fn(mir::Function, bool) -> Result<T, CompileError> + Sync,
) -> Result<Vec<T>, CompileError> {
    let bodies: Vec<&FunctionSource<'_>> = parsed.bodies.iter().collect();
    let functions =
        each(bodies, options, |source, allocations: &mut Allocations| function(parsed, source, options, allocations))?;
    if !options.optimize {
        return each(functions, options, |function: mir::Function, (): &mut ()| work(function, true));
    }
    let info = &parsed.info;
    let fields = Fields::new(&functions, info);
    let functions = propagate(functions, &fields, info, options)?;
    let (functions, changed): (Vec<_>, Vec<_>) = functions.into_iter().unzip();
    let inliner = Inliner::new(&functions, &fields, info);
    let functions = functions.into_iter().zip(changed).collect();
    let inlined = each(functions, options, |(mut function, has_changed): (mir::Function, bool), (): &mut ()| {
        let has_grown = passes::inline(&mut function, &inliner);
        Ok((function, has_changed || has_grown))
    })?;
    drop(inliner);
    let (functions, changed): (Vec<_>, Vec<_>) = inlined.into_iter().unzip();
    let selected = select(&functions, info);
    let functions = functions.into_iter().zip(changed.into_iter().zip(selected)).collect();
    each(functions, options, |(mut function, (has_changed, is_selected)): (mir::Function, _), (): &mut ()| {
        if is_selected {
            if has_changed {
                if options.verify {
                    passes::check(&function, info, "inline")?;
                }
                passes::optimize(&mut function, info, options.verify)?;
            }
            passes::finish(&mut function, info, options.plan.iterations_between_polls, options.verify)?;
        }
        work(function, is_selected)
    })
}
