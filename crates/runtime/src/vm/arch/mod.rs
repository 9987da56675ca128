//! What depends on the processor alone: one file for each architecture, all with the same items.
//!
//! * `resume(landing, sp, fp, payload) -> !`: continues compiled code at a landing pad;
//! * `RETURN_BARRIER`: the code that stands in for a replaced return address, where there is such;
//! * `FIRST_CALL`, `beginnings` and their sizes: what functions begin with that may be not compiled yet, where there is
//!   such;
//! * `stack_pointer() -> usize`: about where the stack is;
//! * `synchronize_code(start, bytes)`: makes freshly written code visible to instruction fetch.

use std::sync::atomic::{AtomicI32, AtomicUsize};

/// What the `beginnings` of a function look at.
#[repr(C)]
pub(crate) struct Words {
    /// Where calls go on.
    pub(crate) entry: AtomicUsize,
    /// Where they go on that are counted.
    pub(crate) counted: AtomicUsize,
    /// How many calls are still to be counted.
    pub(crate) counter: AtomicI32,
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("add a file to vm/arch for this architecture");
