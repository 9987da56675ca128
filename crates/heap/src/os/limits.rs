//! How much memory the machine lets this process have.

use super::groups::{MemoryGroup, Read, Version, own_groups, read_file};
use std::fmt;
use std::path::Path;

/// The most memory that something allows the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineLimit {
    /// How much, in bytes.
    pub bytes: u64,
    /// What says so: a file of a memory group, physical memory, or address space.
    pub source: String,
}

impl fmt::Display for MachineLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}K", self.source, self.bytes >> 10)
    }
}

/// A limit on the addresses that the process may have mapped or reserved, whether there is memory behind them or not
/// (`RLIMIT_AS`, `ulimit -v`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressSpace {
    /// The limit in bytes.
    pub limit_bytes: u64,
    /// What the process has already, in bytes; 0 where the system does not tell (only Linux does).
    pub used_bytes: u64,
}

impl AddressSpace {
    /// As it is now; `None` where there is no limit.
    pub fn of_process() -> Option<AddressSpace> {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: writes to `limit` alone; where it fails, that stays as it is.
        unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) };
        (limit.rlim_cur != libc::RLIM_INFINITY).then(|| {
            let used = read_file(Path::new("/proc/self/statm")).and_then(|text| parse_pages(&text, MAPPED));
            AddressSpace { limit_bytes: limit.rlim_cur, used_bytes: used.unwrap_or(0) }
        })
    }

    /// Bytes that can still be mapped, in one piece or several.
    pub fn left(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }

    /// The limit, as others are told.
    pub(crate) fn limit(&self) -> MachineLimit {
        MachineLimit { bytes: self.limit_bytes, source: "address space".to_string() }
    }
}

/// The lowest limit of this machine; `None` where the system tells of none.
pub(crate) fn lowest() -> Option<MachineLimit> {
    lowest_of(own_groups(), &read_file, physical_memory())
}

/// Bytes of physical memory.
fn physical_memory() -> Option<u64> {
    // SAFETY: `sysconf` only reads.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).ok().filter(|&pages| pages > 0).map(|pages| pages * u64::from(super::page_bytes()))
}

/// Bytes of memory that the process has now, whatever for; 0 where the system does not tell (only Linux does).
pub(crate) fn resident() -> u64 {
    read_file(Path::new("/proc/self/statm")).and_then(|text| parse_pages(&text, RESIDENT)).unwrap_or(0)
}

/// Fields of `/proc/self/statm`, which count pages: with any mapping, with memory.
const MAPPED: usize = 0;
const RESIDENT: usize = 1;

/// A field of `/proc/self/statm`, in bytes.
fn parse_pages(statm: &str, field: usize) -> Option<u64> {
    Some(statm.split_whitespace().nth(field)?.parse::<u64>().ok()? * u64::from(super::page_bytes()))
}

/// The lowest of the limits of the process's groups and their ancestors, and of physical memory.
fn lowest_of(groups: &[MemoryGroup], read: Read, physical: Option<u64>) -> Option<MachineLimit> {
    let physical = physical.map(|bytes| MachineLimit { bytes, source: "physical memory".to_string() });
    let groups = groups.iter().flat_map(|group| limits_of(group, read));
    physical.into_iter().chain(groups).min_by_key(|limit| limit.bytes)
}

/// All limits of a group and of its ancestors.
fn limits_of(group: &MemoryGroup, read: Read) -> Vec<MachineLimit> {
    let names: &[&str] = match group.version {
        Version::V1 => &["memory.limit_in_bytes"],
        Version::V2 => &["memory.max", "memory.high"],
    };
    let mut limits = Vec::new();
    for folder in &group.folders {
        for name in names {
            let file = folder.join(name);
            // Where nothing is limited it says `max`, or a number beyond any memory.
            if let Some(bytes) = read(&file).and_then(|text| text.trim().parse().ok()) {
                limits.push(MachineLimit { bytes, source: file.display().to_string() });
            }
        }
    }
    // This counts all ancestors, also those that cannot be seen. It takes the kernel long: it is read once.
    if group.version == Version::V1 {
        limits.extend(group.folders.iter().find_map(|folder| {
            let stat = folder.join("memory.stat");
            let bytes = field(&read(&stat)?, "hierarchical_memory_limit")?;
            Some(MachineLimit { bytes, source: stat.display().to_string() })
        }));
    }
    limits
}

/// The number behind a name, in a file of lines `NAME NUMBER`.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::groups::memory_groups;
    use crate::os::groups::tests::files;

    const MIB: u64 = 1 << 20;

    fn lowest(files: &dyn Fn(&Path) -> Option<String>) -> (u64, String) {
        let limit = lowest_of(&memory_groups(files), files, Some(8192 * MIB)).unwrap();
        (limit.bytes / MIB, limit.source)
    }

    #[test]
    fn the_lowest_of_all_ancestors_counts() {
        let physical = (8192, "physical memory".to_string());
        assert_eq!(lowest(&files(&[])), physical);
        assert_eq!(lowest_of(&[], &files(&[]), None), None);
        let parent = (256, "/sys/fs/cgroup/pod/memory.max".to_string());
        let v2 = files(&[
            ("/proc/self/cgroup", "0::/pod/app\n"),
            ("/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("/sys/fs/cgroup/pod/app/memory.max", "max\n"),
            ("/sys/fs/cgroup/pod/app/memory.high", "536870912\n"),
            ("/sys/fs/cgroup/pod/memory.max", "268435456\n"),
            ("/sys/fs/cgroup/pod/memory.high", "max\n"),
        ]);
        assert_eq!(lowest(&v2), parent);
        let high = files(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("/sys/fs/cgroup/memory.max", "536870912\n"),
            ("/sys/fs/cgroup/memory.high", "134217728\n"),
        ]);
        assert_eq!(lowest(&high), (128, "/sys/fs/cgroup/memory.high".to_string()));
    }

    #[test]
    fn limits_of_the_first_interface() {
        let unlimited = files(&[
            ("/proc/self/cgroup", "4:memory:/a\n0::/\n"),
            ("/proc/self/mountinfo", "32 30 0:32 / /m rw - cgroup cgroup rw,memory\n"),
            ("/m/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/m/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/m/a/memory.stat", "cache 0\nhierarchical_memory_limit 9223372036854771712\n"),
        ]);
        assert_eq!(lowest(&unlimited).1, "physical memory");
        let hidden = files(&[
            ("/proc/self/cgroup", "4:memory:/docker/1\n"),
            ("/proc/self/mountinfo", "32 30 0:32 /docker/1 /m rw - cgroup cgroup rw,memory\n"),
            ("/m/memory.limit_in_bytes", "536870912\n"),
            ("/m/memory.stat", "cache 4096\nhierarchical_memory_limit 67108864\nhierarchical_memsw_limit 1\n"),
        ]);
        assert_eq!(lowest(&hidden), (64, "/m/memory.stat".to_string()));
    }

    #[test]
    fn the_system_answers() {
        assert!(super::lowest().is_some_and(|limit| limit.bytes > 0));
        assert!(resident() > 0 || cfg!(not(target_os = "linux")));
        let page = u64::from(crate::os::page_bytes());
        assert_eq!(parse_pages("100 3 1 1 0 1 0", RESIDENT), Some(3 * page));
        assert_eq!(parse_pages("100 3 1 1 0 1 0", MAPPED), Some(100 * page));
        assert_eq!(parse_pages("100", RESIDENT), None);
    }
}
