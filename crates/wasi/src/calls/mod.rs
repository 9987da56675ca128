//! The calls of preview 1 as methods of [`WasiCtx`](crate::WasiCtx), one file per group.
//!
//! Each takes the guest's memory and the raw arguments, in the order of the specification. A pointer for a result is
//! written last, after everything that can fail; what a call opens or consumes before that is opened only when the
//! pointer is known to be good.

mod args;
mod clock;
mod fd;
mod fd_stat;
mod path;
mod poll;
mod proc;
mod random;
mod sock;

pub(crate) use fd_stat::{NewTime, Times};
