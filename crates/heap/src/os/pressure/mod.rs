//! What the system says of memory pressure: the sources of this machine, found out at start.
//!
//! | source | what it counts | what it needs |
//! |---|---|---|
//! | `swap` | growth of what is swapped out (`VmSwap`), and major faults while there is any | swap |
//! | `reclaim` | direct reclaim by the mutator's thread (tracepoints of `vmscan`) | perf events and tracefs: mostly root |
//! | `psi` | time that tasks have waited for memory (pressure stall information) | Linux 4.20, version 2 groups for the own one |
//! | `events` | how often the group has come to its limit (`memory.events`, `memory.failcnt`) | a memory group |
//! | `vmstat` | allocation stalls of the whole machine (`/proc/vmstat`), none of those within memory groups | |
//!
//! In this order: the first has no false alarms, the second says whose stall it was, all others are also set off by
//! programs that stream files. On other systems there are none.

#[cfg(target_os = "linux")]
mod counter;
#[cfg(target_os = "linux")]
mod reclaim;
#[cfg(target_os = "linux")]
mod swap;

use crate::pressure::{MissingSource, PressureSource, Signal};

/// The sources of this machine, the best first, and those that it lacks. One that is preferred comes before all others.
pub(crate) fn sources(preferred: Signal) -> (Vec<Box<dyn PressureSource>>, Vec<MissingSource>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let others = Signal::ALL.iter().copied().filter(|&signal| signal != preferred);
    for signal in std::iter::once(preferred).chain(others).filter(|&signal| signal != Signal::Auto) {
        match open(signal) {
            Ok(source) => found.push(source),
            Err(because) => missing.push(MissingSource { name: signal.name(), because }),
        }
    }
    (found, missing)
}

/// Opens one source.
///
/// # Errors
/// Why the machine does not have it.
#[cfg(target_os = "linux")]
fn open(signal: Signal) -> Result<Box<dyn PressureSource>, String> {
    let groups = super::groups::own_groups();
    Ok(match signal {
        Signal::Auto | Signal::Swap => Box::new(swap::Swap::open()?),
        Signal::Reclaim => Box::new(reclaim::Reclaim::open()?),
        Signal::Psi => Box::new(counter::psi(groups)?),
        Signal::Events => Box::new(counter::events(groups)?),
        Signal::Vmstat => Box::new(counter::vmstat()?),
    })
}

#[cfg(not(target_os = "linux"))]
fn open(_: Signal) -> Result<Box<dyn PressureSource>, String> {
    Err("only Linux has it".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pressure::{Moment, Pressure};

    #[test]
    fn every_source_is_found_or_missed_with_a_reason() {
        for &preferred in Signal::ALL {
            let (mut found, missing) = sources(preferred);
            assert_eq!(found.len() + missing.len(), Signal::ALL.len() - 1, "{missing:?}");
            assert!(missing.iter().all(|missing| !missing.because.is_empty()), "{missing:?}");
            let is_missing = missing.iter().any(|missing| missing.name == preferred.name());
            let first = found.first().map(|source| source.name()).unwrap_or_default();
            assert!(is_missing || preferred == Signal::Auto || first.starts_with(preferred.name()), "{first}");
            for source in &mut found {
                // Whatever else runs on the machine may be short of memory: no answer is wrong but this one.
                assert_ne!(source.read(Moment::Before), Pressure::Unknown, "{}", source.name());
                assert_ne!(source.read(Moment::After), Pressure::Unknown, "{}", source.name());
            }
        }
    }
}
