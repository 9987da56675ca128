//! The pieces that an image's code consists of, by address, and what their addresses mean.
//!
//! Pieces are added while other threads, and signal handlers, look addresses up: without locks, as a piece is never
//! changed or taken away, and is there before it is counted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use legato_compiler::artifact::{CallSite, CodeTables, CompiledFunction, Handler, TrapCode};

/// How many places of stack maps, and of pieces, are remembered. A power of two.
pub(super) const FOUND: usize = 256;

/// A piece of code: a whole module's, or what was compiled at once of it.
#[derive(Debug)]
pub(super) struct Part {
    /// Offset of its first byte.
    pub(super) start: u32,
    /// Offset behind its last byte. It counts as the piece's, as a call may be the last instruction: the next piece
    /// begins later.
    pub(super) end: u32,
    /// The functions in it, ascending by offset.
    pub(super) functions: Vec<CompiledFunction>,
    pub(super) tables: CodeTables,
}

/// The pieces of an image, ascending by offset.
#[derive(Debug)]
pub(super) struct Parts {
    parts: Box<[OnceLock<Box<Part>>]>,
    count: AtomicUsize,
    /// For the return addresses looked up last: their piece (upper half), and how many of its stack maps lie before
    /// (lower half).
    found: [AtomicU64; FOUND],
    /// Some offsets looked up last (upper half), and the indices of their pieces (lower half): exceptions leave the
    /// same frames again and again.
    pieces: [AtomicU64; FOUND],
}

impl Parts {
    /// Room for so many pieces.
    pub(super) fn new(capacity: usize) -> Parts {
        let [found, pieces] = [(); 2].map(|()| [const { AtomicU64::new(0) }; FOUND]);
        let parts = (0..capacity).map(|_| OnceLock::new()).collect();
        Parts { parts, count: AtomicUsize::new(0), found, pieces }
    }

    /// Adds the next piece. Only one thread does so at a time.
    ///
    /// # Panics
    /// If there is no room, or the piece does not lie behind the others.
    pub(super) fn add(&self, part: Part) {
        let count = self.count.load(Ordering::Relaxed);
        assert!(count == 0 || self.part(count - 1).end < part.start, "pieces of code ascend");
        self.parts[count].set(Box::new(part)).expect("one thread adds pieces at a time");
        self.count.store(count + 1, Ordering::Release);
    }

    /// The pieces so far.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Part> {
        (0..self.count.load(Ordering::Acquire)).map(|index| self.part(index))
    }

    fn part(&self, index: usize) -> &Part {
        self.parts[index].get().expect("what is counted is there")
    }

    /// Index of the piece that contains an offset.
    fn index_at(&self, offset: u32) -> Option<usize> {
        let remembered = &self.pieces[place(offset)];
        let found = remembered.load(Ordering::Relaxed);
        // At first all places say that offset 0 lies in the first piece.
        if offset != 0 && (found >> 32) as u32 == offset {
            return Some(found as u32 as usize);
        }
        let index = self.search(offset)?;
        remembered.store(u64::from(offset) << 32 | index as u64, Ordering::Relaxed);
        Some(index)
    }

    fn search(&self, offset: u32) -> Option<usize> {
        let (mut low, mut high) = (0, self.count.load(Ordering::Acquire));
        while low < high {
            let middle = low.midpoint(high);
            if self.part(middle).start <= offset { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).filter(|&index| offset <= self.part(index).end)
    }

    fn at(&self, offset: u32) -> Option<&Part> {
        self.index_at(offset).map(|index| self.part(index))
    }

    /// The trap that a fault of the instruction at this offset means.
    pub(super) fn trap_at(&self, offset: u32) -> Option<TrapCode> {
        let traps = &self.at(offset)?.tables.traps;
        traps.binary_search_by_key(&offset, |site| site.offset).ok().map(|found| traps[found].code)
    }

    /// The stack map of the call that returns to this offset.
    pub(super) fn stack_map(&self, offset: u32) -> Option<&[u32]> {
        // Deep stacks have few return addresses: the search is for the first of them, if no other has taken its place.
        let remembered = &self.found[place(offset)];
        let found = remembered.load(Ordering::Relaxed);
        let (mut index, mut before) = ((found >> 32) as usize, found as u32 as usize);
        let contains = |part: &Part| (part.start..=part.end).contains(&offset);
        let is_before = |part: &Part, map: usize| {
            part.tables.stack_maps.entries.get(map).is_some_and(|entry| entry.offset < offset)
        };
        let is_it = |part: &Part, before: usize| {
            contains(part) && !is_before(part, before) && (before == 0 || is_before(part, before - 1))
        };
        if !self.parts.get(index).and_then(OnceLock::get).is_some_and(|part| is_it(part, before)) {
            index = self.index_at(offset)?;
            before = self.part(index).tables.stack_maps.entries.partition_point(|entry| entry.offset < offset);
            remembered.store((index as u64) << 32 | before as u64, Ordering::Relaxed);
        }
        let maps = &self.part(index).tables.stack_maps;
        let entry = maps.entries.get(before).filter(|entry| entry.offset == offset)?;
        Some(&maps.slots[entry.first as usize..][..entry.count as usize])
    }

    /// The call that returns to this offset and its exception handlers.
    pub(super) fn call_site(&self, offset: u32) -> Option<(&CallSite, &[Handler])> {
        let sites = &self.at(offset)?.tables.call_sites;
        let found = sites.entries.binary_search_by_key(&offset, |site| site.offset).ok()?;
        let site = &sites.entries[found];
        Some((site, &sites.handlers[site.first as usize..][..site.count as usize]))
    }

    /// Offsets in the module file of the instruction that the machine instruction at this offset belongs to, and of the
    /// calls that it was inlined at, from the innermost on; none where it is not known.
    pub(super) fn wasm_offsets(&self, offset: u32) -> Vec<u32> {
        let source = || {
            let (function, tables) = (self.function_at(offset)?, &self.at(offset)?.tables);
            let after = tables.addresses.partition_point(|&(start, _)| start <= offset);
            let &(start, source) = tables.addresses.get(after.checked_sub(1)?)?;
            // An entry before the function says nothing about this one.
            (start >= function.range.start).then(|| tables.sources.offsets(source).collect())
        };
        source().unwrap_or_default()
    }

    /// The function that contains an offset; `None` for trampolines.
    pub(super) fn function_at(&self, offset: u32) -> Option<&CompiledFunction> {
        let functions = &self.at(offset)?.functions;
        let after = functions.partition_point(|function| function.range.start <= offset);
        let function = &functions[after.checked_sub(1)?];
        (offset - function.range.start < function.range.length).then_some(function)
    }
}

/// Where something about an offset is remembered.
fn place(offset: u32) -> usize {
    (offset.wrapping_mul(0x9e37_79b1) >> 24) as usize % FOUND
}
