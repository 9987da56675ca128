//! The memory groups (cgroups) of this process, by the files that Linux describes them in. Elsewhere there are none.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Reads a file as text; `None` where there is none that may be read. Tests have files of their own.
pub(crate) type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// The two interfaces of memory groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    V1,
    V2,
}

/// The group of one interface that the process is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MemoryGroup {
    pub(crate) version: Version,
    /// Its folder, then those of its ancestors, as far as they can be seen.
    pub(crate) folders: Vec<PathBuf>,
}

/// Reads files of the system.
pub(crate) fn read_file(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The process's groups, as they are when this is called first.
pub(crate) fn own_groups() -> &'static [MemoryGroup] {
    static GROUPS: OnceLock<Vec<MemoryGroup>> = OnceLock::new();
    GROUPS.get_or_init(|| memory_groups(&read_file))
}

/// The process's groups: of each interface that is mounted at most one.
pub(crate) fn memory_groups(read: Read) -> Vec<MemoryGroup> {
    let Some(own) = read(Path::new("/proc/self/cgroup")) else { return Vec::new() };
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let mut groups: Vec<MemoryGroup> = Vec::new();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let Some(path) = own.lines().find_map(|line| path_within(line, mount.version)) else { continue };
        if groups.iter().all(|group| group.version != mount.version) {
            groups.push(MemoryGroup { version: mount.version, folders: mount.folders(path) });
        }
    }
    groups
}

/// The path in a line of `/proc/self/cgroup`, `NUMBER:CONTROLLERS:PATH`, if it is about memory in this version.
fn path_within(line: &str, version: Version) -> Option<&str> {
    let (number, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let is_it = match version {
        Version::V1 => controllers.split(',').any(|controller| controller == "memory"),
        Version::V2 => number == "0" && controllers.is_empty(),
    };
    is_it.then_some(path)
}

/// A place where groups are mounted.
struct Mount {
    version: Version,
    /// The group that is seen there.
    root: String,
    point: String,
}

impl Mount {
    /// A line of `/proc/self/mountinfo`, if it is about memory groups.
    fn parse(line: &str) -> Option<Mount> {
        let (place, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        let version = match kind {
            "cgroup2" => Version::V2,
            "cgroup" if options.split(',').any(|option| option == "memory") => Version::V1,
            _ => return None,
        };
        let mut place = place.split(' ').skip(3).map(unescape);
        Some(Mount { version, root: place.next()?, point: place.next()? })
    }

    /// The folder of the group at `path`, and those above it. A container may see its own group alone, whatever it is
    /// called outside: as the mount's root.
    fn folders(&self, path: &str) -> Vec<PathBuf> {
        let top = Path::new(&self.point);
        let inner = Path::new(path).strip_prefix(&self.root).unwrap_or(Path::new(""));
        let is_plain = inner.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let own = if is_plain { top.join(inner) } else { top.to_path_buf() };
        own.ancestors().take_while(|folder| folder.starts_with(top)).map(Path::to_path_buf).collect()
    }
}

/// A path in which the kernel has written spaces, tabs, ends of lines and backslashes as three octal digits.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                plain += &part[3..];
            }
            None => {
                plain.push('\\');
                plain += part;
            }
        }
    }
    plain
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Files for tests, by path.
    pub(crate) fn files(files: &'static [(&'static str, &'static str)]) -> impl Fn(&Path) -> Option<String> {
        |path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.to_string())
    }

    fn group(version: Version, folders: &[&str]) -> MemoryGroup {
        MemoryGroup { version, folders: folders.iter().map(PathBuf::from).collect() }
    }

    const V1_MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 22 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn both_interfaces_at_once() {
        let read = files(&[
            ("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/jobs/a b/7\n1:name=systemd:/\n0::/user\n"),
            ("/proc/self/mountinfo", V1_MOUNTS),
        ]);
        let memory = "/sys/fs/cgroup/memory";
        let own = [format!("{memory}/jobs/a b/7"), format!("{memory}/jobs/a b"), format!("{memory}/jobs")];
        let own: Vec<&str> = own.iter().map(String::as_str).chain([memory]).collect();
        let unified = ["/sys/fs/cgroup/unified/user", "/sys/fs/cgroup/unified"];
        assert_eq!(memory_groups(&read), [group(Version::V1, &own), group(Version::V2, &unified)]);
    }

    #[test]
    fn a_container_sees_its_own_group() {
        // With a namespace for groups, the path is the root; without, the mount's root is the group; or none fits.
        for (path, root, point, folders) in [
            ("/", "/", "/sys/fs/cgroup", &["/sys/fs/cgroup"][..]),
            ("/docker/12ab", "/docker/12ab", "/sys/fs/cgroup", &["/sys/fs/cgroup"]),
            ("/docker/12ab/sub", "/docker/12ab", "/groups", &["/groups/sub", "/groups"]),
            ("/docker/12ab", "/elsewhere", "/groups", &["/groups"]),
            ("/../outside", "/", "/groups", &["/groups"]),
        ] {
            let own = format!("0::{path}\n");
            let mounts = format!("29 23 0:26 {root} {point} ro,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
            let read = |file: &Path| match file.to_str()? {
                "/proc/self/cgroup" => Some(own.clone()),
                "/proc/self/mountinfo" => Some(mounts.clone()),
                _ => None,
            };
            assert_eq!(memory_groups(&read), [group(Version::V2, folders)], "{path} under {root}");
        }
    }

    #[test]
    fn no_groups_and_broken_files() {
        assert!(memory_groups(&files(&[])).is_empty());
        assert!(memory_groups(&files(&[("/proc/self/cgroup", "0::/\n")])).is_empty());
        let broken = files(&[("/proc/self/cgroup", "0\n:::\n\u{0}"), ("/proc/self/mountinfo", "1 2 - cgroup2\n - \n")]);
        assert!(memory_groups(&broken).is_empty());
        assert_eq!(unescape("/a\\040b\\134\\9"), "/a b\\\\9");
    }
}
