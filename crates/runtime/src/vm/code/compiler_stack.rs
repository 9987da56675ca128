//! Stack for the compiler, where it is called on one that may be small, or nearly full.

use std::io;

use crate::vm::interrupt;

/// Stack that compiling a function may take, in bytes.
const COMPILER_STACK: usize = 1 << 20;

/// What `compile` returns, which runs where there is stack enough for it: on a thread of its own, where this one has
/// less left.
///
/// # Errors
/// The system makes no thread.
///
/// # Panics
/// If `compile` does.
pub(crate) fn with_compiler_stack<T: Send>(compile: impl FnOnce() -> T + Send) -> io::Result<T> {
    if interrupt::stack_left().is_some_and(|left| left >= COMPILER_STACK) {
        return Ok(compile());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(4 * COMPILER_STACK).spawn_scoped(scope, compile)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
