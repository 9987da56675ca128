//! Axis `collector`: when memory is reclaimed, and how.
//!
//! A collector is a folder here. What it says of itself are its `Attributes`, what a heap asks of it is `Collect`;
//! which heaps there are, by collector and reference model, says the table in `heap`.

pub(crate) mod attributes;
pub(crate) mod chunked_stack;
mod collect;
pub(crate) mod cycle;
pub(crate) mod defragment;
pub(crate) mod delay;
#[cfg(test)]
mod exhaustion;
pub mod generational;
mod healing;
pub(crate) mod helper;
mod ledger;
pub(crate) mod mark_sweep;
pub(crate) mod marking;
#[cfg(test)]
mod pieces;
pub(crate) mod realtime;
pub(crate) mod replicas;
pub mod schedule;
pub(crate) mod snapshot;
mod sweeping;
#[cfg(test)]
mod tests;

pub(crate) use collect::Collect;

use attributes::Attributes;
use generational::params::GenerationalParams;
use mark_sweep::attributes::MarkSweepAttributes;
use realtime::attributes::RealtimeAttributes;
use schedule::CycleParams;
use snapshot::attributes::SnapshotAttributes;

crate::values::values! {
    /// The values of the axis.
    #[derive(Eq, Hash)]
    pub enum Collector {
        /// Stops the mutator, marks everything reachable, sweeps lazily, moves nothing.
        MarkSweep = "mark-sweep",
        /// Allocates in a nursery, whose survivors are copied into a mature space that is marked and swept.
        Generational(GenerationalParams) = "generational",
        /// Marks and sweeps in slices, between which the mutator runs; moves nothing.
        Realtime(CycleParams) = "realtime",
        /// For tests: as mark-sweep, with a snapshot barrier, which it checks.
        Snapshot = "snapshot",
    }
}

impl Collector {
    /// What the collector says of itself.
    pub(crate) fn attributes(&self) -> &dyn Attributes {
        match self {
            Collector::MarkSweep => &MarkSweepAttributes,
            Collector::Generational(params) => params,
            Collector::Realtime(_) => &RealtimeAttributes,
            Collector::Snapshot => &SnapshotAttributes,
        }
    }

    /// Whether it is of no use but to test others: nothing recommends it.
    pub(crate) fn is_for_tests(self) -> bool {
        self == Collector::Snapshot
    }
}
