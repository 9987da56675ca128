//! Containers: groups without swap, in which the kernel kills whoever takes too much.

use super::group::Limit;
use super::runs::{End, Outcome};
use super::subject::{BASE, BOTH, Bench};
use crate::tables::{Report, Row, Table, Unit, Verdict};

/// The group's memory over what lives.
const ROOM: f64 = 1.5;
/// A container has so many bytes at least: a process that runs nothing takes some, too.
const LEAST: u64 = 16 << 20;

/// Adds how runs of each program end in a container, with the default rule and with Isla Vista by turns.
pub(super) fn measure(bench: &Bench<'_>, report: &mut Report) {
    let columns = [("lives", Unit::Megabytes), ("container", Unit::Megabytes), ("runs", Unit::Count)];
    let ends = [("killed", Unit::Count), ("out of memory, or late", Unit::Count), ("peak over container", Unit::Ratio)];
    let columns = columns.into_iter().chain(ends).map(|(name, unit)| (name.to_string(), unit)).collect();
    let caption = format!("{ROOM} of what lives in the heap, without swap, max=auto");
    let mut table = Table::new("containers", caption, columns);
    let mut killed = 0.0;
    for program in bench.options.programs() {
        eprintln!("pressure: {} in containers ...", program.title());
        let subject = match bench.subject(program) {
            Ok(subject) => subject,
            Err(error) => {
                table.rows.push(Row::failed(program.title(), &error));
                continue;
            }
        };
        if let Some(why) = bench.refusal(&subject) {
            report.notes.push(why);
            continue;
        }
        let container = ((subject.live as f64 * ROOM) as u64).max(LEAST);
        let rules = [BASE, BOTH].into_iter().cycle().take(bench.options.runs);
        let runs: anyhow::Result<Vec<Outcome>> =
            rules.map(|rule| bench.run(&subject, rule, None, Limit::WithoutSwap(container))).collect();
        table.rows.push(match runs {
            Ok(runs) => {
                let ends = ends_of(&runs);
                killed += ends[0];
                let peaks = runs.iter().map(|run| run.peak as f64 / container as f64).collect();
                let figures = [subject.live as f64, container as f64, runs.len() as f64].into_iter().chain(ends);
                let single = figures.map(|figure| vec![figure]);
                Row::new(&subject.title, single.chain([peaks]).collect())
            }
            Err(error) => Row::failed(&subject.title, &error),
        });
    }
    report.verdicts.push(Verdict { what: "runs killed by the kernel = 0".into(), value: killed, met: killed == 0.0 });
    report.tables.push(table);
}

/// How many runs the kernel has killed, and how many have failed otherwise or took too long.
fn ends_of(runs: &[Outcome]) -> [f64; 2] {
    let count = |is: fn(&Outcome) -> bool| runs.iter().filter(|run| is(run)).count() as f64;
    [count(|run| run.kills > 0), count(|run| run.kills == 0 && !matches!(run.end, End::Finished(_)))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_no_other_failure() {
        let run = |end: End, kills| Outcome { end, major_faults: 0, peak: 0, kills };
        let failed = || End::Failed("why".into());
        assert_eq!(ends_of(&[run(failed(), 1), run(failed(), 0), run(End::OutOfTime(1.0), 0)]), [1.0, 2.0]);
    }
}
