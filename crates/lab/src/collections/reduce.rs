//! Failing programs made smaller.

use super::child::{Examiner, Question, Verdict};
use super::program;
use std::time::Duration;

/// Leaves out steps as long as the program still fails under its row. Returns the smaller program, and what it does.
///
/// # Errors
/// If a child process cannot be started.
pub fn reduce(question: &Question, limit: Duration) -> anyhow::Result<(Question, Option<String>)> {
    let mut examiner = Examiner::default();
    let mut smallest = question.clone();
    let mut failure = None;
    let mut part = usize::MAX;
    loop {
        let mut steps = smallest.steps();
        program::generate(smallest.seed, &mut steps);
        part = part.min(steps.taken.len().div_ceil(2)).max(1);
        let mut smaller = false;
        // From the end: what comes last is most often what no longer matters once it failed.
        for part in steps.taken.rchunks(part) {
            let mut attempt = smallest.clone();
            attempt.dropped.extend(part);
            if let Verdict::Different { what, .. } = examiner.ask(&attempt, limit)? {
                smallest = attempt;
                failure = Some(what);
                smaller = true;
            }
        }
        if part == 1 && !smaller {
            return Ok((smallest, failure));
        }
        part = if smaller { part } else { part / 2 };
    }
}
