//! On what machine figures were made.

use serde::Serialize;

/// A description of this machine, as far as it tells.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Physical memory in bytes.
    pub memory: u64,
    /// Operating system and its version.
    pub system: String,
}

impl Machine {
    /// This machine. What cannot be found out is "unknown" or 0.
    pub fn this() -> Machine {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory: bytes_field("/proc/meminfo", "MemTotal").unwrap_or(0),
            system: format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH),
        }
    }
}

/// The value of the first line `key: value` in a file of the proc file system.
fn field(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_string())
    })
}

/// The same where the value is a size in KiB; the result is in bytes.
pub(crate) fn bytes_field(file: &str, key: &str) -> Option<u64> {
    let kibibytes: u64 = field(file, key)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gibibytes = self.memory as f64 / (1u64 << 30) as f64;
        write!(f, "{}, {} processors, {gibibytes:.0} GiB, {}", self.processor, self.processors, self.system)
    }
}
