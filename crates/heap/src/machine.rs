//! What a heap knows of the machine that it is on, and tells of it.

use crate::os::limits::MachineLimit;
use crate::pressure::MissingSource;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// What the machine has said of memory pressure, since the collection before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PressureReading {
    /// Whether the process has had to wait for memory.
    pub stalled: bool,
    /// What asking has cost, within the pause.
    pub cost: Duration,
}

/// `stalled for memory (asked in 0.008 ms)`, or `no stall` instead.
impl fmt::Display for PressureReading {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.stalled { "stalled for memory" } else { "no stall" };
        write!(formatter, "{what} (asked in {:.3} ms)", self.cost.as_secs_f64() * 1e3)
    }
}

/// What a heap knows of the machine that it is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineNotes {
    /// The heap's maximum in bytes: what was set, or what was found.
    pub maximum_bytes: u64,
    /// The lowest limit that the machine has for the process's memory, or its address space where that makes for a
    /// lower maximum, if it was looked for (`max=auto`) and found.
    pub limit: Option<MachineLimit>,
    /// The source of memory pressure that is asked, and those that stand in for it, in their order; `None` where the
    /// rule for the heap's size asks nobody.
    pub pressure: Option<Vec<String>>,
    /// The sources that this machine does not have, or does not let the process have.
    pub missing: Vec<MissingSource>,
}

/// One line for people: `max 204800K (memory limit: /sys/fs/cgroup/memory.max 262144K); memory pressure by ...`.
impl fmt::Display for MachineNotes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "max {}K", self.maximum_bytes >> 10)?;
        if let Some(limit) = &self.limit {
            write!(formatter, " (memory limit: {limit})")?;
        }
        let Some(sources) = &self.pressure else { return Ok(()) };
        match sources.split_first() {
            Some((first, [])) => write!(formatter, "; memory pressure by {first}")?,
            Some((first, others)) => write!(formatter, "; memory pressure by {first}, else {}", others.join(", "))?,
            None => formatter.write_str("; nobody tells of memory pressure")?,
        }
        for (index, MissingSource { name, because }) in self.missing.iter().enumerate() {
            write!(formatter, "{} {name} ({because})", if index == 0 { "; without" } else { "," })?;
        }
        Ok(())
    }
}
