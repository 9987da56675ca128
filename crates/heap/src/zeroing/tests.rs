//! Every strategy, width and unit over real memory and real threads.

use super::zeroer::{ZeroRange, Zeroer, ZeroingTimes};
use super::{ConcurrentParams, NonTemporalParams, Zeroing};
use crate::os::Reservation;
use std::time::Duration;

const BLOCK: usize = 32 << 10;

/// Blocks that a program dirties.
struct Nursery {
    memory: Reservation,
    blocks: usize,
}

impl Nursery {
    fn new(blocks: usize) -> Nursery {
        let memory = Reservation::new(blocks * BLOCK, "a test").unwrap();
        memory.commit(0, blocks * BLOCK).unwrap();
        let mut nursery = Nursery { memory, blocks };
        (0..blocks).for_each(|block| nursery.dirty(block));
        nursery
    }

    fn block(&mut self, block: usize) -> &mut [u8] {
        assert!(block < self.blocks);
        // SAFETY: the block is committed; the tests touch it only when it is theirs.
        unsafe { std::slice::from_raw_parts_mut(self.memory.base().add(block * BLOCK), BLOCK) }
    }

    fn dirty(&mut self, block: usize) {
        self.block(block).fill(0xb5);
    }

    fn is_zero(&mut self, block: usize) -> bool {
        self.block(block).iter().all(|&byte| byte == 0)
    }

    /// All blocks, the last first: an order unlike that of the addresses.
    fn ranges(&self) -> Vec<ZeroRange> {
        let address = |block| self.memory.base().wrapping_add(block * BLOCK);
        (0..self.blocks).rev().map(|block| ZeroRange { address: address(block), bytes: BLOCK }).collect()
    }

    /// The block behind a range's index.
    fn of_range(&self, index: usize) -> usize {
        self.blocks - 1 - index
    }
}

fn every_zeroer(mut check: impl FnMut(Zeroer, &str)) {
    for &strategy in Zeroing::ALL {
        for unit_bytes in [4 << 10, 8 << 10, 32 << 10] {
            for stream_bytes in [8, 16, 32] {
                let strategy = match strategy {
                    Zeroing::HotPath | Zeroing::Bulk => strategy,
                    Zeroing::NonTemporal(_) => Zeroing::NonTemporal(NonTemporalParams { stream_bytes }),
                    Zeroing::Concurrent(_) => Zeroing::Concurrent(ConcurrentParams { unit_bytes, stream_bytes }),
                    Zeroing::Adaptive(_) => Zeroing::Adaptive(ConcurrentParams { unit_bytes, stream_bytes }),
                };
                check(Zeroer::new(strategy), &format!("{} unit {unit_bytes} width {stream_bytes}", strategy.name()));
            }
        }
    }
}

#[test]
fn every_strategy_zeroes_what_the_allocator_takes() {
    let mut nursery = Nursery::new(12);
    every_zeroer(|mut zeroer, name| {
        let zeroes = !name.starts_with("hot-path");
        for cycle in 0..20 {
            // SAFETY: the nursery outlives the zeroer, and blocks are used only after they were waited for, or after a
            // stop.
            unsafe { zeroer.start_cycle(nursery.ranges()) };
            // A cycle ends anywhere: before its first block, and in the middle.
            let taken = cycle % 13;
            for index in 0..taken {
                zeroer.wait_for(index);
                let block = nursery.of_range(index);
                assert_eq!(nursery.is_zero(block), zeroes, "{name}, cycle {cycle}, range {index}");
                nursery.dirty(block);
            }
            zeroer.stop();
            for index in taken..nursery.blocks {
                let block = nursery.of_range(index);
                assert!(!zeroer.zeroed(index) || nursery.is_zero(block), "{name}, cycle {cycle}, range {index}");
                nursery.dirty(block);
            }
            assert!(taken == 0 || zeroer.zeroed(taken - 1) == zeroes, "{name}, cycle {cycle}");
        }
        (0..nursery.blocks).for_each(|block| assert!(!nursery.is_zero(block), "{name} wrote after the stop"));
    });
}

#[test]
fn a_range_can_be_skipped() {
    let mut nursery = Nursery::new(4);
    every_zeroer(|mut zeroer, name| {
        (0..4).for_each(|block| nursery.dirty(block));
        // SAFETY: the nursery outlives the zeroer, and blocks are used only after they were waited for, or after a
        // stop.
        unsafe { zeroer.start_cycle(nursery.ranges()) };
        zeroer.wait_for(2);
        zeroer.wait_for(2);
        zeroer.wait_for(0);
        zeroer.stop();
        let zeroes = !name.starts_with("hot-path");
        for index in 0..3 {
            assert_eq!((zeroer.zeroed(index), nursery.is_zero(nursery.of_range(index))), (zeroes, zeroes), "{name}");
        }
    });
}

#[test]
fn ranges_of_any_number_of_pages_are_zeroed() {
    let nursery = Nursery::new(4);
    let base = nursery.memory.base();
    every_zeroer(|mut zeroer, name| {
        // SAFETY: the memory is the nursery's, and nobody looks at it before the stop.
        let memory = unsafe { std::slice::from_raw_parts_mut(base, 4 * BLOCK) };
        memory.fill(1);
        let pages = [(0, 1), (2, 3), (5, 11), (16, 16)];
        let range =
            |&(page, pages): &(usize, usize)| ZeroRange { address: base.wrapping_add(page << 12), bytes: pages << 12 };
        // SAFETY: the memory is the nursery's, and nobody looks at it before the stop.
        unsafe { zeroer.start_cycle(pages.iter().map(range).collect()) };
        zeroer.wait_for(pages.len() - 1);
        zeroer.stop();
        for (page, bytes) in memory.chunks(4096).enumerate() {
            let named = pages.iter().any(|&(first, count)| (first..first + count).contains(&page));
            let zero = named && !name.starts_with("hot-path");
            assert!(bytes.iter().all(|&byte| byte == !zero as u8), "{name}, page {page}");
        }
    });
}

#[test]
fn a_zeroer_is_dropped_at_any_time() {
    let mut nursery = Nursery::new(256);
    for taken in [0, 1, 100] {
        every_zeroer(|mut zeroer, _| {
            // SAFETY: the nursery outlives the zeroer, and a dropped zeroer writes no more.
            unsafe { zeroer.start_cycle(nursery.ranges()) };
            (0..taken).for_each(|index| zeroer.wait_for(index));
            drop(zeroer);
            (0..3).for_each(|block| nursery.dirty(block));
            (0..3).for_each(|block| assert!(!nursery.is_zero(block)));
        });
    }
}

#[test]
fn an_empty_cycle_is_a_cycle() {
    every_zeroer(|mut zeroer, _| {
        for _ in 0..3 {
            // SAFETY: there is no range.
            unsafe { zeroer.start_cycle(Vec::new()) };
            zeroer.stop();
            assert!(!zeroer.zeroed(0));
        }
    });
}

#[test]
fn the_helper_runs_ahead() {
    let mut nursery = Nursery::new(8);
    let mut zeroer = Zeroer::new(Zeroing::Concurrent(ConcurrentParams::DEFAULT));
    // SAFETY: the nursery outlives the zeroer, and is looked at after a stop alone.
    unsafe { zeroer.start_cycle(nursery.ranges()) };
    // The mutator takes nothing, but sooner or later everything is zero: only the helper can have done it. The cycle is
    // stopped and begun again, so that no byte is looked at while the helper may write it.
    for patience in 1.. {
        std::thread::sleep(Duration::from_millis(patience));
        zeroer.stop();
        if zeroer.zeroed(7) {
            break;
        }
        // SAFETY: the nursery outlives the zeroer, and is looked at after a stop alone.
        unsafe { zeroer.start_cycle(nursery.ranges()) };
    }
    assert!((0..8).all(|block| nursery.is_zero(block)));
    let times = zeroer.take_times();
    assert!(times.helper > Duration::ZERO, "{times:?}");
    assert_eq!(zeroer.take_times(), ZeroingTimes::default());
}

#[test]
fn a_zeroer_moves_between_threads() {
    let mut nursery = Nursery::new(64);
    let mut zeroer = Zeroer::new(Zeroing::Concurrent(ConcurrentParams::DEFAULT));
    for index in 0..8 {
        let ranges = nursery.ranges();
        zeroer = std::thread::spawn(move || {
            // SAFETY: the nursery outlives the zeroer, and is looked at after a stop alone.
            unsafe { zeroer.start_cycle(ranges) };
            (0..index).for_each(|index| zeroer.wait_for(index));
            zeroer
        })
        .join()
        .unwrap();
        zeroer.wait_for(index);
        assert!((0..=index).all(|index| nursery.is_zero(nursery.of_range(index))));
        zeroer.stop();
        (0..64).for_each(|block| nursery.dirty(block));
    }
}
