//! What becomes of free handles: the configurations of Handles Revisited, table 8, under uni-sized handles, over the
//! paper's best one. Beside each name stands the paper's time over that, on its platform B.
//!
//! `Norebuild` is not among them: here nothing is threaded through free handles, and what the paper rebuilds into the
//! order of addresses is never in another.

use super::Options;
use crate::heaps::{Comparison, Configuration};

/// A configuration: its name in the paper, its options, and the paper's geometric mean over `Indep`.
const POLICIES: [(&str, &str, f64); 9] = [
    ("Indep", "handle-release=independent,handle-cache=some", 1.0),
    ("IndepNopreinit", "handle-release=independent,handle-cache=none", 1.006),
    ("IndepMaxpreinit", "handle-release=independent,handle-cache=all", 1.009),
    ("Noindep", "handle-release=with-cells,handle-order=fullest,handle-cache=some", 1.059),
    ("NoindepNopreinit", "handle-release=with-cells,handle-order=fullest,handle-cache=none", 1.059),
    ("NoindepMaxpreinit", "handle-release=with-cells,handle-order=fullest,handle-cache=all", 1.067),
    ("NoindepNosort", "handle-release=with-cells,handle-order=released,handle-cache=some", 1.056),
    ("NoindepRevsort", "handle-release=with-cells,handle-order=emptiest,handle-cache=some", 1.051),
    ("NaiveRelease", "handle-release=naive", 1.261),
];

/// The policies, and the usual ones.
pub(super) fn comparison(parameters: &str, options: &Options) -> Comparison {
    let heap = |name: String, own: &str| {
        let own = format!("collector=realtime,references=uni-handles,{own},{parameters}");
        Configuration::new(name, &own, &options.turns.heap)
    };
    let mut policies = POLICIES.map(|(name, own, paper)| heap(format!("{name} (paper {paper:.3})"), own)).into_iter();
    let baseline = policies.next().expect("there is one");
    let others = policies.chain([heap("the usual ones".into(), "")]).collect();
    Comparison { experiment: "policies of the handle space".into(), baseline, others }
}
