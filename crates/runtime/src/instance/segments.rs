//! Data and element segments. The bulk instructions and instantiation share these.

use anyhow::Result;
use legato_compiler::artifact::TrapCode;
use legato_compiler::module::{ElementItems as Items, ElementSegment, MemoryIndex, TableIndex};
use legato_heap::Reference;

use crate::Trap;
use crate::builtins::Pieces;
use crate::instance::const_expr;
use crate::store::{ElementItems, StoreOpaque};

/// The error of a trap outside of compiled code.
pub(crate) fn into_error(code: TrapCode) -> anyhow::Error {
    Trap::from(code).into()
}

/// Evaluates the elements of a segment, so that they can be copied.
pub(crate) fn evaluate_elements(
    store: &mut StoreOpaque,
    instance: u32,
    number: usize,
    segment: &ElementSegment,
) -> Result<()> {
    let elements = match &segment.items {
        Items::Functions(functions) => {
            let data = &store.state.instances[instance as usize];
            let offset = |&index| Reference(data.func_ref(index).expect("a function of a segment has a record"));
            ElementItems { items: functions.iter().map(offset).collect(), traced: false, is_old: false }
        }
        Items::Expressions(expressions) => {
            let traced = !store.state.instances[instance as usize].module.info().is_func_reference(segment.ty.heap);
            let base = store.state.scratch.len();
            for expression in expressions {
                match const_expr::evaluate(store, instance, expression) {
                    // What is evaluated already is a root while the rest allocates.
                    Ok(bits) => store.state.scratch.push((bits, traced)),
                    Err(error) => {
                        store.state.scratch.truncate(base);
                        return Err(error.context("an element of a segment"));
                    }
                }
            }
            let items = store.state.scratch.drain(base..).map(|(bits, _)| Reference(bits as u32)).collect();
            ElementItems { items, traced, is_old: false }
        }
    };
    store.state.instances[instance as usize].elements[number] = elements;
    Ok(())
}

/// Drops an element segment.
pub(crate) fn drop_elements(store: &mut StoreOpaque, instance: u32, segment: u32) {
    let dropped = std::mem::take(&mut store.state.instances[instance as usize].elements[segment as usize]);
    if dropped.traced {
        store.heap.before_root_store(dropped.items.iter().copied());
    }
}

/// `range` within `length`, both `u64`, as indices.
pub(crate) fn checked_range(start: u64, count: u64, length: usize) -> Option<std::ops::Range<usize>> {
    let end = start.checked_add(count)?;
    (end <= length as u64).then_some(start as usize..end as usize)
}

/// The bytes of a data segment; none once it is dropped.
pub(crate) fn data_bytes(store: &StoreOpaque, instance: u32, segment: u32) -> &[u8] {
    let data = &store.state.instances[instance as usize];
    match data.dropped_data[segment as usize] {
        true => &[],
        false => &data.module.info().data[segment as usize].bytes,
    }
}

/// `memory.init` of all `pieces`, in bytes.
pub(crate) fn memory_init(
    store: &mut StoreOpaque,
    instance: u32,
    memory: MemoryIndex,
    segment: u32,
    destination: u64,
    source: u64,
    pieces: Pieces,
) -> Result<(), TrapCode> {
    let out_of_bounds = TrapCode::MemoryOutOfBounds;
    // Kept by itself, so that its bytes may be read while the memory is written.
    let module = store.state.instances[instance as usize].module.clone();
    let dropped = store.state.instances[instance as usize].dropped_data[segment as usize];
    let bytes: &[u8] = if dropped { &[] } else { &module.info().data[segment as usize].bytes };
    let length = pieces.count();
    let bytes = &bytes[checked_range(source, length, bytes.len()).ok_or(out_of_bounds)?];
    let index = store.state.instances[instance as usize].memories[memory.index()];
    let memory = store.state.memories[index as usize].storage.data_mut();
    let range = checked_range(destination, length, memory.len()).ok_or(out_of_bounds)?;
    let memory = &mut memory[range];
    pieces.each(&store.interrupt, |piece| memory[piece.clone()].copy_from_slice(&bytes[piece]))
}

/// `table.init` of all `pieces`, in elements.
pub(crate) fn table_init(
    store: &mut StoreOpaque,
    instance: u32,
    table: TableIndex,
    segment: u32,
    destination: u64,
    source: u64,
    pieces: Pieces,
) -> Result<(), TrapCode> {
    let out_of_bounds = TrapCode::TableOutOfBounds;
    let length = pieces.count();
    let data = &store.state.instances[instance as usize];
    let items = &data.elements[segment as usize].items;
    let items = &items[checked_range(source, length, items.len()).ok_or(out_of_bounds)?];
    let table = &store.state.tables[data.tables[table.index()] as usize].storage;
    table.holds(destination, length).ok_or(out_of_bounds)?;
    pieces.each(&store.interrupt, |piece| {
        let written = table.write(destination + piece.start as u64, &items[piece], &mut store.heap);
        debug_assert!(written.is_some(), "the range was checked");
    })
}
