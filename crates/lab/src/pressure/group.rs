//! Memory groups (cgroups) of the kernel's first and second interface, made for one run each.

use super::interrupt;
use anyhow::{Context, bail};
use std::cell::Cell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where groups are usually mounted, the first interface's first: where both are, that one has the controller.
const PLACES: [&str; 2] = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
/// How often the kernel is asked to remove a group whose last process has just ended, every 10 ms.
const PATIENCE: u32 = 300;

/// The kernel's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V1,
    V2,
}

/// Where groups can be made.
#[derive(Debug)]
pub(super) struct Groups {
    parent: PathBuf,
    version: Version,
    /// How many have been made.
    made: Cell<u32>,
}

/// A group, removed in the end.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
    version: Version,
}

/// What a group may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// All there is.
    None,
    /// So many bytes of memory, and all swap.
    Memory(u64),
    /// So many bytes, and no swap.
    WithoutSwap(u64),
}

impl Groups {
    /// The folder that they are made in.
    pub(super) fn parent(&self) -> &Path {
        &self.parent
    }

    /// Groups in this folder, or else where the system has them.
    ///
    /// # Errors
    /// If there are no memory groups, or none can be made.
    pub(super) fn find(given: Option<&Path>) -> anyhow::Result<Groups> {
        let places: Vec<PathBuf> = match given {
            Some(folder) => vec![folder.to_path_buf()],
            None => PLACES.iter().map(PathBuf::from).collect(),
        };
        for parent in &places {
            let Some(version) = version(parent) else { continue };
            if version == Version::V2 {
                // Children have the controller only where the parent hands it on; who may not say so finds out below.
                let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
            }
            let groups = Groups { parent: parent.clone(), version, made: Cell::new(0) };
            groups.make(Limit::Memory(64 << 20)).context("memory groups cannot be made here (as root they can)")?;
            return Ok(groups);
        }
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        bail!("the system has no memory groups in {}: name a folder that has with --group DIR", places.join(" or "))
    }

    /// A new group.
    ///
    /// # Errors
    /// If the kernel does not let us.
    pub(super) fn make(&self, limit: Limit) -> anyhow::Result<Group> {
        let number = self.made.replace(self.made.get() + 1);
        let folder = self.parent.join(format!("{}{number}", prefix()));
        let _making = interrupt::making();
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let group = Group { folder, version: self.version };
        let (memory, swap) = match self.version {
            Version::V1 => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
            Version::V2 => ("memory.max", "memory.swap.max"),
        };
        if let Limit::Memory(bytes) | Limit::WithoutSwap(bytes) = limit {
            group.write(memory, &bytes.to_string())?;
        }
        if let Limit::WithoutSwap(bytes) = limit {
            // The first interface limits memory and swap together.
            let bytes = if self.version == Version::V1 { bytes } else { 0 };
            group.write(swap, &bytes.to_string())?;
        }
        Ok(group)
    }
}

/// How the names of this process's groups begin.
fn prefix() -> String {
    format!("legato-lab-{}-", std::process::id())
}

/// Kills whatever runs in groups that this process has made in a folder, and removes these groups.
pub(super) fn end_all(parent: &Path) {
    for _ in 0..PATIENCE {
        let Ok(entries) = fs::read_dir(parent) else { return };
        let is_own = |folder: &PathBuf| {
            folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix()))
        };
        let mut is_busy = false;
        for folder in entries.flatten().map(|entry| entry.path()).filter(is_own) {
            let processes = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for process in processes.lines().filter_map(|line| line.trim().parse::<libc::pid_t>().ok()) {
                // 0 and negative numbers stand for more than one process.
                if process > 0 {
                    // SAFETY: a call without memory. The process is in a group of ours, so one that we have started.
                    unsafe { libc::kill(process, libc::SIGKILL) };
                }
            }
            is_busy |= fs::remove_dir(&folder).is_err_and(|error| error.kind() == ErrorKind::ResourceBusy);
        }
        if !is_busy {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    eprintln!("memory groups {}* in {} could not be removed", prefix(), parent.display());
}

/// The interface of a folder that can hold memory groups.
fn version(folder: &Path) -> Option<Version> {
    if folder.join("memory.limit_in_bytes").exists() {
        return Some(Version::V1);
    }
    let controllers = fs::read_to_string(folder.join("cgroup.controllers")).ok()?;
    controllers.split_whitespace().any(|controller| controller == "memory").then_some(Version::V2)
}

impl Group {
    fn write(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let file = self.folder.join(name);
        fs::write(&file, value).with_context(|| format!("cannot write {value} to {}", file.display()))
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    /// The command as a process of the group. A shell joins it and becomes the command, which so has never had memory
    /// elsewhere.
    pub(super) fn holding(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.folder.join("cgroup.procs"));
        inside.arg(command.get_program()).args(command.get_args());
        inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        inside
    }

    /// The most memory that it has had, in bytes. `None` where the kernel does not tell.
    pub(super) fn peak(&self) -> Option<u64> {
        let name = match self.version {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        };
        self.read(name)?.trim().parse().ok()
    }

    /// How many of its processes the kernel has killed for want of memory.
    pub(super) fn kills(&self) -> u64 {
        let name = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        self.read(name).and_then(|text| field(&text, "oom_kill")).unwrap_or(0)
    }
}

/// The number behind a name, in a file of lines `NAME NUMBER`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..PATIENCE {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => std::thread::sleep(Duration::from_millis(10)),
                // A folder that is not empty is none of the kernel's.
                _ => return,
            }
        }
        eprintln!("the memory group {} could not be removed", self.folder.display());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A folder of plain files in which groups of the first interface, or the second, can be made.
    pub(in super::super) fn fake(first: bool) -> (tempfile::TempDir, Groups) {
        let folder = tempfile::tempdir().unwrap();
        let (name, text) = if first { ("memory.limit_in_bytes", "0") } else { ("cgroup.controllers", "cpu memory\n") };
        fs::write(folder.path().join(name), text).unwrap();
        let groups = Groups::find(Some(folder.path())).unwrap();
        (folder, groups)
    }

    #[test]
    fn limits_and_figures_of_both_interfaces() {
        for (first, memory, swap, no_swap, peak, kills) in [
            (
                true,
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                "5000",
                "memory.max_usage_in_bytes",
                "memory.oom_control",
            ),
            (false, "memory.max", "memory.swap.max", "0", "memory.peak", "memory.events"),
        ] {
            let (_folder, groups) = fake(first);
            let free = groups.make(Limit::None).unwrap();
            assert_eq!((free.read(memory), free.peak(), free.kills()), (None, None, 0));
            let limited = groups.make(Limit::Memory(4000)).unwrap();
            assert_eq!((limited.read(memory).as_deref(), limited.read(swap)), (Some("4000"), None));
            let group = groups.make(Limit::WithoutSwap(5000)).unwrap();
            assert_eq!(group.read(memory).as_deref(), Some("5000"));
            assert_eq!(group.read(swap).as_deref(), Some(no_swap));
            group.write(peak, "4096\n").unwrap();
            group.write(kills, "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n").unwrap();
            assert_eq!((group.peak(), group.kills()), (Some(4096), 3));
        }
    }

    #[test]
    fn a_command_joins_before_it_begins() {
        let (_folder, groups) = fake(true);
        let group = groups.make(Limit::None).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ \"$1$LAB\"", "x", "a  b"]).env("LAB", " c");
        let output = group.holding(&command).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let joined = group.read("cgroup.procs").unwrap();
        assert_eq!(said, format!("{} a  b c\n", joined.trim()));
    }

    #[test]
    fn groups_of_this_process_are_removed_with_what_runs_there() {
        let folder = tempfile::tempdir().unwrap();
        let [own, foreign] = [format!("{}7", prefix()), "legato-lab-0-7".into()].map(|name| folder.path().join(name));
        for folder in [&own, &foreign] {
            fs::create_dir(folder).unwrap();
        }
        end_all(folder.path());
        assert!(!own.exists() && foreign.exists());
        fs::create_dir(&own).unwrap();
        let mut running = Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(own.join("cgroup.procs"), format!("{}\n", running.id())).unwrap();
        end_all(folder.path());
        assert!(!running.wait().unwrap().success());
    }

    #[test]
    fn a_machine_without_groups_is_told_in_one_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let error = Groups::find(Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains("no memory groups in") && !error.contains('\n'), "{error}");
        fs::write(folder.path().join("cgroup.controllers"), "cpu io\n").unwrap();
        assert!(Groups::find(Some(folder.path())).is_err());
    }
}
