//! Linear memories and data segments.

use legato_compiler::artifact::TrapCode;
use legato_compiler::module::MemoryIndex;

use crate::builtins::{Pieces, attempt, run, run_without_result};
use crate::instance::segments::{self, checked_range};
use crate::store::StoreOpaque;

const OUT_OF_BOUNDS: TrapCode = TrapCode::MemoryOutOfBounds;

fn memory(store: &StoreOpaque, instance: u32, index: u32) -> usize {
    store.state.instances[instance as usize].memories[index as usize] as usize
}

/// `Builtin::MemoryGrow`: -1 is a refusal, -2 an error of the limiter's.
pub(super) unsafe extern "C" fn grow(context: *mut u8, index: u32, delta: u64) -> i64 {
    // SAFETY: a builtin.
    let grown = unsafe {
        attempt(context, |store, instance| {
            let index = memory(store, instance, index) as u32;
            Ok(store.grow_memory(index, delta)?.map_or(-1, |former| former as i64))
        })
    };
    grown.unwrap_or(-2)
}

/// `Builtin::MemoryCopy`.
pub(super) unsafe extern "C" fn copy(
    context: *mut u8,
    to: u32,
    from: u32,
    destination: u64,
    source: u64,
    length: u64,
) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, instance| {
            let (to, from) = (memory(store, instance, to), memory(store, instance, from));
            let backwards = to == from && destination > source;
            let start = |index: usize, start: u64| {
                let memory = store.state.memories[index].storage.head();
                let range = checked_range(start, length, memory.bytes).ok_or(OUT_OF_BOUNDS)?;
                Ok::<_, TrapCode>(memory.base.wrapping_add(range.start))
            };
            let (source, target) = (start(from, source)?, start(to, destination)?);
            Pieces::new(length, 1).backwards_if(backwards).each(&store.interrupt, |piece| {
                // Both ranges were checked; they may overlap.
                std::ptr::copy(source.add(piece.start), target.add(piece.start), piece.len());
            })?;
            Ok(0)
        })
    }
}

/// `Builtin::MemoryFill`.
pub(super) unsafe extern "C" fn fill(context: *mut u8, index: u32, destination: u64, byte: u32, length: u64) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, instance| {
            let index = memory(store, instance, index);
            let bytes = store.state.memories[index].storage.data_mut();
            let range = checked_range(destination, length, bytes.len()).ok_or(OUT_OF_BOUNDS)?;
            let bytes = &mut bytes[range];
            Pieces::new(length, 1).each(&store.interrupt, |piece| bytes[piece].fill(byte as u8))?;
            Ok(0)
        })
    }
}

/// `Builtin::MemoryInit`.
pub(super) unsafe extern "C" fn init(
    context: *mut u8,
    index: u32,
    segment: u32,
    destination: u64,
    source: u32,
    length: u32,
) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, instance| {
            let memory = MemoryIndex(index);
            segments::memory_init(
                store,
                instance,
                memory,
                segment,
                destination,
                source.into(),
                Pieces::new(length.into(), 1),
            )?;
            Ok(0)
        })
    }
}

/// `Builtin::DataDrop`.
pub(super) unsafe extern "C" fn data_drop(context: *mut u8, segment: u32) {
    // SAFETY: a builtin.
    unsafe {
        run_without_result(context, |store, instance| {
            store.state.instances[instance as usize].dropped_data[segment as usize] = true;
        });
    }
}
