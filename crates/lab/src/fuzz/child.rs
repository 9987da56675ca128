//! What a child process does with a module, and what the parent learns of it.

use super::compare::{Calls, Verdict, compare};
use super::observation::{Observation, Outcome};
use super::{Options, legato, module, plan, wasmtime};
use crate::children::{self, Child, Reply};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::Duration;

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

/// What a child says when Legato is at work: before, the peer is.
const LEGATO: &str = "legato";

/// The child's part: answers until its input ends.
///
/// # Errors
/// If it cannot read or write, or the parent writes something else than seeds.
pub fn serve(options: &Options) -> anyhow::Result<()> {
    let options = options.clone();
    children::serve(move |seed| examine(seed.parse()?, &options))
}

/// One module in both engines.
fn examine(seed: u64, options: &Options) -> anyhow::Result<Message> {
    let wasm = module::generate(seed)?;
    let plan = plan::plan(&wasm, seed)?;
    if options.verbose {
        std::fs::create_dir_all(&options.save)?;
        std::fs::write(options.save.join(format!("fuzz-{seed}.wasm")), &wasm)?;
    }
    let theirs = wasmtime::observe(&wasm, &plan, options.budget)?;
    children::at(LEGATO)?;
    let ours = legato::observe(&wasm, &plan, options.budget, &legato::heap(&options.heap, seed))?;
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

/// Starts a child.
///
/// # Errors
/// If the system refuses.
pub fn start(options: &Options) -> anyhow::Result<Child<Message>> {
    let mut arguments = ["fuzz", "--child", "--budget"].map(OsString::from).to_vec();
    arguments.push(options.budget.to_string().into());
    arguments.push("--save".into());
    arguments.push(options.save.clone().into());
    if !options.heap.is_empty() {
        arguments.push("--heap".into());
        arguments.push(options.heap.join(",").into());
    }
    if options.verbose {
        arguments.push("--verbose".into());
    }
    Child::start(arguments)
}

/// Has a child examine one module. After [`Message::Ended`] the child is gone.
///
/// # Errors
/// If the child gave up because of an error of the harness, which it has printed.
pub fn ask(child: &mut Child<Message>, seed: u64, limit: Duration) -> anyhow::Result<Message> {
    Ok(match child.ask(&seed.to_string(), limit)? {
        Reply::Answer(message) => message,
        Reply::Ended { what, at } => Message::Ended { what, by_peer: at != LEGATO },
    })
}
