//! Another process of a group, which takes memory and gives it back.

use super::group::Group;
use crate::measure::monotonic;
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Bytes that are taken at a time.
const CHUNK: usize = 1 << 20;
/// How long the next ones wait where they are locked: a disk has to write as many bytes for them, and where that is too
/// slow the kernel kills somebody.
const BETWEEN: Duration = Duration::from_millis(10);

/// Seconds that it takes to lock so many bytes, if the disk is fast enough.
pub(super) fn seconds(bytes: u64) -> f64 {
    bytes as f64 / CHUNK as f64 * BETWEEN.as_secs_f64()
}

/// What the process is to do.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Options {
    /// Bytes to take.
    pub bytes: usize,
    /// Seconds after which the system ends the process.
    pub patience: u32,
    /// Lock them, as Isla Vista's experiments did: else the kernel swaps out whoever does nothing.
    #[arg(long)]
    pub lock: bool,
}

/// The process's own part: takes memory, says so in a line, and ends with its input.
///
/// # Errors
/// If there is no such memory, or it cannot be locked.
pub fn hold(options: &Options) -> anyhow::Result<()> {
    // SAFETY: a call without memory. The system ends a process that is stuck in taking, or has lost its parent there.
    unsafe { libc::alarm(options.patience) };
    let mut memory = Vec::new();
    memory.try_reserve_exact(options.bytes).context("there is no such memory")?;
    while memory.len() < options.bytes {
        let start = memory.len();
        memory.resize(options.bytes.min(start + CHUNK), 1u8);
        let chunk = &memory[start..];
        // SAFETY: the range is memory of ours; locking it changes nothing of it.
        let refused = options.lock && unsafe { libc::mlock(chunk.as_ptr().cast(), chunk.len()) } != 0;
        ensure!(!refused, "memory cannot be locked: {}", std::io::Error::last_os_error());
        if options.lock {
            std::thread::sleep(BETWEEN);
        }
    }
    let mut output = std::io::stdout().lock();
    writeln!(output, "held")?;
    output.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    std::hint::black_box(&memory);
    Ok(())
}

/// A process that holds memory of a group.
#[derive(Debug)]
pub(super) struct Ballast {
    process: Child,
}

impl Ballast {
    /// Starts one in a group, and waits until it has taken so many bytes. It ends by itself when it could not within
    /// that time, or could not give them back.
    ///
    /// # Errors
    /// If it cannot be started, or ends before it has taken them.
    pub(super) fn take(bytes: u64, lock: bool, group: &Group, patience: Duration) -> anyhow::Result<Ballast> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("ballast").arg(bytes.to_string()).arg(patience.as_secs().max(1).to_string());
        command.args(lock.then_some("--lock"));
        let mut inside = group.holding(&command);
        let process = inside.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut ballast = Ballast { process: process.context("cannot start a process that takes memory")? };
        let output = ballast.process.stdout.take().context("the process has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line == "held\n", "a process of the group could not take {} MB", bytes / 1_000_000);
        Ok(ballast)
    }

    /// Has it give its memory back, and returns when it had, by the monotonic clock in seconds.
    ///
    /// # Errors
    /// If the system does not let us wait, or the process ended before.
    pub(super) fn give_back(mut self) -> anyhow::Result<f64> {
        drop(self.process.stdin.take());
        let status = self.process.wait().context("cannot wait for a process")?;
        ensure!(status.success(), "the process that took memory ended: {status}");
        Ok(monotonic())
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
