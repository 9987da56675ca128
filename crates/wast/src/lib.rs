//! Runs scripts of the WebAssembly specification's tests (`.wast`) on Legato.
//!
//! [`run`] executes the directives of one script: `script` holds what each does, `values` makes arguments and compares
//! results, `spectest` is the host module that scripts import.

mod script;
mod spectest;
mod values;

pub use script::run;

/// How many directives of a script were executed, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Directives that did what the script expects.
    pub passed: usize,
    /// Directives that did not.
    pub failed: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}
