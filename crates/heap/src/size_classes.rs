//! The size classes of small objects.
//!
//! Multiples of 8 up to 112 bytes, then steps of about an eighth, each rounded up to the largest cell of which equally
//! many fit a block; from 2 KiB on, the cells that divide a block into 14 to 2 parts. An object wastes at most 12 % of
//! its cell up to 2 KiB (except for the step from 8 to 16 bytes below 32), and nothing of note at a block's end.

use crate::geometry::BLOCK_BYTES;
use std::sync::LazyLock;

/// The most size classes a heap may have.
pub const MAX_SIZE_CLASSES: usize = 48;
/// The largest object that lives in a size class, in bytes. Larger ones are large objects.
pub const MAX_SMALL_BYTES: u32 = BLOCK_BYTES / 2;

/// The smallest cell, and the largest of those of which there is one for each number of 8-byte words.
const LEAST_WORDS: u32 = 2;
const EXACT_WORDS: u32 = 14;

static CELLS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut cells: Vec<u32> = (LEAST_WORDS..=EXACT_WORDS).map(|words| words * 8).collect();
    let mut target = EXACT_WORDS * 8;
    loop {
        target += (target / 8).next_multiple_of(8);
        let cell = (BLOCK_BYTES / (BLOCK_BYTES / target)) & !7;
        if cell > 2048 {
            break;
        }
        cells.push(cell);
    }
    cells.extend([14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2].map(|parts| (BLOCK_BYTES / parts) & !7));
    assert!(cells.len() <= MAX_SIZE_CLASSES, "{} size classes", cells.len());
    cells
});

/// Cell size of each class in bytes, ascending.
pub fn cell_bytes() -> &'static [u32] {
    &CELLS
}

/// Maps an object's size to its class.
#[derive(Debug)]
pub(crate) struct SizeClasses {
    cells: &'static [u32],
    /// Class of each size in 8-byte words.
    of_words: Vec<u8>,
}

impl SizeClasses {
    /// Builds the look-up table.
    pub(crate) fn new() -> SizeClasses {
        let cells = cell_bytes();
        let of_words = (0..=MAX_SMALL_BYTES / 8).map(|words| cells.partition_point(|&cell| cell < words * 8) as u8);
        SizeClasses { cells, of_words: of_words.collect() }
    }

    /// The class that holds an object of `bytes`, or `None` for a large one.
    #[inline]
    pub(crate) fn of(&self, bytes: u32) -> Option<usize> {
        if bytes > MAX_SMALL_BYTES { None } else { Some(self.of_words[bytes.div_ceil(8) as usize] as usize) }
    }

    /// The class that holds an object of `bytes`, which is no large one.
    #[inline(always)]
    pub(crate) fn of_small(&self, bytes: u32) -> usize {
        let words = bytes.div_ceil(8);
        // Computed sooner than looked up.
        if words <= EXACT_WORDS {
            words.saturating_sub(LEAST_WORDS) as usize
        } else {
            self.of_words[words as usize].into()
        }
    }

    /// Bytes of a cell of `class`.
    #[inline]
    pub(crate) fn cell(&self, class: usize) -> u32 {
        self.cells[class]
    }

    /// The number of classes.
    pub(crate) fn count(&self) -> usize {
        self.cells.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SizeRun;

    #[test]
    fn classes_ascend_and_waste_little() {
        let cells = cell_bytes();
        assert!(cells.is_sorted_by(|a, b| a < b) && cells.len() <= MAX_SIZE_CLASSES);
        assert_eq!((cells[0], *cells.last().unwrap()), (16, MAX_SMALL_BYTES));
        assert!(cells.iter().all(|cell| cell % 8 == 0));
        let classes = SizeClasses::new();
        for bytes in (40..=2048).step_by(8) {
            let cell = classes.cell(classes.of(bytes).unwrap());
            let waste = (cell - bytes) as f64 / cell as f64;
            assert!(cell >= bytes && waste < 0.13, "{bytes} bytes in a cell of {cell}");
        }
        for &cell in cells {
            assert!((BLOCK_BYTES % cell) as f64 / (BLOCK_BYTES as f64) < 0.03, "the end of a block of {cell}");
        }
    }

    #[test]
    fn all_look_ups_agree() {
        let classes = SizeClasses::new();
        let config = crate::HeapConfig { collector: crate::Collector::MarkSweep, ..crate::HeapConfig::default() };
        let plan = config.access_plan().allocation;
        for bytes in 8..=MAX_SMALL_BYTES + 8 {
            let inline = plan.inline_run(bytes).map(|run| run.cell_bytes);
            assert_eq!(classes.of(bytes).map(|class| classes.cell(class)), inline);
            assert_eq!(classes.of(bytes), inline.map(|_| classes.of_small(bytes)));
        }
        for (entry, words) in SizeRun::table(cell_bytes()).into_iter().zip(0..) {
            let run = plan.inline_run(8 * words).unwrap();
            assert_eq!((entry.run_offset.into(), entry.cell_bytes.into()), (run.run_offset, run.cell_bytes));
        }
    }
}
