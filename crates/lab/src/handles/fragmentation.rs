//! A heap is filled with objects of mixed sizes, four in five are freed at random, and the program goes on with other
//! sizes: blocks of the first sizes are left, each with a few objects.

use crate::heaps::Comparison;
use crate::random::Random;
use crate::tables::{Report, Row, Table, Unit};
use legato_heap::layout::StorageKind;
use legato_heap::{Cause, Heap, HeapConfig, HeapStats, Reference, RootStack, TypeId, TypeInfo, TypeShape, TypeTable};

/// Objects at first, and those at the smallest size.
const OBJECTS: u32 = 1_000_000;
const FEW_OBJECTS: u32 = 60_000;
/// Fields of eight bytes: at first, and afterwards.
const FIRST_FIELDS: [usize; 5] = [1, 3, 6, 11, 24];
const LATER_FIELDS: [usize; 3] = [2, 8, 17];
/// One in so many objects lives on.
const SURVIVING: usize = 5;

/// Adds the table.
pub(super) fn measure(models: &Comparison, smallest: bool, report: &mut Report) {
    let columns = ["live", "used, full", "used, freed", "used, compacted", "of it, handles", "committed", "moved"];
    let mut table = Table::new(
        "fragmentation",
        "what lives in the end; blocks in use when the heap is full, when four in five objects are freed, and when it \
         has been compacted, and those of handles then, which do not move; memory then; cells moved",
        columns.map(|name| (name.to_string(), Unit::Megabytes)).to_vec(),
    );
    for model in models.all() {
        eprintln!("fragmentation: {} ...", model.name);
        table.rows.push(match run(&model.heap, if smallest { FEW_OBJECTS } else { OBJECTS }) {
            Ok(cells) => Row::new(&model.name, cells.map(|cell| vec![cell as f64]).to_vec()),
            Err(error) => Row::failed(&model.name, &error),
        });
    }
    report.tables.push(table);
}

fn run(heap: &[String], objects: u32) -> anyhow::Result<[u64; 7]> {
    let mut config = HeapConfig::default();
    for (key, value) in heap.iter().filter_map(|option| option.split_once('=')) {
        config.set(key, value)?;
    }
    let types = TypeTable::new()?;
    let register = |shape| types.register(TypeInfo { shape, supertype: None });
    let list = register(TypeShape::Array(StorageKind::Ref))?;
    let of_fields = |fields: usize| register(TypeShape::Struct(vec![StorageKind::I64; fields]));
    let first: Vec<TypeId> = FIRST_FIELDS.iter().map(|&fields| of_fields(fields)).collect::<Result<_, _>>()?;
    let later: Vec<TypeId> = LATER_FIELDS.iter().map(|&fields| of_fields(fields)).collect::<Result<_, _>>()?;
    let mut heap = Heap::new(&config, types)?;
    let mut roots = RootStack::new();
    let all = heap.allocate_array(list, objects, &mut roots)?;
    // SAFETY: the array has just been allocated, and `heap` gets these roots in every call.
    unsafe { roots.push(all) };
    let mut random = Random::new(1);
    let fill = |heap: &mut Heap, roots: &mut RootStack, random: &mut Random, index: u32, types: &[TypeId]| {
        let object = heap.allocate_struct(types[random.below(types.len())], roots)?;
        // SAFETY: both are live: the array is a root, and the object has just been allocated.
        unsafe { heap.array_set_reference(roots.get(0), index, object) }?;
        anyhow::Ok(())
    };
    for index in 0..objects {
        fill(&mut heap, &mut roots, &mut random, index, &first)?;
    }
    let full = heap.stats().used_bytes;
    let mut freed = Vec::new();
    for index in 0..objects {
        if random.below(SURVIVING) > 0 {
            // SAFETY: the array is a root.
            unsafe { heap.array_set_reference(roots.get(0), index, Reference::NULL) }?;
            freed.push(index);
        }
    }
    // What is used again of it all: an eighth, of other sizes.
    for &index in freed.iter().step_by(8) {
        fill(&mut heap, &mut roots, &mut random, index, &later)?;
    }
    let freed = heap.stats().used_bytes;
    // The first finds what is dead, and moves what lives; the second frees old copies.
    heap.collect(Cause::Requested, &mut roots);
    heap.collect(Cause::Requested, &mut roots);
    heap.trim(&mut roots);
    let stats = heap.stats();
    let HeapStats { live_bytes, used_bytes, handle_bytes, committed_bytes, moved_bytes, .. } = stats;
    Ok([live_bytes, full, freed, used_bytes, handle_bytes, committed_bytes, moved_bytes])
}
