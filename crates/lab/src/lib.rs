//! Experiments with Legato: what it is measured by, and what it is checked against.
//!
//! * [`generate`] builds modules that are hard for a compiler; [`mutate`] builds modules that are wrong; [`hostile`] is
//!   what gets bytes from strangers.
//! * [`measure`], [`stats`], [`report`] and [`tables`] are the instruments: alternating runs, medians and intervals.
//! * `peers` (feature `peers`) compares Legato with wasmtime on programs, compile time and start-up; `allocation`
//!   compares programs that allocate, and their nursery, with wasmtime and V8; `fuzz` runs generated modules in Legato
//!   and wasmtime and compares what they do.
//! * [`collections`] runs generated programs that allocate under all heap configurations, and compares them with one
//!   that never collects; [`children`] are the processes in which they, and those of `fuzz`, may crash.
//! * [`views`] measures what host code pays for an array as one slice.
//! * [`zeroing`] measures what zeroing costs under each strategy.
//! * [`arrays`] measures what the layouts of arrays cost and save.
//! * [`handles`] measures what reference models cost and save.
//! * [`startup`] measures how soon programs give results, as whole commands, beside V8.
//! * [`pressure`] measures what memory pressure costs under each rule for the heap's size.
//! * [`instances`] measures what an instance of a compiled module costs.
//! * [`pauses`] measures how long a program stands still, by its own word, beside wasmtime and V8.
//!
//! The feature `peers` is off by default: nothing else in the workspace builds another engine.

/// Exit code of the command when it could not do its work: not the same as a negative result, which is 1.
pub const FAILED: i32 = 2;

pub mod arrays;
pub mod children;
pub mod collections;
pub mod contestants;
pub mod engines;
pub mod generate;
pub mod handles;
pub mod heaps;
pub mod hostile;
pub mod instances;
pub mod measure;
pub mod mutate;
pub mod pauses;
pub mod pressure;
pub mod programs;
pub mod random;
pub mod report;
pub mod startup;
pub mod stats;
pub mod tables;
pub mod turns;
pub mod views;
pub mod wasi;
pub mod zeroing;

#[cfg(feature = "peers")]
pub mod allocation;
#[cfg(feature = "peers")]
pub mod fuzz;
#[cfg(feature = "peers")]
pub mod peers;
