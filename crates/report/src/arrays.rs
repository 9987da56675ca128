//! What a heap says of its arrays, in words.

use legato_heap::HeapStats;

use crate::page::units::{bytes, count};

/// A name and a sentence for each thing that there is to say: of leaves, of arrays by pages, of views, of counted
/// accesses.
pub(crate) fn describe(heap: &HeapStats) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let arrays = &heap.arrays;
    if arrays.leaves_lazy + arrays.leaves_allocated > 0 {
        let never = arrays.leaves_lazy.saturating_sub(arrays.leaves_on_store + arrays.leaves_grown);
        let leaves = format!(
            "{} in use; {} allocated, {} never, {} grown over, {} of zeros freed, {} shared, {} of these copied at a store",
            bytes(arrays.leaf_bytes),
            count(arrays.leaves_allocated),
            count(never),
            count(arrays.leaves_grown),
            count(arrays.leaves_compressed),
            count(arrays.leaves_shared),
            count(arrays.leaves_unshared),
        );
        rows.push(("leaves", leaves));
    }
    if heap.mapped_bytes + heap.mapped_zeros_bytes + heap.mapped_shared_bytes > 0 {
        let pages = format!(
            "{} of memory for {} of arrays; {} of zeros given back, {} shared",
            bytes(heap.mapped_memory_bytes),
            bytes(heap.mapped_bytes),
            bytes(heap.mapped_zeros_bytes),
            bytes(heap.mapped_shared_bytes),
        );
        rows.push(("pages", pages));
    }
    if arrays.views_made + arrays.view_copies > 0 {
        let views = format!(
            "{} mapped, {} alive with {}; {} copies",
            count(arrays.views_made),
            count(arrays.views_alive),
            bytes(arrays.view_bytes),
            count(arrays.view_copies),
        );
        rows.push(("views", views));
    }
    let accesses = &arrays.accesses;
    let [fast, slow] = [accesses.fast_reads + accesses.fast_writes, accesses.slow_reads + accesses.slow_writes];
    if fast + slow > 0 {
        rows.push(("accesses", format!("{} within the first N bytes, {} beyond", count(fast), count(slow))));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_is_told() {
        assert!(describe(&HeapStats::default()).is_empty());
        let mut heap = HeapStats { mapped_bytes: 64 << 10, ..HeapStats::default() };
        heap.arrays.leaves_lazy = 100;
        heap.arrays.leaves_on_store = 30;
        heap.arrays.leaves_grown = 20;
        heap.arrays.view_copies = 3;
        heap.arrays.accesses.slow_writes = 7;
        let rows = describe(&heap);
        assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), ["leaves", "pages", "views", "accesses"]);
        assert!(rows[0].1.contains("50 never, 20 grown over"), "{rows:?}");
        assert!(rows[2].1.ends_with("3 copies") && rows[3].1.ends_with("7 beyond"), "{rows:?}");
    }
}
