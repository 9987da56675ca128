//! Tables and element segments.

use legato_compiler::artifact::TrapCode;
use legato_compiler::module::TableIndex;

use crate::Table;
use crate::builtins::{Pieces, attempt, run, run_without_result};
use crate::instance::segments;
use crate::store::StoreOpaque;

const OUT_OF_BOUNDS: TrapCode = TrapCode::TableOutOfBounds;

fn table(store: &StoreOpaque, instance: u32, index: u32) -> u32 {
    store.state.instances[instance as usize].tables[index as usize]
}

/// `Builtin::TableGrow`: -1 is a refusal, -2 an error of the limiter's.
pub(super) unsafe extern "C" fn grow(context: *mut u8, index: u32, init: u32, delta: u64) -> i64 {
    // SAFETY: a builtin.
    let grown = unsafe {
        attempt(context, |store, instance| {
            let index = table(store, instance, index);
            Ok(store
                .grow_table(index, Pieces::new(delta, Table::ELEMENT_BYTES), init)?
                .map_or(-1, |former| former as i64))
        })
    };
    grown.unwrap_or(-2)
}

/// `Builtin::TableFill`.
pub(super) unsafe extern "C" fn fill(context: *mut u8, index: u32, start: u64, reference: u32, length: u64) -> i64 {
    // SAFETY: a builtin.
    unsafe {
        run(context, |store, instance| {
            let table = &store.state.tables[table(store, instance, index) as usize];
            table.storage.holds(start, length).ok_or(OUT_OF_BOUNDS)?;
            Pieces::new(length, Table::ELEMENT_BYTES).each(&store.interrupt, |piece| {
                let (start, length) = (start + piece.start as u64, piece.len() as u64);
                let filled = table.storage.fill(start, length, reference, &mut store.heap);
                debug_assert!(filled.is_some(), "the range was checked");
            })?;
            Ok(0)
        })
    }
}

/// `Builtin::TableCopy`.
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
            let (to, from) = (table(store, instance, to), table(store, instance, from));
            let backwards = to == from && destination > source;
            let tables = &store.state.tables;
            let (to, from) = (&tables[to as usize].storage, &tables[from as usize].storage);
            to.holds(destination, length).and(from.holds(source, length)).ok_or(OUT_OF_BOUNDS)?;
            let pieces = Pieces::new(length, Table::ELEMENT_BYTES).backwards_if(backwards);
            pieces.each(&store.interrupt, |piece| {
                let (start, length) = (piece.start as u64, piece.len() as u64);
                let copied = to.copy_from(destination + start, from, source + start, length, &mut store.heap);
                debug_assert!(copied.is_some(), "both ranges were checked");
            })?;
            Ok(0)
        })
    }
}

/// `Builtin::TableInit`.
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
            let table = TableIndex(index);
            let pieces = Pieces::new(length.into(), Table::ELEMENT_BYTES);
            segments::table_init(store, instance, table, segment, destination, source.into(), pieces)?;
            Ok(0)
        })
    }
}

/// `Builtin::ElemDrop`.
pub(super) unsafe extern "C" fn elem_drop(context: *mut u8, segment: u32) {
    // SAFETY: a builtin.
    unsafe {
        run_without_result(context, |store, instance| segments::drop_elements(store, instance, segment));
    }
}
