//! The source `swap`: memory of the process that has been swapped out, and page faults that bring some of it back.

use super::counter::StatusFile;
use crate::os::limits::field;
use crate::pressure::{Moment, Pressure, PressureSource};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long `VmSwap` is believed, as reading it takes some 7 us: collections may follow each other within less than a
/// millisecond.
const BELIEVED: Duration = Duration::from_millis(2);

/// The source.
#[derive(Debug)]
pub(super) struct Swap {
    status: StatusFile,
    /// Swapped out at the last reading, in KiB, and when that was.
    swapped: u64,
    read: Instant,
    /// Major faults at the last answer.
    faults: u64,
}

impl Swap {
    /// Opens it.
    ///
    /// # Errors
    /// Why there is no such source.
    pub(super) fn open() -> Result<Swap, String> {
        let swaps = StatusFile::open(Path::new("/proc/swaps"))?.read().map(is_swapping);
        if swaps != Some(true) {
            return Err("the machine has no swap".to_string());
        }
        let mut status = StatusFile::open(Path::new("/proc/self/status"))?;
        let swapped = status.read().and_then(parse_swapped).ok_or("/proc/self/status does not say")?;
        Ok(Swap { status, swapped, read: Instant::now(), faults: major_faults() })
    }

    /// The answer to what is counted now.
    fn answer(&mut self, swapped: u64, faults: u64) -> Pressure {
        let grown = swapped > std::mem::replace(&mut self.swapped, swapped);
        let faulted = faults > std::mem::replace(&mut self.faults, faults);
        // Without anything swapped out, a major fault reads a file: the program has just been started.
        if grown || faulted && swapped > 0 { Pressure::Stall } else { Pressure::Clear }
    }
}

impl PressureSource for Swap {
    fn name(&self) -> String {
        "swap (VmSwap, major faults)".to_string()
    }

    fn read(&mut self, moment: Moment) -> Pressure {
        if moment == Moment::Before {
            return Pressure::Clear;
        }
        let (now, mut swapped) = (Instant::now(), self.swapped);
        if now.duration_since(self.read) >= BELIEVED {
            let Some(read) = self.status.read().and_then(parse_swapped) else { return Pressure::Unknown };
            (self.read, swapped) = (now, read);
        }
        self.answer(swapped, major_faults())
    }
}

/// Whether `/proc/swaps` names any behind its title.
fn is_swapping(text: &str) -> bool {
    text.lines().count() > 1
}

/// KiB swapped out, by `/proc/self/status`.
pub(super) fn parse_swapped(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmSwap:"))?;
    field(&line.replacen(":\t", " ", 1).replace(" kB", ""), "VmSwap")
}

/// Page faults of the process that had to wait for a disk.
fn major_faults() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: writes to `usage` alone, all of whose fields may be zero.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_majflt as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_understood() {
        let status = "Name:\tlegato\nVmRSS:\t    2072 kB\nVmSwap:\t     128 kB\nThreads:\t1\n";
        assert_eq!(parse_swapped(status), Some(128));
        assert_eq!(parse_swapped("Name:\tkthread\n"), None);
        assert!(!is_swapping("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"));
        assert!(is_swapping("Filename Type Size Used Priority\n/swapfile file 2097148 0 -2\n"));
    }

    #[test]
    fn growth_and_faults_are_stalls() {
        let status = StatusFile::open(Path::new("/proc/self/status")).unwrap();
        let mut swap = Swap { status, swapped: 0, read: Instant::now(), faults: 10 };
        assert_eq!(swap.answer(0, 15), Pressure::Clear, "files are read");
        assert_eq!(swap.answer(40, 15), Pressure::Stall, "something is swapped out");
        assert_eq!(swap.answer(40, 15), Pressure::Clear);
        assert_eq!(swap.answer(40, 16), Pressure::Stall, "and comes back");
        assert_eq!(swap.answer(20, 16), Pressure::Clear);
        assert_eq!(swap.answer(21, 16), Pressure::Stall);
    }
}
