//! Heaps in real memory groups (cgroups), with and without swap. They need root, and make groups and a swap file of
//! their own, so they are run by hand:
//!
//! ```text
//! cargo test -p legato-heap --test memory_groups -- --ignored --test-threads=1
//! ```
//!
//! Where the machine does not let them they say why, and pass.
#![cfg(target_os = "linux")]

use legato_heap::layout::StorageKind;
use legato_heap::{GcObserver, Heap, HeapConfig, MachineNotes, RootStack, TypeInfo, TypeShape, TypeTable};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Bytes of the arrays that are allocated.
const ARRAY: u32 = 4000;
/// What tells the child that it is one: the group to join, the configuration, MiB to keep, MiB to allocate.
const GROUP: &str = "LEGATO_TEST_GROUP";
const CONFIG: &str = "LEGATO_TEST_CONFIG";
const LIVE: &str = "LEGATO_TEST_LIVE";
const ALLOCATED: &str = "LEGATO_TEST_ALLOCATED";
/// How long a child may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A memory group, removed in the end.
struct Group(PathBuf);

impl Group {
    /// A group with a limit, or why there is none.
    fn new(name: &str, limit: u64) -> Result<Group, String> {
        let name = format!("legato-{name}-{}", std::process::id());
        let places = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let mut because = String::new();
        for (place, file) in places {
            let group = Group(Path::new(place).join(&name));
            let made = fs::create_dir(&group.0).and_then(|()| fs::write(group.0.join(file), limit.to_string()));
            match made {
                Ok(()) => return Ok(group),
                Err(error) if because.is_empty() => because = format!("{}: {error}", group.0.display()),
                Err(_) => {}
            }
        }
        Err(because)
    }

    /// Runs a program in a heap of this configuration, which lives in `live` MiB and allocates `allocated` MiB in all,
    /// within the group. Returns how it ended, and what it has written.
    fn run(&self, config: &str, live: u64, allocated: u64) -> (ExitStatus, String) {
        let output = self.0.file_name().unwrap().to_str().unwrap();
        let output = std::env::temp_dir().join(output);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_program_in_a_group", "--ignored", "--nocapture"])
            .env(GROUP, &self.0)
            .env(CONFIG, config)
            .env(LIVE, live.to_string())
            .env(ALLOCATED, allocated.to_string())
            .stdout(fs::File::create(&output).unwrap())
            .spawn()
            .unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                child.kill().unwrap();
                break child.wait().unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let text = fs::read_to_string(&output).unwrap();
        fs::remove_file(output).unwrap();
        println!("{config}, {live} of {allocated} MiB: {status} after {:?}\n{text}", start.elapsed());
        (status, text)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel may need a moment to see that the group is empty.
        let removed = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            fs::remove_dir(&self.0).is_ok()
        });
        if self.0.exists() && !removed {
            eprintln!("{} could not be removed", self.0.display());
        }
    }
}

/// A swap file, removed in the end.
struct SwapFile(PathBuf);

impl SwapFile {
    /// Makes one of so many MiB, or says why not.
    fn new(mib: u64) -> Result<SwapFile, String> {
        let file = SwapFile(std::env::temp_dir().join(format!("legato-swap-{}", std::process::id())));
        let (path, of, count) = (file.0.to_str().unwrap(), format!("of={}", file.0.display()), format!("count={mib}"));
        let steps: [&[&str]; 4] = [
            &["dd", "if=/dev/zero", &of, "bs=1M", &count, "status=none"],
            &["chmod", "600", path],
            &["mkswap", path],
            &["swapon", path],
        ];
        for step in steps {
            let done = Command::new(step[0]).args(&step[1..]).output().map_err(|error| format!("{step:?}: {error}"))?;
            if !done.status.success() {
                return Err(format!("{step:?}: {}", String::from_utf8_lossy(&done.stderr)));
            }
        }
        Ok(file)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).output();
        let _ = fs::remove_file(&self.0);
    }
}

/// Unwraps, or says why the test is skipped and leaves it.
macro_rules! or_skip {
    ($made:expr) => {
        match $made {
            Ok(made) => made,
            Err(because) => return println!("skipped: {because}"),
        }
    };
}

/// The number behind `name=` in a child's output.
fn figure(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

struct Noting(Arc<Mutex<String>>);

impl GcObserver for Noting {
    fn event(&mut self, _: &legato_heap::GcEvent) {}

    fn machine(&mut self, notes: &MachineNotes) {
        *self.0.lock().unwrap() = notes.to_string();
    }
}

/// The child of the other tests; by itself it has nothing to do.
#[test]
#[ignore = "the child of the others"]
fn a_program_in_a_group() {
    let Some(group) = std::env::var_os(GROUP) else { return };
    fs::write(Path::new(&group).join("cgroup.procs"), std::process::id().to_string()).unwrap();
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap() * MIB / u64::from(ARRAY);
    let (live, allocated) = (number(LIVE) as usize, number(ALLOCATED) as usize);
    let mut config = HeapConfig::default();
    for setting in std::env::var(CONFIG).unwrap().split(',').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap();
        config.set(key, value).unwrap();
    }
    let types = TypeTable::new().unwrap();
    let array = TypeInfo { shape: TypeShape::Array(StorageKind::I8), supertype: None };
    let array = types.register(array).unwrap();
    let mut heap = Heap::new(&config, types).unwrap();
    let notes = Arc::<Mutex<String>>::default();
    heap.set_observer(Box::new(Noting(notes.clone())));
    println!("{}", notes.lock().unwrap());
    let mut roots = RootStack::of_nulls(live);
    let mut late = 0;
    for nth in 0..allocated {
        let new = heap.allocate_array(array, ARRAY, &mut roots).unwrap();
        // SAFETY: the array has just been allocated, and the heap gets these roots in every call.
        unsafe { roots.set(nth % live, new) };
        heap.poll(&mut roots);
        if nth == allocated / 2 {
            late = heap.stats().pressure_stalls;
        }
    }
    let stats = heap.stats();
    println!("maximum={}\ncommitted={}\nlimit={}", stats.maximum_bytes, stats.committed_bytes, stats.limit_bytes);
    println!("readings={}\nstalls={}\nlate={}", stats.pressure_readings, stats.pressure_stalls, {
        stats.pressure_stalls - late
    });
    println!("us={}", stats.pressure_us);
}

#[test]
#[ignore = "needs root"]
fn a_container_runs_what_fits_it() {
    for collector in ["", "collector=mark-sweep", "collector=realtime", "sizing=isla-vista", "sizing=fixed"] {
        let group = or_skip!(Group::new("container", 256 * MIB));
        let (status, text) = group.run(collector, 150, 1500);
        assert!(status.success(), "{status}: {text}");
        let maximum = figure(&text, "maximum");
        assert!(maximum < 230 * MIB && text.contains(group.0.to_str().unwrap()), "{text}");
    }
}

#[test]
#[ignore = "needs root, and swap"]
fn a_heap_finds_what_a_group_has() {
    let _swap = or_skip!(SwapFile::new(1024));
    for (collector, pressure) in [
        ("collector=mark-sweep", "auto"),
        ("collector=generational", "auto"),
        ("collector=generational,full=stop,nursery=appel", "auto"),
        ("collector=realtime", "auto"),
        ("collector=generational", "events"),
    ] {
        let group = or_skip!(Group::new("pressure", 128 * MIB));
        let config = format!("{collector},sizing=isla-vista,pressure={pressure},iv-recover=on,iv-memory=on");
        // Below the limit of the group nothing stalls.
        let (status, text) = group.run(&format!("{config},max=80M"), 30, 1000);
        assert!(status.success() && figure(&text, "stalls") == 0 && figure(&text, "readings") > 0, "{status}: {text}");
        // Beyond, the heap comes down again, if only to try what there is.
        let (status, text) = group.run(&format!("{config},max=512M"), 30, 4000);
        assert!(status.success() && figure(&text, "stalls") > 0, "{status}: {text}");
        assert!(figure(&text, "committed") < 192 * MIB, "{text}");
    }
}
