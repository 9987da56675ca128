//! The heaps of each comparison.

use super::Options;
use crate::engines::Legato;
use crate::tables::Row;
use legato_test_matrix::measured;

/// A heap, and what it must satisfy.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Name for tables.
    pub name: String,
    /// Its options, each `KEY=VALUE`.
    pub heap: Vec<String>,
    /// Bound on the geometric mean of the programs' times over the baseline's.
    pub mean: Option<f64>,
    /// Bound, from below, on the speed of `array.copy` over that of `memcpy`.
    pub copy: Option<f64>,
    /// Whether it is to save as much of the heap as in the paper.
    pub saves: bool,
}

/// Heaps over one other.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the experiment.
    pub experiment: String,
    /// What the others are compared with.
    pub baseline: Configuration,
    /// In the order of the table.
    pub others: Vec<Configuration>,
}

/// A parameter of z-rays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sweep {
    /// Bytes of a leaf, 2^8 to 2^16.
    Leaf,
    /// Bytes in the spine, 2^6 to 2^18.
    FirstN,
}

/// What is measured of an array layout under this name: see the test matrix.
fn layout(name: &str) -> &'static str {
    let layout = measured("arrays").find(|layout| layout.name == name);
    layout.unwrap_or_else(|| panic!("no layout is called '{name}'")).settings
}

/// The paper's Perf Z-ray (section 7.1.1), whose first bytes are fixed.
fn paper() -> &'static str {
    layout("zrays, fixed first-n")
}

/// The paper's Z-ray.
fn paper_with_all() -> &'static str {
    layout("the same, copy-on-write")
}

impl Configuration {
    /// A heap of these options, separated by commas, followed by those for all heaps.
    fn new(name: impl Into<String>, own: &str, options: &Options) -> Configuration {
        let own = own.split(',').map(str::trim).filter(|option| !option.is_empty()).map(String::from);
        let heap = own.chain(options.heap.iter().cloned()).collect();
        Configuration { name: name.into(), heap, mean: None, copy: None, saves: false }
    }

    /// A heap of which nothing is demanded.
    #[cfg(test)]
    pub(super) fn plain(name: &str, heap: &[&str]) -> Configuration {
        let heap = heap.iter().map(|option| option.to_string()).collect();
        Configuration { name: name.into(), heap, mean: None, copy: None, saves: false }
    }

    /// The same heap with further options.
    pub(super) fn with(&self, options: &[&str]) -> Configuration {
        let mut result = self.clone();
        result.heap.extend(options.iter().map(|option| option.to_string()));
        result
    }
}

/// A layout with what is demanded of it: of those without a target, nothing.
fn demanding(layout: Configuration) -> Configuration {
    match layout.name.as_str() {
        "contiguous" => Configuration { copy: Some(0.9), ..layout },
        "zrays" => Configuration { mean: Some(1.03), copy: Some(0.7), saves: true, ..layout },
        "zrays, copy-on-write" => Configuration { mean: Some(1.04), copy: Some(0.7), saves: true, ..layout },
        "mapped" => Configuration { mean: Some(1.01), copy: Some(0.9), ..layout },
        _ => layout,
    }
}

impl Comparison {
    /// The paper's z-rays, with accesses counted: without and with copy-on-write.
    pub(super) fn counted(options: &Options) -> [Vec<String>; 2] {
        [paper(), paper_with_all()].map(|heap| Configuration::new("", heap, options).with(&["count-accesses=on"]).heap)
    }

    /// Every layout over contiguous arrays, or what the options name instead.
    pub fn layouts(options: &Options) -> Comparison {
        let new = |name: &str, own: &str| Configuration::new(name, own, options);
        let mut usual = measured("arrays").map(|layout| demanding(new(layout.name, layout.settings)));
        let contiguous = usual.next().expect("contiguous arrays are the first value");
        Comparison {
            experiment: "layouts".into(),
            baseline: options.baseline.as_deref().map_or(contiguous, |own| new(own, own)),
            others: match options.configuration.as_slice() {
                [] => usual.collect(),
                given => given.iter().map(|own| new(own, own)).collect(),
            },
        }
    }

    /// The paper's z-rays with every value of a parameter, over contiguous arrays.
    pub fn sweep(sweep: Sweep, options: &Options) -> Comparison {
        let (experiment, key, sizes) = match sweep {
            Sweep::Leaf => ("leaf (figure 6)", "leaf", 8..=16),
            Sweep::FirstN => ("first-n (figure 7)", "first-n", 6..=18),
        };
        // A later option takes the place of an earlier one.
        let at = |log2: u32| {
            let setting = format!("{key}={}", 1u32 << log2);
            Configuration::new(setting.clone(), &format!("{},{setting}", paper()), options)
        };
        let baseline = Comparison::layouts(options).baseline;
        Comparison { experiment: experiment.into(), baseline, others: sizes.map(at).collect() }
    }

    /// The paper's z-rays with one optimisation less, over those with all of them; and with the first bytes that grow
    /// besides.
    pub fn ablation(options: &Options) -> Comparison {
        let without = |name: &str, setting: &str| {
            Configuration::new(format!("without {name}"), &format!("{},{setting}", paper_with_all()), options)
        };
        Comparison {
            experiment: "optimisations (figure 5)".into(),
            baseline: Configuration::new("zrays with all", paper_with_all(), options),
            others: vec![
                without("first-n", "first-n=0"),
                without("lazy", "lazy=off"),
                without("zero-compression", "zero-compression=off"),
                without("fast-copy", "fast-copy=off"),
                without("copy-on-write", "copy-on-write=off"),
                Configuration::new("with growing first-n", layout("zrays, copy-on-write"), options),
            ],
        }
    }

    /// The heaps that there are, and a row for each that there is not: because of an unknown option, for instance.
    pub(super) fn usable(&self) -> (Vec<&Configuration>, Vec<Row>) {
        let (mut usable, mut failed) = (Vec::new(), Vec::new());
        for configuration in self.all() {
            match Legato::new(&configuration.heap) {
                Ok(_) => usable.push(configuration),
                Err(error) => failed.push(Row::failed(&configuration.name, &error)),
            }
        }
        (usable, failed)
    }

    /// The baseline, then the others.
    pub(super) fn all(&self) -> impl Iterator<Item = &Configuration> {
        std::iter::once(&self.baseline).chain(&self.others)
    }
}
