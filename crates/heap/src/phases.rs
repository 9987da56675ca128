//! What the time of a collection is spent on.

use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// How long each part of a pause took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PhaseTimes {
    /// Visiting the roots: frames, globals, tables, host handles, with what was copied at once.
    pub roots: Duration,
    /// Visiting remembered objects and cards.
    pub remembered: Duration,
    /// Copying and scanning young objects.
    pub evacuate: Duration,
    /// In a cycle: visiting the roots that are visited at once as it begins.
    pub snapshot: Duration,
    /// In a cycle: visiting the roots that are visited in slices.
    pub slots: Duration,
    /// Marking.
    pub mark: Duration,
    /// In a cycle: the end of marking.
    pub terminate: Duration,
    /// In a cycle: clearing weak references, and dropping dead host values.
    pub values: Duration,
    /// In a cycle: having roots lead to objects, not to old copies.
    pub heal: Duration,
    /// Sweeping, as far as it is not lazy, and freeing large objects.
    pub sweep: Duration,
    /// In a cycle: moving objects out of blocks that are to be emptied.
    pub defragment: Duration,
    /// Returning memory to the operating system.
    pub release: Duration,
}

impl PhaseTimes {
    /// Each part with its name.
    pub fn named(&self) -> [(&'static str, Duration); 12] {
        [
            ("roots", self.roots),
            ("remembered", self.remembered),
            ("evacuate", self.evacuate),
            ("snapshot", self.snapshot),
            ("slots", self.slots),
            ("mark", self.mark),
            ("terminate", self.terminate),
            ("values", self.values),
            ("heal", self.heal),
            ("sweep", self.sweep),
            ("defragment", self.defragment),
            ("release", self.release),
        ]
    }

    /// Adds what a slice took.
    pub fn add(&mut self, phase: Phase, duration: Duration) {
        *match phase {
            Phase::Evacuate => &mut self.evacuate,
            Phase::Roots => &mut self.roots,
            Phase::Snapshot => &mut self.snapshot,
            Phase::Slots => &mut self.slots,
            Phase::Mark => &mut self.mark,
            Phase::Terminate => &mut self.terminate,
            Phase::Values => &mut self.values,
            Phase::Heal => &mut self.heal,
            Phase::Sweep => &mut self.sweep,
            Phase::Defragment => &mut self.defragment,
            Phase::Release => &mut self.release,
        } += duration;
    }
}

/// What a slice of a collection was spent on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Phase {
    /// A nursery collection as a whole.
    Evacuate,
    /// Visiting the roots, all at once.
    Roots,
    /// The beginning of a cycle: visiting the roots that have no barrier, such as frames.
    Snapshot,
    /// Visiting the roots that have one, such as globals and tables.
    Slots,
    /// Marking.
    Mark,
    /// The end of marking: what a barrier has recorded to the last.
    Terminate,
    /// Clearing weak references, and dropping dead host values.
    Values,
    /// Having roots lead to objects, not to old copies.
    Heal,
    /// Sweeping, as far as it is not lazy.
    Sweep,
    /// Moving objects out of blocks that are to be emptied.
    Defragment,
    /// Returning memory to the operating system.
    Release,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Phase::Evacuate => "evacuate",
            Phase::Roots => "roots",
            Phase::Snapshot => "snapshot",
            Phase::Slots => "slots",
            Phase::Mark => "mark",
            Phase::Terminate => "terminate",
            Phase::Values => "values",
            Phase::Heal => "heal",
            Phase::Sweep => "sweep",
            Phase::Defragment => "defragment",
            Phase::Release => "release",
        })
    }
}
