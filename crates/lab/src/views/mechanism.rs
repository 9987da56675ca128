//! Experiments 1 to 8: leaves at random places of a file in memory as large as a heap, and one iteration of either
//! approach.
//!
//! *Double map* reserves address space, maps every leaf into it, modifies all of it, and unmaps it: approach 1. *Copy*
//! copies every leaf to new memory, modifies that, and copies it back. Where the machine has too little memory for
//! both, there are fewer leaves of the same size, which the row says.

use super::Options;
use crate::measure::{Pairs, Time};
use crate::random::Random;
use crate::report::{Report, Row};
use anyhow::{Context, ensure};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

/// One of the source's experiments.
#[derive(Clone, Copy, Debug)]
struct Experiment {
    number: u32,
    leaves: usize,
    /// Bytes of a leaf, and of the heap.
    leaf: usize,
    heap: usize,
}

const EXPERIMENTS: [Experiment; 8] = [
    Experiment { number: 1, leaves: 16, leaf: 8 * KIB, heap: 256 * MIB },
    Experiment { number: 2, leaves: 64, leaf: 64 * KIB, heap: 256 * MIB },
    Experiment { number: 3, leaves: 12, leaf: 256 * KIB, heap: 256 * MIB },
    Experiment { number: 4, leaves: 128, leaf: 16 * KIB, heap: 256 * MIB },
    Experiment { number: 5, leaves: 32, leaf: MIB, heap: GIB },
    Experiment { number: 6, leaves: 16, leaf: 64 * MIB, heap: 4 * GIB },
    Experiment { number: 7, leaves: 32, leaf: 128 * MIB, heap: 16 * GIB },
    Experiment { number: 8, leaves: 48, leaf: 256 * MIB, heap: 64 * GIB },
];

/// Either approach takes at most this part of the memory that is available.
const PART: usize = 3;
/// Iterations of one run take about so many bytes, so that small ones are long enough for a clock.
const RUN_BYTES: usize = 64 * MIB;

/// Memory that is available, in bytes.
fn available() -> anyhow::Result<usize> {
    let info = std::fs::read_to_string("/proc/meminfo").context("cannot read how much memory is available")?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:")).context("no line MemAvailable")?;
    let kib: usize = line.trim().trim_end_matches("kB").trim().parse().context("MemAvailable is no number")?;
    Ok(kib * KIB)
}

/// A mapping, unmapped when dropped.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// Maps a file, or reserves address space.
    fn new(bytes: usize, file: Option<&File>) -> anyhow::Result<Mapping> {
        let (access, flags, descriptor) = match file {
            Some(file) => (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE, -1),
        };
        // SAFETY: a new mapping at an address of the system's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, descriptor, 0) };
        ensure!(start != libc::MAP_FAILED, "cannot map {bytes} bytes: {}", io::Error::last_os_error());
        Ok(Mapping { start: start.cast(), bytes })
    }

    /// Maps bytes of a file over a part of it.
    fn overlay(&self, at: usize, bytes: usize, file: &File, offset: usize, populate: bool) -> anyhow::Result<()> {
        assert!(at + bytes <= self.bytes);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | if populate { libc::MAP_POPULATE } else { 0 };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is in this mapping, by the assertion.
        let start = unsafe {
            libc::mmap(self.start.add(at).cast(), bytes, access, flags, file.as_raw_fd(), offset as libc::off_t)
        };
        ensure!(start != libc::MAP_FAILED, "cannot map a leaf of {bytes} bytes: {}", io::Error::last_os_error());
        Ok(())
    }

    /// The words of a part, which is accessible, and which nobody else has words of.
    #[allow(clippy::mut_from_ref, reason = "a mapping is memory, not a value")]
    unsafe fn words(&self, at: usize, bytes: usize) -> &mut [u64] {
        assert!(at + bytes <= self.bytes);
        // SAFETY: by the contract; mappings start at pages, and leaves are whole pages.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at).cast(), bytes / 8) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// A heap with an array's leaves in it, all written.
struct Simulation {
    file: File,
    heap: Mapping,
    /// Where the leaves are.
    offsets: Vec<usize>,
    leaf: usize,
    /// How often all words have been incremented.
    rounds: u64,
}

impl Simulation {
    fn new(experiment: Experiment) -> anyhow::Result<Simulation> {
        // SAFETY: the name is a string that ends with 0.
        let descriptor = unsafe { libc::memfd_create(c"legato-lab".as_ptr(), libc::MFD_CLOEXEC) };
        ensure!(descriptor >= 0, "cannot make a file in memory: {}", io::Error::last_os_error());
        // SAFETY: the descriptor is new, and nobody else's.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(experiment.heap as u64)?;
        let heap = Mapping::new(experiment.heap, Some(&file))?;
        // Some of the places, in random order.
        let mut places: Vec<usize> = (0..experiment.heap / experiment.leaf).collect();
        let mut random = Random::new(experiment.number.into());
        for index in 0..experiment.leaves {
            let other = index + random.below(places.len() - index);
            places.swap(index, other);
        }
        let offsets: Vec<usize> = places[..experiment.leaves].iter().map(|place| place * experiment.leaf).collect();
        for &offset in &offsets {
            // SAFETY: the heap is mapped, and this is its only use.
            unsafe { heap.words(offset, experiment.leaf) }.fill(0);
        }
        Ok(Simulation { file, heap, offsets, leaf: experiment.leaf, rounds: 0 })
    }

    fn bytes(&self) -> usize {
        self.offsets.len() * self.leaf
    }

    fn double_map(&mut self, populate: bool) -> anyhow::Result<()> {
        let view = Mapping::new(self.bytes(), None)?;
        for (number, &offset) in self.offsets.iter().enumerate() {
            view.overlay(number * self.leaf, self.leaf, &self.file, offset, populate)?;
        }
        // SAFETY: all of it has been mapped, and this is its only use.
        modify(unsafe { view.words(0, self.bytes()) });
        self.rounds += 1;
        Ok(())
    }

    fn copy(&mut self) {
        let mut copy: Vec<u64> = Vec::with_capacity(self.bytes() / 8);
        for &offset in &self.offsets {
            // SAFETY: the heap is mapped, and this is its only use.
            copy.extend_from_slice(unsafe { self.heap.words(offset, self.leaf) });
        }
        modify(&mut copy);
        for (leaf, &offset) in copy.chunks(self.leaf / 8).zip(&self.offsets) {
            // SAFETY: the heap is mapped, and this is its only use.
            unsafe { self.heap.words(offset, self.leaf) }.copy_from_slice(leaf);
        }
        self.rounds += 1;
    }

    /// Times some iterations; the time of one.
    fn run(&mut self, mut iterate: impl FnMut(&mut Simulation) -> anyhow::Result<()>) -> anyhow::Result<Time> {
        let iterations = (RUN_BYTES / self.bytes()).max(1);
        let (time, result) = Time::of(|| (0..iterations).try_for_each(|_| iterate(self)));
        result?;
        for &offset in &self.offsets {
            // SAFETY: the heap is mapped, and this is its only use.
            let words = unsafe { self.heap.words(offset, self.leaf) };
            ensure!([words[0], words[self.leaf / 8 - 1]] == [self.rounds; 2], "a leaf has not been modified");
        }
        Ok(Time { wall: time.wall / iterations as f64, user: time.user / iterations as f64 })
    }
}

fn modify(words: &mut [u64]) {
    words.iter_mut().for_each(|word| *word += 1);
}

/// An amount of memory with a fitting unit.
fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= GIB && bytes.is_multiple_of(GIB / 2) => format!("{} GiB", bytes as f64 / GIB as f64),
        bytes if bytes >= MIB => format!("{} MiB", bytes / MIB),
        bytes => format!("{} KiB", bytes / KIB),
    }
}

/// Two rows for each experiment: page table entries made when the leaves are mapped, as Legato does, and at first
/// access.
pub(super) fn measure(options: &Options, report: &mut Report) {
    for experiment in EXPERIMENTS {
        let name = format!("{}: {} leaves of {}", experiment.number, experiment.leaves, size(experiment.leaf));
        eprintln!("experiment {name} ...");
        if let Err(error) = measure_one(experiment, &name, options, report) {
            report.rows.push(Row::failed("mechanism", name, &error));
        }
    }
}

fn measure_one(whole: Experiment, name: &str, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    // The leaves, and the copy.
    let room = if options.smallest { 4 * MIB } else { available()? / PART };
    let leaves = whole.leaves.min(room / 2 / whole.leaf).max(1);
    let scaled = Experiment { leaves, ..whole };
    let (scaled, told) = match options.smallest {
        // The leaves too.
        true => (Experiment { leaf: whole.leaf.min(64 * KIB), ..scaled }, ", smallest".to_string()),
        false if leaves < whole.leaves => (scaled, format!(", scaled to {leaves}")),
        false => (scaled, String::new()),
    };
    let subject = format!("{name}{told}, heap {}", size(scaled.heap));
    let mut simulation = Simulation::new(scaled)?;
    for (populate, how) in [(true, ""), (false, ", on demand")] {
        // Both borrow the simulation, in turns.
        let simulation = std::cell::RefCell::new(&mut simulation);
        let runs = Pairs::run(
            options.pairs,
            || simulation.borrow_mut().run(|it| it.double_map(populate)),
            || {
                simulation.borrow_mut().run(|it| {
                    it.copy();
                    Ok(())
                })
            },
        )?;
        report.rows.push(Row::new("mechanism", format!("{subject}{how}"), None, runs));
    }
    Ok(())
}
