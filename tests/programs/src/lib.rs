//! Runs the programs of `examples/` on Legato and compares what they print with what is expected of them.
//!
//! [`examples`] finds the programs (and compiles those that are compiled); [`guest`] runs one. The heap configurations
//! under which each must behave the same are the test matrix's (`legato-test-matrix`).

pub mod examples;
pub mod guest;
