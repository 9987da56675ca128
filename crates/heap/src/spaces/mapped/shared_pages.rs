//! The pages that mapped arrays share: where they lie in the heap's one file in memory, and how many arrays show each.
//!
//! Pages get into the file when an array is copied, and are never changed there: arrays show them through private
//! mappings, and the system gives whoever writes a page its own copy of it. A page that no array shows any more is
//! punched out. Offsets in the file are not used twice; a file has more of them than a machine can write in years.

use crate::blocks::BlockPool;
use crate::os::page_bytes;
use crate::os::sharing::MemoryFile;
use std::collections::BTreeMap;

/// Pages of an array that are mapped from the file, consecutive in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// First page, counted from the array's start.
    pub(super) first: u32,
    pub(super) pages: u32,
    /// First page in the file.
    pub(super) file: u64,
    /// Whether the array has written every one of them, so that it does not need the file's any more: it is not counted
    /// among those that show them.
    pub(super) is_own: bool,
}

impl Extent {
    /// One past the last page.
    pub(super) fn end(self) -> u32 {
        self.first + self.pages
    }

    /// The part from page `first` up to `end`, which it contains.
    pub(super) fn part(self, first: u32, end: u32) -> Extent {
        Extent { first, pages: end - first, file: self.file + (first - self.first) as u64, ..self }
    }
}

/// Pages written in one go.
#[derive(PartialEq, Eq, Debug)]
struct Run {
    /// How many arrays show each.
    counts: Vec<u32>,
    /// Pages that some array shows.
    held: u32,
}

/// The file, and who shows what of it.
#[derive(Debug, Default)]
pub(super) struct SharedPages {
    /// Made when it is needed for the first time.
    file: Option<MemoryFile>,
    /// The pages written in one go, by the first one's number.
    runs: BTreeMap<u64, Run>,
    /// One past the last page ever written.
    end: u64,
    /// Pages that arrays show.
    held: u64,
}

impl SharedPages {
    /// Pages that arrays show.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Writes whole pages to the file, for one array; returns the number of the first. `None` where the system has no
    /// memory.
    pub(super) fn store(&mut self, contents: &[u8]) -> Option<u64> {
        if self.file.is_none() {
            self.file = Some(MemoryFile::new(c"legato-heap", 0, "shared pages").ok()?);
        }
        let (file, first) = (self.file.as_ref()?, self.end);
        let pages = contents.len() / page_bytes() as usize;
        self.end += pages as u64;
        if !file.write(offset(first), contents) {
            file.punch(offset(first), contents.len() as u64);
            return None;
        }
        self.runs.insert(first, Run { counts: vec![1; pages], held: pages as u32 });
        self.held += pages as u64;
        Some(first)
    }

    /// Maps the extent over pages of the array at cage offset `start`; returns whether the system did so. Does not
    /// count the array.
    pub(super) fn map(&self, pool: &BlockPool, start: u32, extent: Extent) -> bool {
        let Some(file) = &self.file else { return false };
        let at = start + extent.first * page_bytes();
        pool.cage.map_file(at, extent.pages as usize * page_bytes() as usize, file, offset(extent.file))
    }

    /// Reads an extent's pages; returns whether the system did so.
    pub(super) fn load(&self, extent: Extent, contents: &mut [u8]) -> bool {
        self.file.as_ref().is_some_and(|file| file.read(offset(extent.file), contents))
    }

    /// The run of an extent's pages, with its first page, and which of it they are.
    fn run(&mut self, extent: Extent) -> (u64, &mut Run, std::ops::Range<usize>) {
        let found = self.runs.range_mut(..=extent.file).next_back();
        let (&first, run) = found.expect("an array shows pages that have been written");
        let start = (extent.file - first) as usize;
        (first, run, start..start + extent.pages as usize)
    }

    /// Counts one more array that shows an extent.
    pub(super) fn add(&mut self, extent: Extent) {
        let (_, run, pages) = self.run(extent);
        run.counts[pages].iter_mut().for_each(|count| *count += 1);
    }

    /// Counts one array less, and frees the pages that no array shows. Nothing to do for pages that are the array's
    /// own.
    pub(super) fn remove(&mut self, extent: Extent) {
        if extent.is_own {
            return;
        }
        let (run_first, run, pages) = self.run(extent);
        run.counts[pages.clone()].iter_mut().for_each(|count| *count -= 1);
        let mut freed = Vec::new();
        for page in pages.filter(|&page| run.counts[page] == 0) {
            run.held -= 1;
            match freed.last_mut() {
                Some((first, length)) if *first + *length == page => *length += 1,
                _ => freed.push((page, 1)),
            }
        }
        if run.held == 0 {
            self.runs.remove(&run_first);
        }
        for (first, length) in freed {
            self.held -= length as u64;
            if let Some(file) = &self.file {
                // Where the system refuses, the memory is lost until the heap goes, and nothing else.
                file.punch(offset(run_first + first as u64), offset(length as u64));
            }
        }
    }

    /// Checks the counts against the extents of all arrays; says what disagrees.
    pub(super) fn check<'a>(&self, extents: impl Iterator<Item = &'a Extent>) -> Result<(), String> {
        let mut expected: BTreeMap<u64, Run> = BTreeMap::new();
        for extent in extents.filter(|extent| !extent.is_own) {
            let found = self.runs.range(..=extent.file).next_back();
            let Some((&first, run)) = found.filter(|(first, run)| {
                extent.pages > 0 && extent.file + extent.pages as u64 <= **first + run.counts.len() as u64
            }) else {
                return Err(format!("{extent:?} shows pages that are not in the file"));
            };
            let shown = expected.entry(first).or_insert_with(|| Run { counts: vec![0; run.counts.len()], held: 0 });
            let start = (extent.file - first) as usize;
            shown.counts[start..start + extent.pages as usize].iter_mut().for_each(|count| *count += 1);
        }
        for run in expected.values_mut() {
            run.held = run.counts.iter().filter(|&&count| count > 0).count() as u32;
        }
        let held = expected.values().map(|run| u64::from(run.held)).sum::<u64>();
        if expected != self.runs || held != self.held {
            return Err(format!("{} shared pages are counted, but arrays show {held}, or others", self.held));
        }
        Ok(())
    }
}

/// Bytes of so many pages.
fn offset(pages: u64) -> u64 {
    pages * page_bytes() as u64
}
