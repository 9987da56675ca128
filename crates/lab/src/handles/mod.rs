//! What reference models cost and save: the experiments of Handles Revisited (section 6) on this machine.
//!
//! * `programs`: the examples that live on objects, under each model over Brooks forwarding: time (tables 2 and 3), and
//!   peak memory.
//! * `tables`: the paper's tables 2 to 7 in one, over replication, each figure beside the paper's.
//! * `counters`: cycles, what the collector takes of the time, what it moves (tables 4 to 6), and what handles occupy.
//! * `fragmentation`: what is left of a heap of which most has been freed at random.
//!
//! * `policies`: what becomes of free handles, under uni-sized handles (table 8), what they occupy, and how much of
//!   that is in use (figure 3).
//!
//! Each with the parameters that a user has by default, and, but for the first, with the paper's: then each program's
//! heap has one size under all models.

mod counters;
mod equal;
mod fragmentation;
mod paper;
mod policies;
mod runs;

use crate::heaps::{self, Comparison, Configuration, Runs};
use crate::programs::{PROGRAMS, Program};
use crate::tables::Report;
use crate::turns::Turns;
use legato_heap::references::References;

/// The paper's parameters (section 5.1), but for the heap's size, which each program has its own of.
const PAPER: &str = "quantum=500us,utilisation=70,window=10ms,trigger=half,defragment=eager,helpers=0,\
                     arrays=arraylets,leaf=2K,lazy=off";

/// What to measure, and how often. Without a choice of experiments it is the programs with the usual parameters.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// With the paper's parameters, in place of the usual ones, and with a heap of three times what lives in the
    /// program, the same under all models. Means the tables, where nothing else is asked for.
    #[arg(long)]
    pub paper: bool,
    /// Cycles, the collector's time, what is moved, what handles occupy.
    #[arg(long)]
    pub counters: bool,
    /// The paper's tables 2 to 7 in one, over replication, each figure beside the paper's; all runs in one process.
    #[arg(long)]
    pub tables: bool,
    /// A heap of which most is freed at random: what compaction gives back.
    #[arg(long)]
    pub fragmentation: bool,
    /// The policies of the handle space, in place of the models: the paper's table 8 and figure 3, all runs in one
    /// process.
    #[arg(long)]
    pub policies: bool,
    /// Which programs, and how often.
    #[command(flatten)]
    pub turns: Turns,
}

impl Options {
    fn runs(&self) -> Runs<'_> {
        Runs { examples: &self.turns.examples, pairs: self.turns.pairs, smallest: self.turns.smallest }
    }

    fn parameters(&self) -> &'static str {
        if self.paper { PAPER } else { "" }
    }

    fn whose_parameters(&self) -> &'static str {
        if self.paper { "the paper's" } else { "the usual" }
    }

    /// The options for the size of a program's heap: none where each heap finds its own.
    ///
    /// # Errors
    /// If the size is to be the same for all, and the program does not run.
    fn size(&self, program: &Program) -> anyhow::Result<Vec<String>> {
        if self.paper { equal::heap(program, self).map(Vec::from) } else { Ok(Vec::new()) }
    }

    fn wants_tables(&self) -> bool {
        self.tables || self.paper && !self.counters && !self.policies && !self.fragmentation
    }

    /// A heap with this model.
    fn model(&self, name: &str) -> Configuration {
        let own = format!("collector=realtime,references={name},{}", self.parameters());
        // Nothing can be moved there, however eagerly.
        let own = if name == References::Direct.name() { own.replace("defragment=eager,", "") } else { own };
        Configuration::new(name, &own, &self.turns.heap)
    }

    /// The heaps: Brooks forwarding, and every other model.
    fn models(&self) -> Comparison {
        let heap = |model: &References| self.model(model.name());
        let (baseline, others) = References::ALL.iter().partition(|&&model| model == References::Brooks);
        let [baseline, others]: [Vec<&References>; 2] = [baseline, others];
        Comparison {
            experiment: format!("{} parameters", self.whose_parameters()),
            baseline: heap(baseline[0]),
            others: others.into_iter().map(heap).map(demanding).collect(),
        }
    }
}

/// A model with what is demanded of it over Brooks forwarding.
fn demanding(model: Configuration) -> Configuration {
    match model.name.as_str() {
        "uni-handles" => Configuration { mean: Some(1.0), ..model },
        _ => model,
    }
}

/// Measures what the options ask for. What cannot be measured becomes a row with its error.
///
/// # Errors
/// If an option is wrong, or there is no place for files.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    options.turns.check()?;
    let mut report = Report::new(options.turns.pairs);
    let models = options.models();
    let alone = options.fragmentation && !options.counters && !options.policies && !options.wants_tables();
    let programs = if alone { Vec::new() } else { options.turns.wanted(PROGRAMS.iter())? };
    if options.wants_tables() {
        paper::measure(&programs, options, &mut report);
    }
    if options.policies {
        policies::measure(&programs, options, &mut report);
    }
    if !options.counters && !options.fragmentation && !options.policies && !options.wants_tables() {
        heaps::compare(&models, &programs, &options.runs(), &mut report)?;
    }
    if options.counters {
        counters::count(&models, &programs, options, &mut report);
    }
    if options.fragmentation {
        fragmentation::measure(&models, options.turns.smallest, &mut report);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::Legato;

    fn options(counters: bool, fragmentation: bool, paper: bool) -> Options {
        Options {
            paper,
            counters,
            tables: false,
            fragmentation,
            policies: false,
            turns: Turns {
                pairs: 1,
                filter: Vec::new(),
                examples: "nowhere".into(),
                smallest: true,
                heap: Vec::new(),
                json: false,
            },
        }
    }

    #[test]
    fn every_model_is_a_heap_with_either_parameters() {
        for paper in [false, true] {
            let models = options(false, false, paper).models();
            let (usable, failed) = models.usable();
            assert_eq!((usable.len(), failed.len()), (References::ALL.len(), 0));
        }
    }

    #[test]
    fn every_policy_is_a_heap() {
        for paper in [false, true] {
            let heaps = policies::heaps(&options(false, false, paper));
            assert_eq!(heaps.iter().filter(|heap| Legato::new(&heap.heap).is_ok()).count(), 10);
        }
    }

    /// A heap that compacts has little more than what lives in it; one that does not has kept most blocks.
    #[test]
    fn compaction_gives_memory_back() {
        let report = run(&options(false, true, false)).unwrap();
        let table = &report.tables[0];
        for row in &table.rows {
            let [live, used, handles] = [0, 3, 4].map(|column| row.runs[column][0]);
            let used = (used - handles) / live;
            assert_eq!(used < 1.25, row.subject != "direct", "{} uses {used} times what lives", row.subject);
        }
        assert_eq!(table.rows.len(), References::ALL.len());
    }

    #[test]
    fn what_cannot_be_run_is_a_row_with_its_reason() {
        let report = run(&options(true, false, false)).unwrap();
        assert!(!report.is_complete());
    }
}
