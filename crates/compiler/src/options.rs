//! What the embedder chooses.

use legato_heap::AccessPlan;

/// Parts of the language that may be refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// Modules with more than one memory.
    pub multi_memory: bool,
}

impl Default for Features {
    /// All of WebAssembly 3.0.
    fn default() -> Features {
        Features { multi_memory: true }
    }
}

/// What the embedder chooses for a compilation.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The heap that the code will run on.
    pub plan: AccessPlan,
    /// What is accepted of the language.
    pub features: Features,
    /// Checks every access to a linear memory by its length, whatever is reserved for the memory.
    pub checked_memories: bool,
    /// Runs the optimisation passes of MIR and of Cranelift.
    pub optimize: bool,
    /// Compiles functions on several threads. The result is the same.
    pub parallel: bool,
    /// Runs the verifiers of MIR (after every pass), of generated code (before Cranelift optimises it) and of
    /// Cranelift: slow, for tests and fuzzing.
    pub verify: bool,
}
