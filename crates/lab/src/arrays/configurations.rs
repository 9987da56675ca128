//! The heaps of each comparison.

use super::Options;
use crate::heaps::{Comparison, Configuration};
use legato_test_matrix::measured;

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

/// A heap of these options, separated by commas, followed by those for all heaps.
fn configuration(name: impl Into<String>, own: &str, options: &Options) -> Configuration {
    Configuration::new(name, own, &options.turns.heap)
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
        [paper(), paper_with_all()].map(|heap| configuration("", heap, options).with(&["count-accesses=on"]).heap)
    }

    /// Every layout over contiguous arrays, or what the options name instead.
    pub fn layouts(options: &Options) -> Comparison {
        let new = |name: &str, own: &str| configuration(name, own, options);
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
            configuration(setting.clone(), &format!("{},{setting}", paper()), options)
        };
        let baseline = Comparison::layouts(options).baseline;
        Comparison { experiment: experiment.into(), baseline, others: sizes.map(at).collect() }
    }

    /// The paper's z-rays with one optimisation less, over those with all of them; and with the first bytes that grow
    /// besides.
    pub fn ablation(options: &Options) -> Comparison {
        let without = |name: &str, setting: &str| {
            configuration(format!("without {name}"), &format!("{},{setting}", paper_with_all()), options)
        };
        Comparison {
            experiment: "optimisations (figure 5)".into(),
            baseline: configuration("zrays with all", paper_with_all(), options),
            others: vec![
                without("first-n", "first-n=0"),
                without("lazy", "lazy=off"),
                without("zero-compression", "zero-compression=off"),
                without("fast-copy", "fast-copy=off"),
                without("copy-on-write", "copy-on-write=off"),
                configuration("with growing first-n", layout("zrays, copy-on-write"), options),
            ],
        }
    }
}
