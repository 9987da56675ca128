//! The machine-near half of the runtime: executable code, entering and leaving it, traps, exceptions, stack frames, the
//! storage of memories and tables, and interruption.
//!
//! It knows nothing of stores, linkers or the embedding API. A store is known here only by the address of its
//! [`StoreContext`](legato_compiler::abi::StoreContext), behind which lies what is known of its frames
//! ([`StoreFrames`]).
//!
//! # How compiled code is left other than by returning
//!
//! Every call from the host goes through [`activation::enter`], which links an activation into a list of the thread.
//! The entry trampoline records in it where to continue when the call is given up (its *landing*). From then on
//!
//! * a fault in compiled code becomes a trap: the signal handler notes it in the activation and lets the thread
//!   continue at the landing ([`signals`]);
//! * a builtin or host function that fails notes why ([`activation::set_pending`]) and its trampoline calls
//!   [`activation::raise`], which continues at the landing too, or, for an exception, at the innermost handler that
//!   wants it (`exceptions`).
//!
//! Frames of compiled code hold nothing that needs to be dropped. Frames of Rust functions are never jumped over,
//! except the caller of `raise`, which must own nothing by then.

pub mod activation;
mod arch;
pub mod barriers;
pub mod code;
mod exceptions;
pub mod frames;
pub mod interrupt;
pub mod memory;
mod os;
pub mod perf_map;
pub mod registry;
pub mod signals;
pub mod snapshot;
#[cfg(test)]
mod stacks;
pub mod table;
mod target;
mod trail;
pub mod watermark;

pub use activation::{TrapRecord, Unwind, ValueCell};
pub use barriers::StoreFrames;
pub use code::{CodeImage, CompileCause, CompileObserver, Compiled};
pub(crate) use code::{KeptCode, Observers, with_compiler_stack};
pub use frames::{BacktraceFrame, Frame};
pub use interrupt::{DeadlineRequest, InterruptState, PollOutcome};
pub use memory::{LinearMemory, MemoryImage, MemoryReservation};
#[cfg(test)]
pub(crate) use os::refuse;
pub use perf_map::PerfMap;
pub use table::TableStorage;

/// Why something of this layer could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The code was compiled for another machine.
    #[error("code compiled for {compiled} cannot run here: {reason}")]
    WrongTarget {
        /// The target triple that the code names.
        compiled: String,
        /// What the host lacks.
        reason: String,
    },
    /// The tables of a compiled module contradict its code: the file is damaged.
    #[error("damaged compiled module: {0}")]
    Damaged(&'static str),
    /// The address space of a linear memory was refused.
    #[error(
        "{cause}: {bytes} bytes for a linear memory (a limit on address space may be set, ulimit -v); a smaller \
         memory reservation (--memory-reservation, Config::memory_reservation) has memories checked instead"
    )]
    MemoryReservation {
        /// How much.
        bytes: u64,
        /// The system's answer.
        cause: Box<Error>,
    },
    /// A limit of this implementation was passed.
    #[error("{0}")]
    Limit(String),
    /// The operating system refused.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// The error that the last system call of this thread left, while doing `what`.
    fn last_os(what: &'static str) -> Error {
        Error::System { what, source: std::io::Error::last_os_error() }
    }
}
