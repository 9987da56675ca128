//! Sources that are a number in a file: it grows where memory is short.

use crate::os::groups::{MemoryGroup, Version};
use crate::os::limits::field;
use crate::pressure::{Moment, Pressure, PressureSource};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The largest file that is read, in bytes: `/proc/vmstat` has some 6 KiB.
const MOST_BYTES: usize = 32 << 10;
/// Where the kernel tells of the whole machine's tasks that wait for memory.
const MACHINE_PSI: &str = "/proc/pressure/memory";

/// A file of the kernel's, open, to be read again and again.
#[derive(Debug)]
pub(super) struct StatusFile {
    file: File,
    text: Vec<u8>,
}

impl StatusFile {
    /// Opens a file.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(path: &Path) -> Result<StatusFile, String> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(StatusFile { file, text: Vec::new() })
    }

    /// What it says now: one system call. `None` where it cannot be read any more.
    pub(super) fn read(&mut self) -> Option<&str> {
        self.text.resize(MOST_BYTES, 0);
        let length = self.file.read_at(&mut self.text, 0).ok()?;
        std::str::from_utf8(&self.text[..length]).ok()
    }
}

/// A number in a file.
#[derive(Debug)]
pub(super) struct Counter {
    name: String,
    file: StatusFile,
    /// Finds the number in the text.
    parse: fn(&str) -> Option<u64>,
    /// What it was at the last answer.
    last: u64,
}

impl Counter {
    fn open(kind: &str, path: &Path, parse: fn(&str) -> Option<u64>) -> Result<Counter, String> {
        let mut file = StatusFile::open(path)?;
        let last = file.read().and_then(parse).ok_or_else(|| format!("{} does not say", path.display()))?;
        Ok(Counter { name: format!("{kind} ({})", path.display()), file, parse, last })
    }
}

impl PressureSource for Counter {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn read(&mut self, moment: Moment) -> Pressure {
        if moment == Moment::Before {
            return Pressure::Clear;
        }
        let Some(now) = self.file.read().and_then(self.parse) else { return Pressure::Unknown };
        let before = std::mem::replace(&mut self.last, now);
        if now > before { Pressure::Stall } else { Pressure::Clear }
    }
}

/// Time that tasks have waited for memory: those of the process's own group, or of the machine.
///
/// # Errors
/// Why there is no such source.
pub(super) fn psi(groups: &[MemoryGroup]) -> Result<Counter, String> {
    let own = groups.iter().filter(|group| group.version == Version::V2);
    let own = own.map(|group| group.folders[0].join("memory.pressure"));
    let own = own.filter_map(|path| Counter::open("psi", &path, parse_psi).ok()).next();
    own.map_or_else(|| Counter::open("psi", Path::new(MACHINE_PSI), parse_psi), Ok)
}

/// How often the group has come to its limit.
///
/// # Errors
/// Why there is no such source.
pub(super) fn events(groups: &[MemoryGroup]) -> Result<Counter, String> {
    let mut because = "the process is in no memory group".to_string();
    for group in groups {
        let (name, parse): (_, fn(&str) -> Option<u64>) = match group.version {
            Version::V1 => ("memory.failcnt", parse_failures),
            Version::V2 => ("memory.events", parse_events),
        };
        match Counter::open("events", &group.folders[0].join(name), parse) {
            Ok(counter) => return Ok(counter),
            Err(error) => because = error,
        }
    }
    Err(because)
}

/// Allocation stalls of the machine.
///
/// # Errors
/// Why there is no such source.
pub(super) fn vmstat() -> Result<Counter, String> {
    Counter::open("vmstat", Path::new("/proc/vmstat"), parse_stalls)
}

/// The microseconds in which at least one task has waited.
fn parse_psi(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split(' ').find_map(|part| part.strip_prefix("total=")?.parse().ok())
}

fn parse_failures(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// How often memory was reclaimed because `memory.high` was exceeded, or `memory.max` about to be.
fn parse_events(text: &str) -> Option<u64> {
    Some(field(text, "high")? + field(text, "max")?)
}

/// Allocation stalls in all zones; one number before Linux 4.10.
fn parse_stalls(text: &str) -> Option<u64> {
    let stalls = text.lines().filter(|line| line.starts_with("allocstall"));
    stalls.map(|line| line.split_once(' ')?.1.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_of_the_kernel_are_understood() {
        let psi = "some avg10=0.12 avg60=0.05 avg300=0.00 total=73422\n\
                   full avg10=0.00 avg60=0.00 avg300=0.00 total=15000\n";
        assert_eq!(parse_psi(psi), Some(73422));
        assert_eq!(parse_psi("full avg10=0.00 total=1"), None);
        assert_eq!(parse_failures("12\n"), Some(12));
        assert_eq!(parse_events("low 9\nhigh 3\nmax 4\noom 1\noom_kill 0\n"), Some(7));
        assert_eq!(parse_events("low 9\n"), None);
        let vmstat = "nr_free_pages 100\nallocstall_dma 1\nallocstall_normal 20\nallocstall_movable 300\npgfault 7\n";
        assert_eq!(parse_stalls(vmstat), Some(321));
        assert_eq!(parse_stalls("allocstall_dma x\n"), None);
    }

    #[test]
    fn growth_since_the_last_answer_is_a_stall() {
        let path = std::env::temp_dir().join(format!("legato-counter-{}", std::process::id()));
        fs::write(&path, "5\n").unwrap();
        let mut counter = Counter::open("events", &path, parse_failures).unwrap();
        assert_eq!(counter.read(Moment::After), Pressure::Clear);
        fs::write(&path, "6\n").unwrap();
        assert_eq!(counter.read(Moment::Before), Pressure::Clear, "the program's stall is told afterwards");
        assert_eq!(counter.read(Moment::After), Pressure::Stall);
        assert_eq!(counter.read(Moment::After), Pressure::Clear, "once");
        fs::write(&path, "").unwrap();
        assert_eq!(counter.read(Moment::After), Pressure::Unknown);
        assert!(Counter::open("events", &path, parse_failures).unwrap_err().contains("does not say"));
        fs::remove_file(&path).unwrap();
        assert!(Counter::open("events", &path, parse_failures).unwrap_err().contains("No such file"));
    }
}
