//! How fast memory can be zeroed (Why Nothing Matters, section 4.2 and figure 3).
//!
//! Each thread zeroes a buffer of its own again and again. Outside of the last-level cache all buffers together are
//! several times its size, so that every ordinary store misses; inside they are a quarter of it together.

use crate::tables::{Row, Table, Unit};
use legato_heap::zeroing::Stores;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How long one measurement takes at least.
const DURATION: Duration = Duration::from_millis(50);
/// The last-level cache where the system does not tell.
const CACHE_BYTES: usize = 32 << 20;
/// Buffers outside of the cache are so many times its size together.
const OUTSIDE: usize = 4;
/// Buffers inside of it are this part of its size together.
const INSIDE: usize = 4;
/// How many threads zero at a time.
const THREADS: [usize; 2] = [1, 2];

/// Measures every kind of stores so many times, in turns.
pub(super) fn measure(rounds: usize) -> Table {
    let stores: Vec<Stores> = Stores::ALL.iter().copied().filter(|stores| stores.is_available()).collect();
    let cache = last_level_cache().unwrap_or(CACHE_BYTES);
    let mut rows = Vec::new();
    for (place, bytes) in [("inside", cache / INSIDE), ("outside", cache * OUTSIDE)] {
        for threads in THREADS {
            let mut buffers = vec![vec![1u8; bytes / threads]; threads];
            let mut runs = vec![Vec::new(); stores.len()];
            for _ in 0..rounds {
                for (stores, runs) in stores.iter().zip(&mut runs) {
                    runs.push(bandwidth(*stores, &mut buffers, DURATION));
                }
            }
            rows.push(Row::new(format!("{place} the cache, threads: {threads}"), runs));
        }
    }
    let caption = format!(
        "memory zeroed by loops of stores, all threads together, inside and outside of the last-level cache of {} MiB",
        cache >> 20
    );
    let columns = stores.iter().map(|stores| (stores.name().to_string(), Unit::GigabytesPerSecond)).collect();
    Table { rows, ..Table::new("bandwidth", caption, columns) }
}

/// Bytes zeroed in a second by one thread for each buffer, in units of 10^9. The first pass over a buffer does not
/// count.
fn bandwidth(stores: Stores, buffers: &mut [Vec<u8>], duration: Duration) -> f64 {
    let start = Barrier::new(buffers.len());
    let zero = |buffer: &mut Vec<u8>| {
        stores.zero_slice(buffer);
        start.wait();
        let begin = Instant::now();
        let mut bytes = 0;
        while begin.elapsed() < duration {
            stores.zero_slice(std::hint::black_box(buffer));
            bytes += buffer.len();
        }
        bytes as f64 / begin.elapsed().as_secs_f64() / 1e9
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = buffers.iter_mut().map(|buffer| scope.spawn(|| zero(buffer))).collect();
        threads.into_iter().map(|thread| thread.join().expect("zeroing does not panic")).sum()
    })
}

/// Size of the last-level cache in bytes; `None` where the system does not tell.
fn last_level_cache() -> Option<usize> {
    let folder = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path().join("size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|kibibytes| kibibytes << 10)
    };
    folder.flatten().filter_map(size).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bandwidth_is_measured_and_the_buffers_are_zero() {
        for &stores in Stores::ALL {
            let mut buffers = vec![vec![1u8; 1 << 16]; 2];
            let bandwidth = bandwidth(stores, &mut buffers, Duration::from_millis(1));
            assert!(bandwidth > 0.0 && bandwidth.is_finite(), "{stores:?}: {bandwidth}");
            assert!(buffers.iter().flatten().all(|&byte| byte == 0), "{stores:?}");
        }
    }
}
