//! Compiles a module's functions one by one, when they are asked for. Everything is validated before.
//!
//! What passes must know of the whole module comes from one [`scan`] of the bodies: less than the finished MIR of all
//! would tell, so that code may differ from that of [`compile`](crate::compile), though never what it computes.

mod kept;
mod scan;

use std::ops::Range;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use wasmparser::{BinaryReader, FunctionBody, WasmFeatures};

use crate::artifact::CompiledModule;
use crate::driver::each;
use crate::emit::{CodeGenerator, FunctionCode, Symbol};
use crate::module::{FuncIndex, ModuleInfo, ParsedModule};
use crate::passes::{self, Body, Fields};
use crate::translate::translate_valid_function;
use crate::{CompileError, CompileOptions, mir};

/// A valid module whose functions can be compiled, by several threads at once.
pub struct OnDemand {
    wasm: Box<[u8]>,
    features: WasmFeatures,
    /// Of the defined functions, in order.
    functions: Vec<Function>,
    fields: Option<Fields>,
    generator: CodeGenerator,
}

struct Function {
    /// Where its body lies in the module file.
    range: Range<u32>,
    /// What calls of it may be replaced by; for small functions, when it is first asked for.
    inlined: Option<OnceLock<Option<Body>>>,
    has_loops: bool,
}

impl Function {
    fn new(range: Range<u32>, may_be_inlined: bool, has_loops: bool) -> Function {
        Function { range, inlined: may_be_inlined.then(OnceLock::new), has_loops }
    }
}

/// How much is done for a function's speed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Tier {
    /// No more than takes less time than it saves the code generator: code that is not called often.
    Quick,
    /// Everything.
    Optimized,
}

impl OnDemand {
    /// Reads and validates a module in binary form.
    ///
    /// Errors: as [`compile`](crate::compile), but for what the code generator refuses.
    pub fn new(wasm: &[u8], options: &CompileOptions) -> Result<OnDemand, CompileError> {
        let ParsedModule { info, bodies } = ParsedModule::parse(wasm, options.features)?;
        let features = ParsedModule::accepted(options.features);
        let ranges: Vec<_> = bodies.iter().map(|source| source.body.range()).collect();
        let scanned = each(bodies, options, |source, scratch: &mut scan::Scratch| scan::scan(&info, &source, scratch))?;
        let made = scanned.iter().flat_map(|scanned| &scanned.made);
        let fields = options.optimize.then(|| Fields::of_made(made, &info)).flatten();
        let functions = ranges
            .iter()
            .zip(&scanned)
            .map(|(range, scanned)| {
                let range = range.start as u32..range.end as u32;
                Function::new(range, options.optimize && scanned.is_small, scanned.has_loops)
            })
            .collect();
        let generator = CodeGenerator::new(info, options)?;
        Ok(OnDemand { wasm: wasm.into(), features, functions, fields, generator })
    }

    /// The module without code: its declarations, and what its code is compiled for.
    pub fn declarations(&self) -> CompiledModule {
        self.generator.declarations()
    }

    /// The module's declarations.
    pub fn info(&self) -> &ModuleInfo {
        self.generator.info()
    }

    /// Whether functions may be compiled by other threads than those that call them.
    pub fn is_parallel(&self) -> bool {
        self.generator.options().parallel
    }

    /// Bytes of the module in binary form.
    pub fn module_bytes(&self) -> usize {
        self.wasm.len()
    }

    /// Where the bodies of the defined functions lie in the module file, in order: the offset of each.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.functions.iter().map(|function| function.range.start)
    }

    /// The module as [`compile`](crate::compile) makes it. Errors: as there.
    pub fn whole(&self) -> Result<CompiledModule, CompileError> {
        crate::compile(&self.wasm, self.generator.options())
    }

    /// How a defined function had best be compiled when it is first called: optimised if it has loops, as it may stay
    /// in one for long.
    pub fn first_tier(&self, index: FuncIndex) -> Tier {
        let function = &self.functions[(index.0 - self.info().imported_functions) as usize];
        if function.has_loops || !self.generator.options().optimize { Tier::Optimized } else { Tier::Quick }
    }

    /// Compiles what a symbol stands for: a defined function, or a trampoline that code refers to, which has one tier.
    /// Errors: the code generator refuses it.
    pub fn compile(&self, symbol: Symbol, tier: Tier) -> Result<FunctionCode, CompileError> {
        let Symbol::Function(index) = symbol else { return self.generator.compile_builtin(symbol) };
        let index = FuncIndex(index);
        if tier == Tier::Quick {
            return self.generator.compile_quickly(&self.prepare_quickly(index)?);
        }
        let mut function = match self.inlined(index) {
            Some(body) => body.function.clone(),
            None => self.prepare(index)?,
        };
        let options = self.generator.options();
        if options.optimize {
            if passes::inline(&mut function, &|callee| self.inlined(callee)) {
                if options.verify {
                    passes::check(&function, self.info(), "inline")?;
                }
                passes::optimize(&mut function, self.info(), options.verify)?;
            }
            passes::cold(&mut function);
        }
        self.generator.compile_function(&function)
    }

    /// What calls of a function may be replaced by.
    fn inlined(&self, index: FuncIndex) -> Option<&Body> {
        let defined = index.0.checked_sub(self.info().imported_functions)?;
        let body = self.functions[defined as usize].inlined.as_ref()?;
        // What cannot be prepared is told when the function itself is compiled.
        body.get_or_init(|| self.prepare(index).ok().and_then(|function| passes::body(&function))).as_ref()
    }

    /// A function with all done to it that comes before inlining.
    fn prepare(&self, index: FuncIndex) -> Result<mir::Function, CompileError> {
        let (info, options) = (self.info(), self.generator.options());
        let mut function = self.translate(index)?;
        if options.verify {
            passes::check(&function, info, "translate")?;
        }
        if options.optimize {
            passes::optimize(&mut function, info, options.verify)?;
            if let Some(fields) = &self.fields
                && fields.replace(&mut function, info)
            {
                passes::optimize(&mut function, info, options.verify)?;
            }
        }
        Ok(function)
    }

    /// A function as the quick tier has it.
    fn prepare_quickly(&self, index: FuncIndex) -> Result<mir::Function, CompileError> {
        let mut function = self.translate(index)?;
        let verify = self.generator.options().verify;
        if verify {
            passes::check(&function, self.info(), "translate")?;
        }
        passes::tidy(&mut function, self.info(), verify)?;
        Ok(function)
    }

    fn translate(&self, index: FuncIndex) -> Result<mir::Function, CompileError> {
        let Range { start, end } = self.functions[(index.0 - self.info().imported_functions) as usize].range;
        let reader = BinaryReader::new_features(&self.wasm[start as usize..end as usize], start.into(), self.features);
        translate_valid_function(self.info(), index, &FunctionBody::new(reader), self.features)
    }
}
