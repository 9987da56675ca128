//! The code of one function, cut loose from Cranelift.

use std::cell::Cell;

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, ExternalName};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::{Context, ExceptionContextLoc, FinalizedMachExceptionHandler, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilderContext;
use serde::{Deserialize, Serialize};

use super::kept::{deserialize_kind, serialize_kind};
use crate::abi::Builtin;
use crate::artifact::TrapCode;
use crate::lower::env::Symbol;
use crate::mir;
use crate::sources::{Moved, Sources};

/// The code of a function or trampoline, with offsets from its own start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FunctionCode {
    /// Index in the module; `u32::MAX` for trampolines.
    pub(super) index: u32,
    /// Offset of its body in the module file.
    pub(super) source: u32,
    #[serde(with = "serde_bytes")]
    pub(super) bytes: Vec<u8>,
    pub(super) alignment: u32,
    pub(super) relocations: Vec<Relocation>,
    pub(super) traps: Vec<(u32, TrapCode)>,
    /// Return address and distances of slots below the frame pointer.
    pub(super) stack_maps: Vec<(u32, Vec<u32>)>,
    pub(super) call_sites: Vec<CodeCallSite>,
    /// Code offset to source.
    pub(super) addresses: Vec<(u32, u32)>,
    /// The sources of what was inlined.
    pub(super) sources: Sources,
    /// Bytes of the frame below the frame pointer.
    pub(super) frame_bytes: u32,
    /// Disassembly, where asked for.
    pub(super) listing: Option<String>,
}

impl FunctionCode {
    /// Makes this the code of a function: of its sources, those are kept that the code has.
    pub(super) fn belong_to(&mut self, function: &mir::Function) {
        self.index = function.index.0;
        self.source = function.source;
        let mut moved = Moved::new(&function.sources, None);
        self.addresses.iter_mut().for_each(|(_, source)| *source = moved.source(*source, &mut self.sources));
    }

    /// This code as that of a function.
    pub(crate) fn in_place_of(&self, function: &mir::Function) -> FunctionCode {
        FunctionCode { index: function.index.0, source: function.source, ..self.clone() }
    }

    /// Bytes of machine code.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// What the offset at which it is placed must be a multiple of, in bytes.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Offset of the function's body in the module file.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// What the code calls, in the order of the calls; some perhaps more than once.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.relocations.iter().map(|relocation| relocation.target)
    }

    /// Whether it asks for code of loops that is better than its own.
    pub fn leaves_loops(&self) -> bool {
        const ASK: u32 = Builtin::OsrEntry as u32;
        self.symbols().any(|symbol| matches!(symbol, Symbol::Builtin(ASK) | Symbol::Cold(ASK)))
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Relocation {
    pub(super) offset: u32,
    #[serde(serialize_with = "serialize_kind", deserialize_with = "deserialize_kind")]
    pub(super) kind: Reloc,
    pub(super) target: Symbol,
    pub(super) addend: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CodeCallSite {
    pub(super) offset: u32,
    pub(super) sp_distance: u32,
    pub(super) context_offset: u32,
    /// Tag (`None`: every exception) and landing pad.
    pub(super) handlers: Vec<(Option<u32>, u32)>,
}

/// Cranelift's working memory, kept by each thread.
pub(super) struct Scratch {
    pub(super) context: Context,
    pub(super) builder: FunctionBuilderContext,
    control: ControlPlane,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Runs `f` with this thread's working memory, its function cleared. Where `f` fails or panics, that is given up: it
/// may hold a function that was not finished, and the next one would be built on top of it.
pub(super) fn with_scratch<R, E>(f: impl FnOnce(&mut Scratch) -> Result<R, E>) -> Result<R, E> {
    let mut scratch = SCRATCH.take().unwrap_or_else(|| Box::new(Scratch::new()));
    scratch.context.clear();
    // These are not cleared with the rest: whether there are any is asked, and there would be ever more.
    scratch.context.func.dfg.exception_tables.clear();
    let result = f(&mut scratch)?;
    SCRATCH.set(Some(scratch));
    Ok(result)
}

impl Scratch {
    fn new() -> Scratch {
        Scratch { context: Context::new(), builder: FunctionBuilderContext::new(), control: ControlPlane::default() }
    }

    /// Compiles the function built in `context`. Errors are Cranelift's, as text.
    pub(super) fn compile(&mut self, isa: &dyn TargetIsa, listing: bool) -> Result<FunctionCode, String> {
        self.context.set_disasm(listing);
        if let Err(error) = self.context.compile(isa, &mut self.control) {
            return Err(cranelift_codegen::print_errors::pretty_error(error.func, error.inner));
        }
        let compiled = self.context.compiled_code().expect("compilation has just succeeded");
        let buffer = &compiled.buffer;
        let mut code = FunctionCode {
            index: u32::MAX,
            source: 0,
            bytes: buffer.data().to_vec(),
            alignment: buffer.alignment.max(16),
            listing: compiled.vcode.clone(),
            ..FunctionCode::default()
        };
        if let Some(frame) = buffer.frame_layout() {
            code.frame_bytes = frame.frame_to_fp_offset;
        }
        for reloc in buffer.relocs() {
            let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = &reloc.target else {
                return Err(format!("a relocation against {:?}", reloc.target));
            };
            let target = Symbol::of(&self.context.func.params.user_named_funcs()[*name]);
            code.relocations.push(Relocation { offset: reloc.offset, kind: reloc.kind, target, addend: reloc.addend });
        }
        code.traps.extend(buffer.traps().iter().map(|trap| (trap.offset, trap_code(trap.code))));
        for (return_address, frame, map) in buffer.user_stack_maps() {
            let mut distances: Vec<u32> = map.entries().map(|(_, sp_offset)| frame - sp_offset).collect();
            distances.sort_unstable();
            code.stack_maps.push((*return_address, distances));
        }
        for site in buffer.call_sites() {
            let mut context_offset = None;
            let mut handlers = Vec::new();
            for handler in site.exception_handlers {
                match handler {
                    FinalizedMachExceptionHandler::Tag(tag, landing) => handlers.push((Some(tag.as_u32()), *landing)),
                    FinalizedMachExceptionHandler::Default(landing) => handlers.push((None, *landing)),
                    FinalizedMachExceptionHandler::Context(ExceptionContextLoc::SPOffset(offset)) => {
                        context_offset = Some(*offset);
                    }
                    FinalizedMachExceptionHandler::Context(ExceptionContextLoc::GPR(_)) => {
                        return Err("an exception context in a register".to_owned());
                    }
                }
            }
            // The entry trampoline's own landing pad has no context: it is found by the entry record.
            let (Some(context_offset), Some(sp_distance)) = (context_offset, site.frame_offset) else { continue };
            if !handlers.is_empty() {
                code.call_sites.push(CodeCallSite { offset: site.ret_addr, sp_distance, context_offset, handlers });
            }
        }
        let mut last = None;
        for location in buffer.get_srclocs_sorted() {
            if !location.loc.is_default() && last != Some(location.loc) {
                code.addresses.push((location.start, location.loc.bits()));
                last = Some(location.loc);
            }
        }
        Ok(code)
    }
}

/// Our code for one of Cranelift's.
pub(super) fn trap_code(code: ir::TrapCode) -> TrapCode {
    match code {
        ir::TrapCode::STACK_OVERFLOW => TrapCode::StackOverflow,
        ir::TrapCode::INTEGER_OVERFLOW => TrapCode::IntegerOverflow,
        ir::TrapCode::INTEGER_DIVISION_BY_ZERO => TrapCode::IntegerDivisionByZero,
        ir::TrapCode::BAD_CONVERSION_TO_INTEGER => TrapCode::BadConversionToInteger,
        code => TrapCode::from_number(code.as_raw().get()).unwrap_or(TrapCode::Internal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::InstBuilder;
    use cranelift_codegen::{isa, settings};
    use cranelift_frontend::FunctionBuilder;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn isa() -> isa::OwnedTargetIsa {
        isa::lookup_by_name(std::env::consts::ARCH).unwrap().finish(settings::Flags::new(settings::builder())).unwrap()
    }

    /// Begins a function, and ends it if it is to be.
    fn build(scratch: &mut Scratch, finishes: bool) {
        let mut builder = FunctionBuilder::new(&mut scratch.context.func, &mut scratch.builder);
        let block = builder.create_block();
        builder.switch_to_block(block);
        if finishes {
            builder.ins().return_(&[]);
            builder.seal_all_blocks();
            builder.finalize(isa().frontend_config());
        }
    }

    #[test]
    fn nothing_is_built_on_what_was_not_finished() {
        let failed: Result<(), &str> = with_scratch(|scratch| {
            build(scratch, false);
            Err("it is refused")
        });
        assert_eq!(failed, Err("it is refused"));
        let blocks = || {
            with_scratch(|scratch| {
                build(scratch, true);
                Ok::<_, ()>(scratch.context.func.layout.blocks().count())
            })
        };
        assert_eq!(blocks(), Ok(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _: Result<(), ()> = with_scratch(|scratch| {
                build(scratch, false);
                panic!("a panic in the compiler");
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(blocks(), Ok(1));
    }
}
