//! What the tables say.

use super::runs::{Contestant, Sample};
use crate::tables::{Row, Table, Unit};
use legato_heap::Zeroing;

/// A table for rows made by [`total`].
pub(super) fn total_table(experiment: &str, contestants: &[Contestant]) -> Table {
    let mut columns = vec![("bulk".to_string(), Unit::Seconds)];
    let others = contestants.iter().filter(|contestant| contestant.zeroing != Zeroing::Bulk);
    columns.extend(others.map(|contestant| (contestant.zeroing.name().to_string(), Unit::Ratio)));
    let caption = "time of the program under bulk zeroing; times under the other strategies over it".to_string();
    Table::new(experiment, caption, columns)
}

/// Whether not all zeroing is the mutator's.
fn has_helper(zeroing: Zeroing) -> bool {
    matches!(zeroing, Zeroing::Concurrent(_) | Zeroing::Adaptive(_))
}

/// A table for rows made by [`cost`].
pub(super) fn cost_table(experiment: &str, contestants: &[Contestant]) -> Table {
    let mut columns = Vec::new();
    for contestant in contestants {
        let name = contestant.zeroing.name();
        columns.extend(match contestant.zeroing {
            Zeroing::HotPath => vec![],
            zeroing if has_helper(zeroing) => {
                vec![(format!("{name}: all"), Unit::Share), (format!("{name}: mutator"), Unit::Share)]
            }
            _ => vec![(name.to_string(), Unit::Share)],
        });
    }
    let caption = "time spent on zeroing over processor time (user's and system's) of the whole run; inline zeroing \
                   (hot-path) cannot be told apart: see its total time"
        .to_string();
    Table::new(experiment, caption, columns)
}

/// A row of [`total_table`]. The samples are those of every strategy in the order of [`Zeroing::ALL`].
pub(super) fn total(subject: &str, samples: &anyhow::Result<Vec<Vec<Sample>>>) -> Row {
    let samples = match samples {
        Ok(samples) => samples,
        Err(error) => return Row::failed(subject, error),
    };
    let walls = |zeroing: usize| samples[zeroing].iter().map(|sample| sample.wall);
    let bulk = Zeroing::ALL.iter().position(|&zeroing| zeroing == Zeroing::Bulk).expect("bulk is a strategy");
    let others = (0..samples.len()).filter(|&index| index != bulk);
    let mut runs = vec![walls(bulk).collect()];
    runs.extend(others.map(|index| walls(index).zip(walls(bulk)).map(|(other, bulk)| other / bulk).collect()));
    Row::new(subject, runs)
}

/// A row of [`cost_table`]. The samples are as for [`total`].
pub(super) fn cost(subject: &str, samples: &anyhow::Result<Vec<Vec<Sample>>>) -> Row {
    let samples = match samples {
        Ok(samples) => samples,
        Err(error) => return Row::failed(subject, error),
    };
    let share = |samples: &[Sample], part: fn(&Sample) -> f64| {
        samples.iter().map(|sample| part(sample) / sample.processor).collect::<Vec<f64>>()
    };
    let mut runs = Vec::new();
    for (&zeroing, samples) in Zeroing::ALL.iter().zip(samples) {
        if zeroing != Zeroing::HotPath {
            runs.push(share(samples, |sample| sample.zeroing + sample.helper));
        }
        if has_helper(zeroing) {
            runs.push(share(samples, |sample| sample.zeroing));
        }
    }
    Row::new(subject, runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Report;

    fn samples() -> Vec<Vec<Sample>> {
        // Under the strategies in their order: 1 s, 2 s, 3 s and so on, a tenth of it zeroing, half of that by the
        // helper.
        let sample = |seconds: f64| Sample {
            wall: seconds,
            processor: seconds,
            zeroing: seconds * 0.05,
            helper: seconds * 0.05,
        };
        (1..=Zeroing::ALL.len()).map(|seconds| vec![sample(seconds as f64); 3]).collect()
    }

    #[test]
    fn columns_and_cells_belong_together() {
        let contestants = Contestant::all(&[]).unwrap();
        let names = contestants.iter().map(|contestant| contestant.zeroing.name());
        assert!(names.eq(Zeroing::ALL.iter().map(|zeroing| zeroing.name())));
        let (mut totals, mut costs) = (total_table("total", &contestants), cost_table("cost", &contestants));
        totals.rows.push(total("x", &Ok(samples())));
        costs.rows.push(cost("x", &Ok(samples())));
        totals.rows.push(total("y", &Err(anyhow::anyhow!("why"))));
        for table in [&mut totals, &mut costs] {
            table.conclude();
            assert!(table.rows[..1].iter().chain(&table.summary).all(|row| row.cells.len() == table.columns.len()));
        }
        let medians = |row: &Row| row.cells.iter().map(|cell| cell.median).collect::<Vec<f64>>();
        assert_eq!(medians(&totals.rows[0]), [2.0, 0.5, 1.5, 2.0, 2.5], "bulk, then the others over it");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let shares = medians(&costs.rows[0]);
        assert!(shares.iter().zip([0.1, 0.1, 0.1, 0.05, 0.1, 0.05]).all(|(&a, b)| near(a, b)), "{shares:?}");
        let text = totals.to_string() + &costs.to_string();
        assert!(text.contains("failed: why") && text.contains("10.00 %") && text.contains("2.000 s"), "{text}");
        let report = Report { tables: vec![totals, costs], ..Report::new(10) };
        assert!(!report.is_complete());
        serde_json::to_string(&report).unwrap();
    }
}
