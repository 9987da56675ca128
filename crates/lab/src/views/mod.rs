//! What host code pays for an array as one slice: the experiments of A Guide to Double Map Arraylets on this machine.
//!
//! * `access`: the array of 8,484,144 doubles in leaves of 512 KiB, under `native-views=double-map` against `copy`. The
//!   source compares JNI Critical, which copies in and out, with the mapped access ("Linux Experiments"): that is the
//!   first row. The others add the writing of every element, and what it costs to make the view.
//! * `mechanism`: experiments 1 to 8, in which the system's calls are compared without a heap: reserve, map, modify and
//!   unmap against copy out, modify and copy back.

mod access;
#[cfg(target_os = "linux")]
mod mechanism;

use crate::report::Report;
use anyhow::ensure;

/// What to measure, and how often.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Runs of either side, in turns.
    #[arg(long, default_value_t = 20)]
    pub pairs: usize,
    /// Small arrays and few leaves: to see that everything works.
    #[arg(long)]
    pub smallest: bool,
    /// Further options of Legato's heap: see `legato run --help`.
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,...")]
    pub heap: Vec<String>,
    /// Print the report as JSON, all runs included.
    #[arg(long)]
    pub json: bool,
}

/// Measures everything.
///
/// # Errors
/// If an option is wrong.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    ensure!(options.pairs > 0, "--pairs must be at least 1");
    let version = env!("CARGO_PKG_VERSION");
    let mut report = Report::new(format!("double-map (legato {version})"), format!("copy (legato {version})"));
    access::measure(options, &mut report)?;
    #[cfg(target_os = "linux")]
    mechanism::measure(options, &mut report);
    #[cfg(not(target_os = "linux"))]
    report.notes.push("experiments 1 to 8 need a file in memory, which only Linux is known to have".into());
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured() {
        let options = Options { pairs: 2, smallest: true, heap: vec!["verify=on".into()], json: false };
        let report = run(&options).unwrap();
        for row in &report.rows {
            assert!(row.error.is_none(), "{}: {:?}", row.subject, row.error);
            assert!(row.a.unwrap() > 0.0 && row.b.unwrap() > 0.0, "{}", row.subject);
        }
        assert_eq!(report.rows.len(), if cfg!(target_os = "linux") { 5 + 16 } else { 5 });
        assert!(run(&Options { heap: vec!["colour=red".into()], ..options }).is_err());
    }
}
