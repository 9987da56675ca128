//! A process that runs modules, and the parent's end of it.
//!
//! The parent writes a seed in a line; the child answers with lines of JSON: which engine is at work, then the verdict.

use super::compare::{Calls, Verdict, compare};
use super::observation::{Observation, Outcome};
use super::{Options, legato, module, plan, wasmtime};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Bytes of stack for the thread that runs modules: more than both engines' limits.
const STACK: usize = 256 << 20;

/// What the parent learns of one module.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// Nothing to report.
    Same {
        /// Calls compared.
        calls: Calls,
    },
    /// Nothing to report as far as it went.
    Inconclusive {
        /// Calls compared.
        calls: Calls,
        /// Why it did not go further.
        why: String,
    },
    /// A difference.
    Different {
        /// What differs.
        what: String,
    },
    /// The process ended or did not answer in time.
    Ended {
        /// How.
        what: String,
        /// It was in the peer's hands.
        by_peer: bool,
    },
}

#[derive(Serialize, Deserialize)]
enum Line {
    /// The peer is at work on the module.
    Peer,
    /// Legato is.
    Legato,
    /// The answer.
    Answer(Message),
}

/// The child's part: answers until its input ends.
///
/// # Errors
/// If it cannot read or write, or the parent writes something else than seeds.
pub fn serve(options: &Options) -> anyhow::Result<()> {
    let options = options.clone();
    // Guests get as much stack as they may use, on every system.
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || -> anyhow::Result<()> {
        for line in std::io::stdin().lock().lines() {
            let message = examine(line?.trim().parse()?, &options)?;
            say(&Line::Answer(message))?;
        }
        Ok(())
    })?;
    match thread.join() {
        Ok(result) => result,
        // The panic has been printed; the parent reports it as the end of this process.
        Err(_) => std::process::exit(101),
    }
}

fn say(line: &Line) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(line)?)?;
    Ok(output.flush()?)
}

/// One module in both engines.
fn examine(seed: u64, options: &Options) -> anyhow::Result<Message> {
    let wasm = module::generate(seed)?;
    let plan = plan::plan(&wasm, seed)?;
    if options.verbose {
        std::fs::create_dir_all(&options.save)?;
        std::fs::write(options.save.join(format!("fuzz-{seed}.wasm")), &wasm)?;
    }
    say(&Line::Peer)?;
    let theirs = wasmtime::observe(&wasm, &plan, options.budget)?;
    say(&Line::Legato)?;
    let ours = legato::observe(&wasm, &plan, options.budget, &options.heap)?;
    if options.verbose {
        eprintln!("seed {seed}\n  legato:\n{}  wasmtime:\n{}", describe(&ours), describe(&theirs));
    }
    let (calls, verdict) = compare(&ours, &theirs);
    Ok(match verdict {
        Verdict::Same => Message::Same { calls },
        Verdict::Inconclusive(why) => Message::Inconclusive { calls, why },
        Verdict::Different(what) => Message::Different { what },
    })
}

fn describe(observation: &Observation) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    if !matches!(&observation.instantiation, Outcome::Values(_)) {
        let _ = writeln!(text, "    instantiation: {:?}", observation.instantiation);
    }
    for call in &observation.calls {
        let _ = writeln!(text, "    {:?}: {:?}, budget left {}", call.export, call.outcome, call.budget);
    }
    for (name, values) in &observation.state {
        let _ = writeln!(text, "    {name:?} = {values:?}");
    }
    text
}

/// A running child.
pub struct Child {
    process: std::process::Child,
    input: ChildStdin,
    lines: Receiver<Line>,
}

impl Child {
    /// Starts this very program as a child.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn start(options: &Options) -> anyhow::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["fuzz", "--child", "--budget", &options.budget.to_string(), "--save"]).arg(&options.save);
        if !options.heap.is_empty() {
            command.args(["--heap", &options.heap.join(",")]);
        }
        if options.verbose {
            command.arg("--verbose");
        }
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

    /// Has the child examine one module. After [`Message::Ended`] the child is gone.
    ///
    /// # Errors
    /// If the child gave up because of an error of the harness, which it has printed.
    pub fn ask(&mut self, seed: u64, limit: Duration) -> anyhow::Result<Message> {
        // A child that has ended shows it below.
        let _ = writeln!(self.input, "{seed}").and_then(|()| self.input.flush());
        let mut by_peer = true;
        loop {
            match self.lines.recv_timeout(limit) {
                Ok(Line::Peer) => by_peer = true,
                Ok(Line::Legato) => by_peer = false,
                Ok(Line::Answer(message)) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => {
                    let what = format!("gave no answer within {} s", limit.as_secs());
                    self.end();
                    return Ok(Message::Ended { what, by_peer });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.process.wait()?;
                    anyhow::ensure!(status.code() != Some(crate::FAILED), "the child failed at seed {seed}");
                    return Ok(Message::Ended { what: format!("ended the process: {status}"), by_peer });
                }
            }
        }
    }

    fn end(&mut self) {
        // Fails only if the child has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}
