//! What a child process does with a program, and what the parent learns of it.

use super::body::Steps;
use super::program;
use super::rows::ORACLE;
use super::run::{Outcome, difference, run};
use crate::children::{self, Child, Reply};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// A program, and what to run it under.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The program's seed.
    pub seed: u64,
    /// Steps to leave out.
    pub dropped: Vec<u64>,
    /// Instructions to leave out, with the steps that hold them.
    pub without: Vec<String>,
    /// A saved program, to run in place of a generated one.
    pub module: Option<PathBuf>,
    /// The rows.
    pub rows: Vec<String>,
    /// Print what the calls did.
    pub verbose: bool,
}

/// Calls, by how they ended under the oracle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Returned.
    pub returned: u64,
    /// Trapped.
    pub trapped: u64,
    /// Threw.
    pub threw: u64,
    /// Ran out of memory or stack, so that the comparison ends.
    pub exhausted: u64,
}

/// What came of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// The same under all rows.
    Same(Calls),
    /// A row did something else, or crashed.
    Different {
        /// The row.
        row: String,
        /// What it did.
        what: String,
    },
}

impl Question {
    /// The steps of the program, as to be generated.
    pub fn steps(&self) -> Steps {
        Steps { dropped: self.dropped.iter().copied().collect(), without: self.without.clone(), taken: Vec::new() }
    }

    /// The module.
    ///
    /// # Errors
    /// If a saved one cannot be read, or is no module.
    pub fn wasm(&self) -> anyhow::Result<Vec<u8>> {
        if let Some(module) = &self.module {
            return Ok(wat::parse_bytes(&std::fs::read(module)?)?.into_owned());
        }
        Ok(program::generate(self.seed, &mut self.steps()))
    }
}

/// The child's part: answers until its input ends.
///
/// # Errors
/// If it cannot read or write, or the parent asks for something that makes no sense.
pub fn serve() -> anyhow::Result<()> {
    std::panic::set_hook(Box::new(|panic| {
        // Whether the parent listens or not, there is nothing else to do.
        let _ = children::at(&format!("{}\0{panic}", ROW.lock().map(|row| row.clone()).unwrap_or_default()));
    }));
    children::serve(|question| examine(&serde_json::from_str(question)?))
}

/// The row that is being run, for messages about panics.
static ROW: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());

fn enter(row: &str) -> anyhow::Result<()> {
    if let Ok(mut current) = ROW.lock() {
        *current = row.to_string();
    }
    children::at(row)
}

/// Runs a program under the oracle and under each row.
///
/// # Errors
/// If a row is no heap configuration.
fn examine(question: &Question) -> anyhow::Result<Verdict> {
    let wasm = question.wasm()?;
    enter(ORACLE)?;
    let oracle = run(&wasm, ORACLE, false)?;
    if question.verbose {
        eprintln!("seed {}: {} bytes: {oracle:#?}", question.seed, wasm.len());
    }
    let mut calls = Calls::default();
    for call in &oracle {
        match &call.outcome {
            Outcome::Value(_) => calls.returned += 1,
            Outcome::Trap(_) => calls.trapped += 1,
            Outcome::Exception => calls.threw += 1,
            Outcome::Exhausted(_) => calls.exhausted += 1,
            Outcome::Failure(what) => {
                return Ok(Verdict::Different { row: ORACLE.to_string(), what: what.clone() });
            }
        }
    }
    for row in &question.rows {
        enter(row)?;
        if let Some(what) = difference(&run(&wasm, row, true)?, &oracle) {
            return Ok(Verdict::Different { row: row.clone(), what });
        }
    }
    Ok(Verdict::Same(calls))
}

/// A child that is started when it is needed, and again after it has ended.
#[derive(Default)]
pub struct Examiner {
    child: Option<Child<Verdict>>,
}

impl Examiner {
    /// Has a child examine a program.
    ///
    /// # Errors
    /// If a child cannot be started, or gave up because of an error of the harness, which it has printed.
    pub fn ask(&mut self, question: &Question, limit: Duration) -> anyhow::Result<Verdict> {
        let child = match &mut self.child {
            Some(child) => child,
            None => self.child.insert(Child::start(["fuzz-collections", "--child"])?),
        };
        Ok(match child.ask(&serde_json::to_string(question)?, limit)? {
            Reply::Answer(verdict) => verdict,
            Reply::Ended { what, at } => {
                self.child = None;
                let (row, panic) = at.split_once('\0').unwrap_or((&at, ""));
                Verdict::Different { row: row.to_string(), what: format!("{what} {panic}") }
            }
        })
    }
}
