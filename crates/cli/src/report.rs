//! Errors as the user sees them, and the exit status that they mean.

use std::fmt::Display;
use std::io::{self, Write};

use anyhow::{Context, Error, Result};
use legato::{ThrownException, Trap, WasmBacktrace};
use legato_wasi::{I32Exit, RaisedSignal};

use crate::exception::Uncaught;
use crate::imports::StubCalled;
use crate::{backtrace, exit};

/// Prints a line to standard error. If nobody reads it, there is nobody to tell that.
pub fn complain(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints to standard output.
///
/// # Errors
///
/// If it cannot be written, except that a reader who has seen enough, as `head` has, is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// The exit status of a command that succeeded or failed, after printing why.
pub fn status(result: Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => failure(&error),
    }
}

/// How the guest ended, in a few words.
pub fn outcome(result: &Result<()>) -> String {
    match result {
        Ok(()) => "ended".into(),
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(exit) => format!("exited with status {}", exit.process_exit_code()),
            None => match error.downcast_ref::<Uncaught>() {
                Some(uncaught) => uncaught.to_string(),
                None => sentence(error),
            },
        },
    }
}

/// Whether the guest ended, or its last output was lost, because nobody reads its output any more.
fn is_broken_pipe(error: &Error) -> bool {
    error.downcast_ref::<RaisedSignal>() == Some(&RaisedSignal::PIPE)
        || error.chain().any(|cause| {
            cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
        })
}

/// Prints an error that is not the guest's own end, and says what exit status it means. A guest that ended itself only
/// has a status.
pub fn failure(error: &Error) -> i32 {
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return exit.process_exit_code();
    }
    if is_broken_pipe(error) {
        // Whoever read has seen enough: as a signal it would end a program of the system without a word.
        return RaisedSignal::PIPE.process_exit_code();
    }
    if let Some(raised) = error.downcast_ref::<RaisedSignal>() {
        complain(format_args!("legato: {raised}"));
        return raised.process_exit_code();
    }
    if let Some(usage) = error.downcast_ref::<exit::UsageError>() {
        complain(format_args!("error: {usage}\n\nFor more information, try '--help'."));
        return exit::USAGE;
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        match trap {
            Trap::AllocationFailure | Trap::AllocationTooLarge => complain(exhausted(error)),
            Trap::StackOverflow => complain(format_args!("legato: {trap}; --stack SIZE sets how much there is")),
            _ => complain(format_args!("legato: {}", sentence(error))),
        }
        backtrace(error);
        return exit::TRAP;
    }
    if let Some(stub) = error.downcast_ref::<StubCalled>() {
        complain(format_args!("legato: {stub}"));
        backtrace(error);
        return exit::TRAP;
    }
    if let Some(uncaught) = error.downcast_ref::<Uncaught>() {
        complain(format_args!("legato: {uncaught}"));
        backtrace(error);
        return exit::TRAP;
    }
    if error.downcast_ref::<ThrownException>().is_some() {
        complain(format_args!("legato: uncaught exception"));
        backtrace(error);
        return exit::TRAP;
    }
    complain(format_args!("legato: error: {}", sentence(error)));
    backtrace(error);
    exit::FAILURE
}

/// What a failed allocation lacked, and who can help.
fn exhausted(error: &Error) -> String {
    let mut parts = parts(error);
    // The trap is what happened, what stands right before it why, and what comes before that where.
    let cause = parts.len().saturating_sub(2);
    parts[cause..].reverse();
    // No heap is large enough for an array with more elements than any may have.
    let is_hopeless = parts.iter().any(|part| part.starts_with("array too long"));
    let help = if is_hopeless { "" } else { "; --heap max=SIZE sets the most that it may have, 4G at most" };
    format!("legato: {}{help}", parts.join(": "))
}

/// Where in the guest it happened, as far as known.
pub fn backtrace(error: &Error) {
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        let text = backtrace::text(backtrace);
        if !text.is_empty() {
            complain(text);
        }
    }
}

/// The error and its causes, without the backtrace among them.
fn sentence(error: &Error) -> String {
    parts(error).join(": ")
}

fn parts(error: &Error) -> Vec<String> {
    let backtrace = error.downcast_ref::<WasmBacktrace>().map(ToString::to_string);
    error.chain().map(ToString::to_string).filter(|part| Some(part) != backtrace.as_ref()).collect()
}
