//! Child processes that do work which may crash or hang: this very program again, which answers questions.
//!
//! The parent writes a question in a line; the child answers with lines of JSON: what it is at, then the answer.

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Bytes of stack for the thread that answers: guests get as much as they may use, on every system.
const STACK: usize = 256 << 20;

#[derive(Serialize, Deserialize)]
enum Line<Answer> {
    At(String),
    Answer(Answer),
}

/// What comes of a question.
#[derive(Debug)]
pub enum Reply<Answer> {
    /// The child's answer.
    Answer(Answer),
    /// The process ended, or did not answer in time.
    Ended {
        /// How.
        what: String,
        /// What it was at, as it said last.
        at: String,
    },
}

/// Tells the parent what the child is at, in case it ends.
///
/// # Errors
/// If the parent does not listen.
pub fn at(what: &str) -> anyhow::Result<()> {
    say(&Line::<()>::At(what.to_string()))
}

fn say<Answer: Serialize>(line: &Line<Answer>) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(line)?)?;
    Ok(output.flush()?)
}

/// The child's part: answers the questions until its input ends, each a line.
///
/// # Errors
/// If it cannot read or write, or `answer` fails.
pub fn serve<Answer: Serialize>(
    mut answer: impl FnMut(&str) -> anyhow::Result<Answer> + Send + 'static,
) -> anyhow::Result<()> {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || -> anyhow::Result<()> {
        for line in std::io::stdin().lock().lines() {
            say(&Line::Answer(answer(line?.trim())?))?;
        }
        Ok(())
    })?;
    match thread.join() {
        Ok(result) => result,
        // The panic has been printed; the parent reports it as the end of this process.
        Err(_) => std::process::exit(101),
    }
}

/// A running child.
pub struct Child<Answer> {
    process: std::process::Child,
    input: ChildStdin,
    lines: Receiver<Line<Answer>>,
}

impl<Answer: DeserializeOwned + Send + 'static> Child<Answer> {
    /// Starts this very program with `arguments`, which make it [`serve`].
    ///
    /// # Errors
    /// If the system refuses.
    pub fn start<Argument: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = Argument>,
    ) -> anyhow::Result<Child<Answer>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start a child")?;
        let input = process.stdin.take().context("the child has no input")?;
        let output = process.stdout.take().context("the child has no output")?;
        let (sender, lines) = channel();
        // Ends with the child's output, or when the parent no longer listens.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(line) = serde_json::from_str(&line) else {
                    break;
                };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Child { process, input, lines })
    }

    /// Has the child answer one question. After [`Reply::Ended`] the child is gone.
    ///
    /// # Errors
    /// If the child gave up because of an error of the harness, which it has printed.
    pub fn ask(&mut self, question: &str, limit: Duration) -> anyhow::Result<Reply<Answer>> {
        // A child that has ended shows it below.
        let _ = writeln!(self.input, "{question}").and_then(|()| self.input.flush());
        let mut at = String::new();
        loop {
            match self.lines.recv_timeout(limit) {
                Ok(Line::At(what)) => at = what,
                Ok(Line::Answer(answer)) => return Ok(Reply::Answer(answer)),
                Err(RecvTimeoutError::Timeout) => {
                    let what = format!("gave no answer within {} s", limit.as_secs());
                    self.end();
                    return Ok(Reply::Ended { what, at });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.process.wait()?;
                    anyhow::ensure!(status.code() != Some(crate::FAILED), "the child failed at {question}");
                    return Ok(Reply::Ended { what: format!("ended the process: {status}"), at });
                }
            }
        }
    }
}

impl<Answer> Child<Answer> {
    fn end(&mut self) {
        // Fails only if the child has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl<Answer> Drop for Child<Answer> {
    fn drop(&mut self) {
        self.end();
    }
}
