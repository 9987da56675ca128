//! What the embedder chooses.

use std::str::FromStr;

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

/// How loops are compiled where arrays have inline lengths; elsewhere it makes no difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LoopVersions {
    /// Once, as other code.
    None,
    /// As a fast path, for elements that lie in one piece with the array's header, and a slow path.
    Versions,
    /// The same; loops that walk through the leaves of an array are outlined besides, to look each leaf up once.
    #[default]
    Outlined,
}

impl FromStr for LoopVersions {
    type Err = String;

    /// `none`, `versions` or `outlined`; anything else is an error that says so.
    fn from_str(text: &str) -> Result<LoopVersions, String> {
        match text {
            "none" => Ok(LoopVersions::None),
            "versions" => Ok(LoopVersions::Versions),
            "outlined" => Ok(LoopVersions::Outlined),
            _ => Err(format!("loop versions must be 'none', 'versions' or 'outlined', not '{text}'")),
        }
    }
}

/// What the embedder chooses for a compilation.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The heap that the code will run on.
    pub plan: AccessPlan,
    /// What is accepted of the language.
    pub features: Features,
    /// Runs the optimisation passes of MIR and of Cranelift.
    pub optimize: bool,
    /// How loops over arrays are compiled, with `optimize` or without.
    pub loop_versions: LoopVersions,
    /// Compiles functions on several threads. The result is the same.
    pub parallel: bool,
    /// Runs the verifiers of MIR (after every pass), of generated code (before Cranelift optimises it) and of
    /// Cranelift: slow, for tests and fuzzing.
    pub verify: bool,
}
