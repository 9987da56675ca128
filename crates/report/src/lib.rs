//! Watching the collectors of Legato: all that a heap tells, it tells one [`GcObserver`](legato_heap::GcObserver), and
//! here are the observers to give it.
//!
//! * [`GcLog`] writes one line for each collection.
//! * [`GcRecorder`] remembers what happened, in bounded memory, and yields a [`Record`] at any time: percentiles of the
//!   pauses, minimum mutator utilisation, allocation rate and the like as [`Statistics`], which serialise.
//! * [`Report`] is a record with what it belongs to: as JSON, as text, and as a page of HTML that stands by itself.
//! * [`Fanout`] passes events to several observers.
//!
//! ```
//! use legato_heap::{GcEvent, GcObserver};
//! use legato_report::{Fanout, GcLog, GcRecorder, Report};
//!
//! # fn attach(_: Box<dyn GcObserver>) {}
//! let recorder = GcRecorder::with_events();
//! let observer = Fanout::new().with(GcLog::new(std::io::stderr())).with(recorder.clone());
//! attach(Box::new(observer)); // Store::set_gc_observer, Heap::set_observer
//! // The program runs.
//! let report = Report::new("trees.wasm", "ended", Vec::new(), recorder.record(), None);
//! println!("{}", report.json());
//! assert!(report.html().starts_with("<!DOCTYPE html>"));
//! ```
//!
//! An observer is called while the mutator stands still, after the pause was measured: a slow one slows the program,
//! but does not lengthen the pauses that are reported.
#![warn(missing_docs)]

mod arrays;
mod columns;
mod fanout;
mod log;
mod machine;
mod mmu;
mod over_time;
mod page;
mod pauses;
mod process;
mod record;
mod recorder;
mod report;
mod statistics;

pub use fanout::Fanout;
pub use log::GcLog;
pub use machine::Machine;
pub use mmu::UtilisationCurve;
pub use record::Record;
pub use recorder::GcRecorder;
pub use report::Report;
pub use statistics::{
    Allocation, Collections, Cycles, Distribution, MarkingTimes, MemoryPeaks, PauseStatistics, Pauses, PhaseSlices,
    Promotion, Statistics, Times, Utilisation, ZeroingTimes,
};
