//! Exit statuses of the command itself.

/// The module cannot be read, compiled or linked.
pub const FAILURE: i32 = 1;
/// The command line is wrong.
pub const USAGE: i32 = 2;
/// The time given with `--timeout` is over (as of coreutils' `timeout`).
pub const TIMEOUT: i32 = 124;
/// The guest trapped or ended in an uncaught exception (as after `abort`).
pub const TRAP: i32 = 134;
/// Added to the number of the signal that ended the guest (as in shells).
pub const SIGNAL: i32 = 128;

/// A mistake in the command line that only shows once the module is known.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}
