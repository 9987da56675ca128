//! Machine code: drives Cranelift over lowered functions, makes the trampolines, links everything into a
//! [`CompiledModule`].

mod baseline;
mod code;
mod kept;
mod link;
mod target;
mod trampolines;

use cranelift_codegen::ir;
use legato_heap::AccessPlan;
use legato_heap::layout::StructLayout;
use rayon::prelude::*;

pub use self::code::FunctionCode;
use self::code::with_scratch;
use self::link::Linker;
use self::target::Target;
use crate::abi::{Builtin, ContextHead, ContextLayout, StoreContext};
use crate::artifact::{
    CodeRange, CodeTables, CompiledFunction, CompiledModule, MachineSignature, TargetInfo, Trampolines,
};
use crate::error::CompileError;
pub use crate::lower::env::Symbol;
use crate::lower::env::{ModuleEnv, exception_layout};
use crate::lower::{is_large, lower};
use crate::mir;
use crate::module::{CompositeType, ImportKind, ModuleInfo};
use crate::options::CompileOptions;

/// Frames larger than this check the stack before they are taken, not after: the reserve below the stack limit need
/// not hold them. In bytes.
const LARGE_FRAME: u32 = 32 << 10;

/// Quick code keeps values in the frame: frames may be many times as large as those of optimised code. Functions with
/// larger ones than this get the register allocator of optimised code, in bytes.
const QUICK_FRAME: u32 = 1 << 10;
/// Where there is no baseline code, functions with more instructions get it at once: the single-pass register allocator
/// gives each value a slot of its own.
const MANY_INSTS: usize = 200;

/// What is done for a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effort {
    /// Everything that makes code fast.
    Fast,
    /// What makes its frame small.
    Small,
    /// As little as can be.
    Least,
}

impl Effort {
    /// What is done for a function that is to be fast.
    fn of(function: &mir::Function) -> Effort {
        if is_large(function) { Effort::Least } else { Effort::Fast }
    }
}

/// Compiles the functions of one module.
pub struct CodeGenerator {
    info: ModuleInfo,
    options: CompileOptions,
    target: Target,
    layout: ContextLayout,
    structs: Vec<Option<StructLayout>>,
    exceptions: Vec<StructLayout>,
    type_ids: Option<Box<[u32]>>,
}

impl CodeGenerator {
    /// A generator for a module with these declarations. Errors: the host's processor is not supported.
    pub fn new(mut info: ModuleInfo, options: &CompileOptions) -> Result<CodeGenerator, CompileError> {
        info.checked_memories = options.checked_memories;
        let target = Target::host(options)?;
        let layout = info.context_layout();
        let structs = info
            .types
            .iter()
            .map(|ty| match &ty.composite {
                CompositeType::Struct(fields) => {
                    Some(StructLayout::new(fields.iter().map(|field| info.storage_kind(field.storage))))
                }
                _ => None,
            })
            .collect();
        let exceptions = info.tags.iter().map(|&ty| exception_layout(&info, info.func_type(ty))).collect();
        Ok(CodeGenerator { info, options: options.clone(), target, layout, structs, exceptions, type_ids: None })
    }

    /// Has code hold these ids, by the module's type index, where it would load them from the context.
    pub(crate) fn set_type_ids(&mut self, ids: Box<[u32]>) {
        assert!(ids.len() == self.info.types.len(), "an id for each type");
        self.type_ids = Some(ids);
    }

    /// The ids that code holds.
    pub(crate) fn type_ids(&self) -> Option<&[u32]> {
        self.type_ids.as_deref()
    }

    /// The module's declarations.
    pub fn info(&self) -> &ModuleInfo {
        &self.info
    }

    /// What the embedder has chosen.
    pub(crate) fn options(&self) -> &CompileOptions {
        &self.options
    }

    /// The module without code.
    pub(crate) fn declarations(&self) -> CompiledModule {
        without_code(self.info.clone(), &self.options, &self.target)
    }

    /// Compiles the trampoline that a symbol stands for, which is no function. Errors: the code generator refuses it.
    pub(crate) fn compile_builtin(&self, symbol: Symbol) -> Result<FunctionCode, CompileError> {
        let (number, is_cold) = match symbol {
            Symbol::Builtin(number) => (number, false),
            Symbol::Cold(number) => (number, true),
            Symbol::Function(_) | Symbol::Loop(..) => unreachable!("{symbol:?} is no trampoline"),
        };
        trampolines::builtin(&self.target, &self.options.plan, Builtin::ALL[number as usize], is_cold)
            .map_err(|message| CompileError::CodeGeneration { function: u32::MAX, message })
    }

    /// The code of a function that is never called, as its calls have all become its body: it traps. Errors: the code
    /// generator refuses it.
    pub(crate) fn compile_uncalled(&self) -> Result<FunctionCode, CompileError> {
        trampolines::uncalled(&self.target)
            .map_err(|message| CompileError::CodeGeneration { function: u32::MAX, message })
    }

    /// Compiles one function. May be called from several threads at once. Errors: the function passes a limit of the
    /// code generator.
    pub fn compile_function(&self, function: &mir::Function) -> Result<FunctionCode, CompileError> {
        self.compile(function, false, Effort::of(function))
    }

    /// As [`compile_function`](Self::compile_function), for compile time rather than for speed.
    pub(crate) fn compile_quickly(&self, function: &mir::Function) -> Result<FunctionCode, CompileError> {
        let is_large = is_large(function);
        if let Some(code) = self.compile_baseline(function)?
            && (is_large && code.frame_bytes <= LARGE_FRAME || code.frame_bytes <= QUICK_FRAME)
        {
            return Ok(code);
        }
        if is_large || function.insts.len() <= MANY_INSTS {
            let code = self.compile(function, false, Effort::Least)?;
            if is_large || code.frame_bytes <= QUICK_FRAME {
                return Ok(code);
            }
        }
        self.compile(function, false, Effort::Small)
    }

    /// Baseline code of a function; `None` where there is none for the processor, or for what the function does.
    fn compile_baseline(&self, function: &mir::Function) -> Result<Option<FunctionCode>, CompileError> {
        let Some(features) = self.target.baseline else { return Ok(None) };
        let code = with_scratch(|scratch| {
            let ir = &mut scratch.context.func;
            lower(&self.env(), function, ir, &mut scratch.builder, true)?;
            Ok(baseline::compile(ir, features))
        });
        let mut code = code.map_err(|message| CompileError::CodeGeneration { function: function.index.0, message })?;
        if let Some(code) = &mut code {
            code.belong_to(function);
        }
        Ok(code)
    }

    /// The machine code of a function as text, for tests and for people.
    pub fn disassemble(&self, function: &mir::Function) -> Result<String, CompileError> {
        let code = self.compile(function, true, Effort::of(function))?;
        Ok(code.listing.unwrap_or_default())
    }

    /// The Cranelift IR of a function as text, before optimisation.
    pub fn lowered(&self, function: &mir::Function) -> Result<String, CompileError> {
        let large = is_large(function);
        with_scratch(|scratch| {
            lower(&self.env(), function, &mut scratch.context.func, &mut scratch.builder, large)
                .map(|_| scratch.context.func.display().to_string())
        })
        .map_err(|message| CompileError::CodeGeneration { function: function.index.0, message })
    }

    fn compile(&self, function: &mir::Function, listing: bool, effort: Effort) -> Result<FunctionCode, CompileError> {
        let mut code = self.compile_once(function, listing, effort, false);
        if let Ok(compiled) = &code
            && compiled.frame_bytes > LARGE_FRAME
        {
            code = self.compile_once(function, listing, effort, true);
        }
        code.map_err(|message| CompileError::CodeGeneration { function: function.index.0, message })
    }

    fn env(&self) -> ModuleEnv<'_> {
        ModuleEnv {
            info: &self.info,
            layout: &self.layout,
            plan: &self.options.plan,
            structs: &self.structs,
            exceptions: &self.exceptions,
            type_ids: self.type_ids(),
            rounds: self.target.rounds,
            fuses: self.target.fuses,
            frontend: self.target.fast_code.frontend_config(),
            verify: self.options.verify,
        }
    }

    fn compile_once(
        &self,
        function: &mir::Function,
        listing: bool,
        effort: Effort,
        floor: bool,
    ) -> Result<FunctionCode, String> {
        let mut code = with_scratch(|scratch| {
            scratch.context.func.name = ir::UserFuncName::user(0, function.index.0);
            let gains =
                lower(&self.env(), function, &mut scratch.context.func, &mut scratch.builder, effort != Effort::Fast)?;
            if floor {
                check_floor(&mut scratch.context.func);
            }
            let isa = match effort {
                Effort::Least => &self.target.fast_compile,
                Effort::Fast if gains => &self.target.fast_code,
                Effort::Fast | Effort::Small => &self.target.final_code,
            };
            scratch.compile(&**isa, listing)
        })?;
        code.belong_to(function);
        Ok(code)
    }

    /// Links the code of all defined functions. Their order does not matter. Errors: a function is missing, or the
    /// module's code is too large.
    pub fn link(self, mut functions: Vec<FunctionCode>) -> Result<CompiledModule, CompileError> {
        functions.sort_by_key(|function| function.index);
        let error = |message: String| CompileError::CodeGeneration { function: u32::MAX, message };
        let mut linker = Linker::default();
        let mut compiled = Vec::with_capacity(functions.len());
        for function in functions {
            let (index, source) = (function.index, function.source);
            let range = linker
                .add(Some(Symbol::Function(index)), function)
                .map_err(|message| CompileError::CodeGeneration { function: index, message })?;
            compiled.push(CompiledFunction { range, index, source });
        }
        let builtins = link_builtins(&self.target, &self.options.plan, &mut linker).map_err(error)?;
        let signatures = boundary_signatures(&self.info);
        let trampolines =
            link_trampolines(&self.target, &mut linker, signatures, self.options.parallel).map_err(error)?;
        linker.relocate().map_err(error)?;
        Ok(CompiledModule {
            context: self.layout,
            info: self.info,
            plan: self.options.plan,
            target: self.target.info(),
            code: linker.code,
            functions: compiled,
            builtins,
            trampolines,
            tables: linker.tables,
        })
    }
}

/// A module without functions that holds the trampolines for these signatures (and no builtin trampolines: nothing in
/// it calls them). Errors: the host's processor is not supported.
pub fn compile_trampolines(
    signatures: &[MachineSignature],
    options: &CompileOptions,
) -> Result<CompiledModule, CompileError> {
    let target = Target::host(options)?;
    let info = ModuleInfo::default();
    let error = |message: String| CompileError::CodeGeneration { function: u32::MAX, message };
    let mut linker = Linker::default();
    let trampolines = link_trampolines(&target, &mut linker, signatures.to_vec(), false).map_err(error)?;
    Ok(CompiledModule { code: linker.code, trampolines, tables: linker.tables, ..without_code(info, options, &target) })
}

/// A module with these declarations and nothing else.
fn without_code(info: ModuleInfo, options: &CompileOptions, target: &Target) -> CompiledModule {
    CompiledModule {
        context: info.context_layout(),
        info,
        plan: options.plan.clone(),
        target: target.info(),
        code: Vec::new(),
        functions: Vec::new(),
        builtins: vec![CodeRange::default(); Builtin::ALL.len()],
        trampolines: Vec::new(),
        tables: CodeTables::default(),
    }
}

/// Has the prologue trap, before it takes its frame, where the frame would pass the store's stack floor.
fn check_floor(function: &mut ir::Function) {
    let flags = ir::MemFlagsData::trusted().with_readonly();
    let flags = function.dfg.mem_flags.insert_unchecked(flags);
    let context = function.create_global_value(ir::GlobalValueData::VMContext);
    let load = |base, offset: usize| ir::GlobalValueData::Load {
        base,
        offset: (offset as i32).into(),
        global_type: ir::types::I64,
        flags,
    };
    let store = function.create_global_value(load(context, std::mem::offset_of!(ContextHead, store)));
    let floor = function.create_global_value(load(store, std::mem::offset_of!(StoreContext, stack_floor)));
    function.stack_limit = Some(floor);
}

/// Compiles the builtin trampolines that the code refers to.
fn link_builtins(target: &Target, plan: &AccessPlan, linker: &mut Linker) -> Result<Vec<CodeRange>, String> {
    let mut ranges = vec![CodeRange::default(); Builtin::ALL.len()];
    for symbol in linker.missing() {
        match symbol {
            Symbol::Builtin(number) => {
                let code = trampolines::builtin(target, plan, Builtin::ALL[number as usize], false)?;
                ranges[number as usize] = linker.add(Some(symbol), code)?;
            }
            Symbol::Cold(number) => {
                let code = trampolines::builtin(target, plan, Builtin::ALL[number as usize], true)?;
                linker.add(Some(symbol), code)?;
            }
            Symbol::Function(_) | Symbol::Loop(..) => {}
        }
    }
    Ok(ranges)
}

fn link_trampolines(
    target: &Target,
    linker: &mut Linker,
    signatures: Vec<MachineSignature>,
    parallel: bool,
) -> Result<Vec<Trampolines>, String> {
    let both = |signature: &MachineSignature| -> Result<_, String> {
        Ok((trampolines::entry(target, signature)?, trampolines::exit(target, signature)?))
    };
    let codes: Vec<_> = if parallel {
        signatures.par_iter().map(both).collect::<Result<_, _>>()?
    } else {
        signatures.iter().map(both).collect::<Result<_, _>>()?
    };
    let mut trampolines = Vec::with_capacity(signatures.len());
    for (signature, (entry, exit)) in signatures.into_iter().zip(codes) {
        let (entry, exit) = (linker.add(None, entry)?, linker.add(None, exit)?);
        trampolines.push(Trampolines { signature, entry, exit });
    }
    Ok(trampolines)
}

/// The signatures of functions that host and module may call across their boundary, each once.
fn boundary_signatures(info: &ModuleInfo) -> Vec<MachineSignature> {
    let imported = info.imports.iter().filter_map(|import| match import.kind {
        ImportKind::Func(ty) => Some(ty),
        _ => None,
    });
    let escaping = info.functions.iter().filter(|function| function.func_ref.is_some()).map(|function| function.ty);
    let start = info.start.map(|start| info.functions[start.index()].ty);
    let mut seen = rustc_hash::FxHashSet::default();
    let all = imported.chain(escaping).chain(start).map(|ty| MachineSignature::of(info.func_type(ty)));
    all.filter(|signature| seen.insert(signature.clone())).collect()
}

impl TargetInfo {
    /// What code compiled on this host is compiled for.
    pub fn host(options: &CompileOptions) -> Result<TargetInfo, CompileError> {
        Ok(Target::host(options)?.info())
    }
}
