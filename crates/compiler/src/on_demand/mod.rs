//! Compiles a module's functions one by one, when they are asked for. Everything is validated before.
//!
//! What passes must know of the whole module comes from one [`scan`] of the bodies: less than the finished MIR of all
//! would tell, so that code may differ from that of [`compile`](crate::compile), though never what it computes.

mod kept;
mod profile;
mod scan;
mod untried;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use serde::{Deserialize, Serialize};
use wasmparser::{BinaryReader, FunctionBody, WasmFeatures};

use crate::artifact::CompiledModule;
use crate::driver::each;
use crate::emit::{CodeGenerator, FunctionCode, Symbol};
use crate::module::{FuncIndex, ModuleInfo, ParsedModule};
use crate::passes::{self, Bodies, CallByReference, Callees, Fields, Likely, Never, Settled};
use crate::translate::{Left, Part, translate_valid_function};
use crate::{CompileError, CompileOptions, mir};
use profile::{Profile, Sites};
use scan::Loops;

/// Of a call by reference that leads to more functions, what has been seen tells too little: some may be missing.
const MOST_LIKELY: usize = 4;

/// A call that quick code has made so often is hot. Functions are optimised when they have been called a thousand
/// times: it is a call in a loop mostly.
const HOT: u32 = 1500;
/// The same in code for tests, whose loops are replaced after a few iterations.
const HOT_VERIFIED: u32 = 4;
/// Direct calls of bodies of no more bytes are not counted: most are small enough for any call.
const MAX_UNCOUNTED: u64 = 48;

/// A valid module whose functions can be compiled, by several threads at once.
pub struct OnDemand {
    wasm: Box<[u8]>,
    features: WasmFeatures,
    /// Of the defined functions, in order.
    functions: Vec<Function>,
    fields: Fields,
    settled: Settled,
    never: Never,
    profile: Profile,
    generator: CodeGenerator,
}

struct Function {
    /// Where its body lies in the module file.
    range: Range<u32>,
    /// What calls of it may be replaced by; for small functions, when it is first asked for.
    inlined: Option<OnceLock<Bodies>>,
    loops: Loops,
}

impl Function {
    fn new(range: Range<u32>, may_be_inlined: bool, loops: Loops) -> Function {
        Function { range, inlined: may_be_inlined.then(OnceLock::new), loops }
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
        let stored = scanned.iter().flat_map(|scanned| &scanned.stored);
        let fields = if options.optimize { Fields::of_bodies(made, stored, &info) } else { Fields::default() };
        let settings = scanned.iter().map(|scanned| &scanned.settings);
        let settled = Settled::of_settings(&info, settings, |function| {
            let defined = function.0.checked_sub(info.imported_functions);
            defined.is_some_and(|defined| scanned[defined as usize].is_empty)
        });
        let returns: Vec<_> = scanned.iter().map(|scanned| scanned.returns).collect();
        let never = Never::of_returns(&returns, &info);
        let functions = ranges
            .iter()
            .zip(&scanned)
            .map(|(range, scanned)| {
                let range = range.start as u32..range.end as u32;
                Function::new(range, options.optimize && scanned.is_small, scanned.loops)
            })
            .collect();
        let is_counted = |callee: u32| {
            let defined = callee.checked_sub(info.imported_functions).map(|defined| defined as usize);
            defined.is_some_and(|defined| {
                scanned[defined].is_small && ranges[defined].end - ranges[defined].start > MAX_UNCOUNTED
            })
        };
        let sites = Sites::of(scanned.iter().map(|scanned| &scanned.sites), is_counted);
        let profile = Profile::new(sites);
        let generator = CodeGenerator::new(info, options)?;
        Ok(OnDemand { wasm: wasm.into(), features, functions, fields, settled, never, profile, generator })
    }

    /// Has functions compiled for one engine, which has registered the module's types under these ids, in their order:
    /// code holds them, where it would load them from the instance's context. To be called before anything is compiled.
    /// [`whole`](Self::whole) stays code for all.
    ///
    /// # Panics
    /// Where there are not as many ids as types.
    pub fn set_type_ids(&mut self, ids: Box<[u32]>) {
        self.generator.set_type_ids(ids);
    }

    /// The ids that code holds, if it is compiled for one engine.
    pub fn type_ids(&self) -> Option<&[u32]> {
        self.generator.type_ids()
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

    /// Where quick code notes what calls by reference lead to, and how often loops and some calls run
    /// ([`ContextHead::profile`]).
    ///
    /// [`ContextHead::profile`]: crate::abi::ContextHead::profile
    pub fn profile(&self) -> &[AtomicU32] {
        self.profile.noted()
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

    /// Bytes of a defined function's body in the module file.
    pub fn body_bytes(&self, index: FuncIndex) -> u32 {
        let range = &self.function(index).range;
        range.end - range.start
    }

    /// How a defined function had best be compiled when it is first called: optimised if it has loops that it cannot be
    /// replaced in, as it may stay in one for long.
    pub fn first_tier(&self, index: FuncIndex) -> Tier {
        let is_fixed = self.function(index).loops == Loops::Fixed;
        if is_fixed || !self.generator.options().optimize { Tier::Optimized } else { Tier::Quick }
    }

    /// Whether generated code is checked: code that is compiled for tests.
    pub fn is_verified(&self) -> bool {
        self.generator.options().verify
    }

    fn function(&self, index: FuncIndex) -> &Function {
        &self.functions[(index.0 - self.info().imported_functions) as usize]
    }

    /// Compiles what a symbol stands for: a defined function, or a trampoline or loop, which have one tier.
    ///
    /// Errors: the code generator refuses it, or no such loop can be reached.
    pub fn compile(&self, symbol: Symbol, tier: Tier) -> Result<FunctionCode, CompileError> {
        let index = match symbol {
            Symbol::Function(index) => FuncIndex(index),
            Symbol::Loop(index, offset) => return self.compile_loop(FuncIndex(index), offset),
            Symbol::Builtin(_) | Symbol::Cold(_) => return self.generator.compile_builtin(symbol),
        };
        if tier == Tier::Quick {
            return self.generator.compile_quickly(&self.prepare_quickly(index)?);
        }
        let function = match self.bodies(index, false).and_then(|bodies| bodies.whole.as_ref()) {
            Some(body) => body.function.clone(),
            None => self.prepare(index)?,
        };
        self.finish(function)
    }

    /// Compiles what comes after the header of a loop of a defined function, with all optimisations: code that takes
    /// the locals that are live there, and returns what the function returns. The loop is known by its offset in the
    /// module file, which quick code of the function names.
    fn compile_loop(&self, index: FuncIndex, offset: u32) -> Result<FunctionCode, CompileError> {
        let exits = passes::prune_exits(&mut self.translate(index, Part::REPLACEABLE)?);
        let Some((_, locals)) = exits.iter().find(|(found, _)| *found == offset) else {
            let message = "no loop that can be reached begins where one is to be entered".to_string();
            return Err(CompileError::CodeGeneration { function: index.0, message });
        };
        let left = self.untried_loops(index, Some(offset))?;
        let around = untried::loops_around(&self.body(index), self.features, offset)?;
        let part = Part { from: Some(offset), around: &around, left: Left::These(&left) };
        let mut function = self.translate(index, part)?;
        passes::narrow_entry(&mut function, locals);
        self.leave(&mut function, &exits);
        self.optimize(&mut function)?;
        self.finish(function)
    }

    /// Compiles a function with all done to it that comes after inlining, and that.
    fn finish(&self, mut function: mir::Function) -> Result<FunctionCode, CompileError> {
        let options = self.generator.options();
        if options.optimize {
            if passes::inline(&mut function, self) {
                if options.verify {
                    passes::check(&function, self.info(), "inline")?;
                }
                passes::optimize(&mut function, self.info(), options.verify)?;
            }
            passes::finish(&mut function, self.info(), options.plan.iterations_between_polls, options.verify)?;
        }
        self.generator.compile_function(&function)
    }

    /// A function with all done to it that comes before inlining.
    fn prepare(&self, index: FuncIndex) -> Result<mir::Function, CompileError> {
        let left = self.untried_loops(index, None)?;
        let mut function = self.translate(index, Part { left: Left::These(&left), ..Part::WHOLE })?;
        if !left.is_empty() {
            self.leave(&mut function, &passes::prune_exits(&mut self.translate(index, Part::REPLACEABLE)?));
        }
        self.optimize(&mut function)?;
        Ok(function)
    }

    /// All that comes before inlining, but for translation.
    fn optimize(&self, function: &mut mir::Function) -> Result<(), CompileError> {
        let (info, options) = (self.info(), self.generator.options());
        if options.verify {
            passes::check(function, info, "translate")?;
        }
        if options.optimize {
            self.never.cut(function);
            passes::optimize(function, info, options.verify)?;
            if self.fields.replace(function, info) {
                passes::optimize(function, info, options.verify)?;
            }
            self.settled.replace(function);
        }
        Ok(())
    }

    /// A function as the quick tier has it.
    fn prepare_quickly(&self, index: FuncIndex) -> Result<mir::Function, CompileError> {
        let part = match self.function(index).loops {
            Loops::Replaceable | Loops::Together => Part::REPLACEABLE,
            Loops::None | Loops::Fixed => Part::WHOLE,
        };
        let mut function = self.translate(index, part)?;
        if part == Part::REPLACEABLE {
            passes::prune_exits(&mut function);
        }
        let verify = self.generator.options().verify;
        if verify {
            passes::check(&function, self.info(), "translate")?;
        }
        self.note(&mut function, |_| true);
        self.never.cut(&mut function);
        passes::tidy(&mut function, self.info(), verify)?;
        Ok(function)
    }

    /// Where the loops of a function begin that its optimised code leaves, as they [have not run](untried), if it is
    /// code that goes on in the loop at `from`.
    fn untried_loops(&self, index: FuncIndex, from: Option<u32>) -> Result<Vec<u32>, CompileError> {
        if !self.generator.options().optimize || self.function(index).loops != Loops::Replaceable {
            return Ok(Vec::new());
        }
        untried::untried_loops(&self.body(index), self.features, from, &self.profile)
    }

    /// Has loops with a way out pass on what `exits` say of the whole function, and note what they call.
    fn leave(&self, function: &mut mir::Function, exits: &passes::Exits) {
        if passes::leave_untried(function, self.info(), exits) {
            // Cold by now are the loops that are left, and their ways out, which make no calls.
            self.note(function, |block| block.cold);
        }
    }

    /// Has code take notes for the profile; it counts calls in the blocks that `counts` says.
    fn note(&self, function: &mut mir::Function, counts: impl Fn(&mir::BlockData) -> bool) {
        let profile = &self.profile;
        passes::note_calls(function, counts, |offset| profile.reference(offset), |offset| profile.word(offset));
    }

    fn body(&self, index: FuncIndex) -> FunctionBody<'_> {
        let Range { start, end } = self.function(index).range;
        let bytes = &self.wasm[start as usize..end as usize];
        FunctionBody::new(BinaryReader::new_features(bytes, start.into(), self.features))
    }

    fn translate(&self, index: FuncIndex, part: Part<'_>) -> Result<mir::Function, CompileError> {
        translate_valid_function(self.info(), index, &self.body(index), self.features, part)
    }
}

impl Callees for OnDemand {
    /// The functions that a call by reference leads to, if they are few: as far as has been seen, or what the whole
    /// module shows, where too many have been seen, or none could be, as the function has no quick code, or is
    /// optimised before all its loops have run.
    fn likely(&self, function: &mir::Function, call: &CallByReference, offset: u32) -> Likely {
        let info = self.info();
        let targets = self.profile.of_call(offset);
        let loops = self.function(function.index).loops;
        let is_unseen = targets.is_empty() && matches!(loops, Loops::Together | Loops::Fixed);
        if is_unseen || targets.len() > MOST_LIKELY {
            return self.fields.targets(info, function, call);
        }
        // The number may be that of another module's function.
        let fits = |target: &FuncIndex| {
            info.functions
                .get(target.index())
                .is_some_and(|function| function.func_ref.is_some() && info.is_declared_subtype(function.ty, call.ty))
        };
        let noted = targets.len();
        let targets: smallvec::SmallVec<_> = targets.into_iter().filter(fits).collect();
        Likely { is_complete: targets.len() == noted, targets, is_seen: true }
    }

    fn bodies(&self, index: FuncIndex, is_hot: bool) -> Option<&Bodies> {
        let defined = index.0.checked_sub(self.info().imported_functions)?;
        let Function { range, inlined, loops } = &self.functions[defined as usize];
        let may_be_inlined = is_hot || range.len() as u32 <= scan::MAX_INLINED_RARELY || *loops != Loops::None;
        let bodies = inlined.as_ref().filter(|_| may_be_inlined)?;
        // What cannot be prepared is told when the function itself is compiled.
        let prepared = || self.prepare(index).map(|function| Bodies::new(&function, self.info()));
        Some(bodies.get_or_init(|| prepared().unwrap_or_default()))
    }

    fn is_hot(&self, offset: u32) -> Option<bool> {
        // Code that counts nothing may have made it.
        let count = self.profile.call_count(offset).filter(|&count| count > 0)?;
        Some(count >= if self.is_verified() { HOT_VERIFIED } else { HOT })
    }
}
