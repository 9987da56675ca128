//! On what machine a figure was made.

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
        let field = |file: &str, key: &str| {
            let text = std::fs::read_to_string(file).ok()?;
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_string())
        };
        let memory = field("/proc/meminfo", "MemTotal")
            .and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok())
            .map_or(0, |kibibytes| kibibytes * 1024);
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory,
            system: format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gibibytes = self.memory as f64 / (1u64 << 30) as f64;
        write!(f, "{}, {} processors, {gibibytes:.0} GiB, {}", self.processor, self.processors, self.system)
    }
}
