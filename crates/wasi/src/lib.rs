//! WASI preview 1 for Legato: what a command line program may ask of its host.
//!
//! Every call of preview 1 is here except sockets: the `sock_*` calls exist, so that modules link, and answer
//! `ENOTSUP`; `sock_shutdown` says that no descriptor is a socket.
//!
//! Access is by capability. A guest reaches the directories that [`WasiCtxBuilder::preopened_dir`] opened and nothing
//! outside them: `cap-std` resolves every path below an open directory, so neither `..`, nor absolute paths, nor
//! symbolic links lead out.
//!
//! - [`WasiCtx`] holds a guest's arguments, environment, descriptors, clocks and randomness. The calls are its methods
//!   (in `calls/`, one file per group), take the guest's memory as [`GuestMemory`] and know nothing of the engine.
//! - [`add_to_linker`] ties them to an engine.
//! - Host interfaces of other languages use the same context through plain Rust ([`WasiCtx::read_file`] and what is
//!   beside it).
//! - A call that ends the guest ([`I32Exit`], [`RaisedSignal`]) surfaces as an error of the call into the guest.

mod calls;
mod clocks;
mod ctx;
mod dir;
mod errno;
mod exit;
mod file;
mod interrupts;
mod linker;
mod memory;
mod os;
pub mod p1;
mod plain;
mod stdio;
mod table;
mod types;

pub use clocks::{Clocks, HostClocks};
pub use ctx::{Access, RandomSource, WasiCtx, WasiCtxBuilder};
pub use errno::Errno;
pub use exit::{I32Exit, RaisedSignal};
pub use linker::add_to_linker;
pub use memory::GuestMemory;
pub use plain::PathKind;
pub use stdio::{Input, Output, OutputPipe};
pub use types::{
    ClockId, DIRENT_SIZE, EVENT_SIZE, FDSTAT_SIZE, FILESTAT_SIZE, FdFlags, FileType, FstFlags, IOVEC_SIZE, LookupFlags,
    OFlags, PRESTAT_SIZE, Rights, SUBSCRIPTION_SIZE,
};

/// The program in the guide, to be compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/wasi.md")]
struct Guide;
