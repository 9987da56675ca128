//! What mapped arrays cost and save, without any compiled code: `cargo run --release -p legato-heap --example mapped --
//! [key=value ...]`, with the keys of the heap's configuration (`arrays=contiguous` to compare).
//!
//! For arrays of several sizes, prints the time in microseconds (the median of some rounds) that it takes to allocate
//! one and write it whole while as many die, to copy it to one that has been written, and to a new one: for the first,
//! second and third time, without and with reading the copy afterwards. Beside them, what the C library takes to copy
//! as much between buffers that have been written.

use legato_heap::arrays::MappedParams;
use legato_heap::layout::StorageKind;
use legato_heap::{Arrays, Cause, Heap, HeapConfig, Reference, RootStack, TypeId, TypeInfo, TypeShape, TypeTable};
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

const KIB: [u32; 5] = [64, 256, 1 << 10, 8 << 10, 64 << 10];
const ROUNDS: usize = 21;

/// The time that `what` takes in microseconds, and its result.
fn timed<T>(what: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = what();
    (start.elapsed().as_secs_f64() * 1e6, result)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Reads a byte of each page.
fn read(heap: &Heap, array: Reference, bytes: u32) {
    let first = heap.object_address(array);
    // SAFETY: the bytes lie in the array.
    (0..bytes as usize).step_by(4096).for_each(|at| _ = black_box(unsafe { first.add(at).read() }));
}

fn new_heap(config: &HeapConfig) -> Result<(Heap, TypeId), Box<dyn Error>> {
    let types = TypeTable::new()?;
    let id = types.register(TypeInfo { shape: TypeShape::Array(StorageKind::I8), supertype: None })?;
    Ok((Heap::new(config, types)?, id))
}

/// The C library's time.
fn plain(bytes: u32) -> f64 {
    let (from, mut to) = (vec![1u8; bytes as usize], vec![2u8; bytes as usize]);
    median((0..ROUNDS).map(|_| timed(|| black_box(&mut to).copy_from_slice(black_box(&from))).0).collect())
}

/// Allocates, writes and drops.
fn churn(config: &HeapConfig, bytes: u32) -> Result<f64, Box<dyn Error>> {
    let (mut heap, id) = new_heap(config)?;
    let mut roots = RootStack::of_nulls(4);
    let rounds = 20 + (256 << 20) / bytes as usize;
    let (time, result) = timed(|| -> Result<(), Box<dyn Error>> {
        for round in 0..rounds {
            let array = heap.allocate_array(id, bytes, &mut roots)?;
            // SAFETY: it has just been allocated.
            unsafe { heap.array_fill(array, 0, 1, bytes)? };
            // SAFETY: it has just been allocated; the heap gets these roots in every call.
            unsafe { roots.set(round % 4, array) };
        }
        Ok(())
    });
    result?;
    Ok(time / rounds as f64)
}

/// Copies to an array that has been written, then to three new ones; then the time to read each of these.
fn copies(config: &HeapConfig, bytes: u32) -> Result<[f64; 7], Box<dyn Error>> {
    let (mut heap, id) = new_heap(config)?;
    let mut times = [const { Vec::new() }; 7];
    for _ in 0..ROUNDS {
        let mut roots = RootStack::new();
        for _ in 0..2 {
            let array = heap.allocate_array(id, bytes, &mut roots)?;
            // SAFETY: it has just been allocated.
            unsafe { heap.array_fill(array, 0, 1, bytes)? };
            // SAFETY: as in `churn`.
            unsafe { roots.push(array) };
        }
        for _ in 0..4 {
            // SAFETY: both are roots.
            unsafe { heap.array_copy(roots.get(1), 0, roots.get(0), 0, bytes)? };
        }
        // SAFETY: both are roots.
        times[0].push(timed(|| unsafe { heap.array_copy(roots.get(1), 0, roots.get(0), 0, bytes) }).0);
        for copy in 0..3 {
            let array = heap.allocate_array(id, bytes, &mut roots)?;
            // SAFETY: as in `churn`.
            unsafe { roots.push(array) };
            // SAFETY: both are roots.
            times[1 + copy].push(timed(|| unsafe { heap.array_copy(array, 0, roots.get(0), 0, bytes) }).0);
            times[4 + copy].push(timed(|| read(&heap, array, bytes)).0);
        }
        roots.truncate(0);
        heap.collect(Cause::Requested, &mut roots);
    }
    Ok(times.map(median))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arrays = Arrays::Mapped(MappedParams::DEFAULT);
    let mut config = HeapConfig { arrays, min_bytes: 0, max_bytes: Some(4 << 30), ..HeapConfig::default() };
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').ok_or("arguments are key=value")?;
        config.set(key, value)?;
    }
    println!("arrays={}", config.arrays.name());
    println!(
        "{:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "KiB", "C copy", "churn", "written", "1st", "2nd", "3rd", "read 1st", "read 2nd", "read 3rd"
    );
    for kib in KIB {
        let bytes = kib << 10;
        let copies = copies(&config, bytes)?.map(|time| format!("{time:9.1}")).join(" ");
        println!("{kib:7} {:9.1} {:9.1} {copies}", plain(bytes), churn(&config, bytes)?);
    }
    Ok(())
}
