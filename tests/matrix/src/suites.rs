//! What each suite runs under.
//!
//! Of the hundred thousand combinations of a suite a few dozen are chosen, which takes a second: so the choice is kept
//! under `rows/`, a row in each line. The tests of this crate make it anew and compare.

use crate::row::Row;
#[cfg(test)]
use crate::{
    axes::{AXES, Axis, Value},
    cover::{cover, own},
};

/// All pairs of all axes, sized for some tests.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// The nursery where its size is fixed.
    pub nursery: &'static str,
    /// The maximum where the heap grows to it, or may: one that the programs come to. (Verification walks the whole
    /// nursery, which may be half of the heap.)
    pub max: &'static str,
    /// Axes, and values of axes, that make no difference to what the suite can see, or take more time than they are
    /// worth there.
    pub without: &'static [&'static str],
    /// Settings of all rows.
    pub settings: &'static str,
    /// What takes part in the pairs like the values of an axis: whether the heap is verified, and how often it
    /// collects.
    pub modes: &'static [&'static str],
    /// Rows besides, with the parameters that a user has by default.
    pub first: &'static [&'static str],
    /// What [`made`](Suite::made) makes, a row in each line.
    pub(crate) kept: &'static str,
}

/// The official suite: many modules that allocate little.
pub const OFFICIAL: Suite = Suite {
    nursery: "nursery=64K",
    max: "max=4M",
    without: &[],
    settings: "min=256K",
    modes: &["verify=on,stress=7", "verify=on,stress=5,stress-polls=on", "verify=on"],
    first: &["verify=on", "arrays=zrays,verify=on"],
    kept: include_str!("../rows/official.txt"),
};

/// The example programs. Verification walks the whole heap: it is checked where as much was allocated as lives, and a
/// smaller nursery, or collections more often, would make the tests slow, not sharper. (The other suites check at each
/// collection.) The counts of allocations are primes, so that collections do not fall in step with a program's loops.
pub const PROGRAMS: Suite = Suite {
    nursery: "nursery=8M",
    max: "max=64M",
    // No host looks at their arrays, and leaves of whole pages would be most of their memory. The snapshot collector
    // traces the heap again and again. Slices come by time in most rows. Policies of the handle space make no
    // difference to a program, and have tests of their own.
    without: &["native-views", "view-creation", "count-accesses", "collector=snapshot", "schedule", "handle-policies"],
    settings: "min=2M,verify-after=100",
    modes: &["verify=on", "verify=on,stress=150011"],
    // Collections more often where each is cheap, and slices that come by work.
    first: &[
        "collector=mark-sweep,min=2M,verify=on,verify-after=100,stress=40009",
        "collector=mark-sweep,references=thin-handles,min=2M,verify=on,verify-after=100,stress=40009",
        "schedule=work,nursery=1M,barrier=cards,aging=25,min=2M,verify=on,verify-after=100,stress=40009",
        "collector=realtime,schedule=work,min=2M,verify=on,verify-after=100",
    ],
    kept: include_str!("../rows/programs.txt"),
};

/// Generated programs that allocate much in little time. Most run without verification: what they compute shows what
/// went wrong.
pub const FUZZ_COLLECTIONS: Suite = Suite {
    nursery: "nursery=64K",
    max: "max=16M",
    without: &[],
    settings: "min=256K",
    modes: &["", "stress=1", "stress=3", "stress=7", "stress=5,stress-polls=on", "verify=on", "verify=on,stress=29"],
    first: &["nursery=64K"],
    kept: include_str!("../rows/fuzz_collections.txt"),
};

/// Generated modules that another engine runs, too.
pub const FUZZ: Suite = Suite {
    nursery: "nursery=64K",
    max: "max=16M",
    without: &[],
    settings: "min=256K",
    modes: &["verify=on,stress=5", "verify=on"],
    first: &[],
    kept: include_str!("../rows/fuzz.txt"),
};

impl Suite {
    /// The rows, those of [`first`](Suite::first) first.
    ///
    /// # Panics
    /// If a row that is kept is no heap any more: the tests of this crate say how to make them anew.
    pub fn rows(&self) -> Vec<Row> {
        self.kept.lines().map(Row::named).collect()
    }
}

#[cfg(test)]
impl Suite {
    /// Whether an axis, or a value of one, takes part.
    pub(crate) fn has(&self, what: &str) -> bool {
        !self.without.contains(&what)
    }

    /// The settings of a value of the axis `sizing`, with the maximum where one is wanted.
    pub(crate) fn sized(&self, value: &Value) -> &'static str {
        match value.settings.split(',').next() {
            Some("sizing=fixed" | "sizing=isla-vista") => format!("{},{}", value.settings, self.max).leak(),
            _ => value.settings,
        }
    }

    /// Makes the rows from the axes.
    pub(crate) fn made(&self) -> Vec<Row> {
        let sized = |axis: &Axis| match axis.name {
            "nursery" => own("nursery", &[self.nursery, "nursery=appel"]),
            "sizing" => own("sizing", &axis.values.iter().map(|value| self.sized(value)).collect::<Vec<_>>()),
            _ => {
                Axis { values: axis.values.iter().copied().filter(|value| self.has(value.settings)).collect(), ..*axis }
            }
        };
        let axes = AXES.iter().filter(|axis| self.has(axis.name)).map(sized);
        let axes: Vec<Axis> = axes.chain([own("mode", self.modes)]).collect();
        let first = self.first.iter().map(|settings| Row::default().with(settings));
        first.chain(cover(&axes).iter().map(|row| row.with(self.settings))).collect()
    }
}
