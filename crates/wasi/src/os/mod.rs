//! What the calls need from the operating system beyond `std` and `cap-std`: one file per system, each with the same
//! functions.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::*;

#[cfg(not(unix))]
compile_error!("legato-wasi knows Unix systems so far; another one needs its own file beside src/os/unix.rs");
