//! Whether the declarations of a precompiled module hang together: the rest of this crate takes every index on trust,
//! as one that validation has checked, and the bytes of a file may be damaged.

use std::mem::discriminant;

use legato_compiler::module::{
    CompositeType, ConstOp, ElementItems, ElementMode, ExportKind, FuncIndex, GlobalIndex, HeapType, ImportKind,
    MemoryType, ModuleInfo, StorageType, TypeIndex, ValueType,
};

type Checked = Result<(), &'static str>;

fn ensure(sound: bool, what: &'static str) -> Checked {
    if sound { Ok(()) } else { Err(what) }
}

/// Checks that every index leads to something of the right kind, and that lists that belong together have equal
/// lengths. Says what is wrong.
pub(crate) fn declarations(info: &ModuleInfo) -> Checked {
    types(info)?;
    index_spaces(info)?;
    imports(info)?;
    definitions(info)?;
    exports(info)?;
    segments(info)
}

/// Groups of types follow each other, and refer to themselves and to earlier ones.
fn types(info: &ModuleInfo) -> Checked {
    let (all, canonical) = (&info.types, &info.canonical_types);
    ensure(all.len() == canonical.len() && all.len() < 1 << 30, "types without their equals")?;
    let mut start = 0;
    while start < all.len() {
        let (first, count) = all[start].rec_group;
        let end = start + count as usize;
        let is_group = first.index() == start && count > 0 && end <= all.len();
        ensure(is_group && all[start..end].iter().all(|ty| ty.rec_group == (first, count)), "a broken group of types")?;
        // Either the whole group equals an earlier one, or none of it.
        let is_new = canonical[start].index() == start;
        for index in start..end {
            let (ty, equal) = (&all[index], canonical[index].index());
            ensure(if is_new { (start..=index).contains(&equal) } else { equal < start }, "a type that equals none")?;
            let alike = |a: &CompositeType, b: &CompositeType| discriminant(a) == discriminant(b);
            ensure(alike(&ty.composite, &all[equal].composite), "a type that equals one of another kind")?;
            let extends =
                |above: TypeIndex| above.index() < index && alike(&ty.composite, &all[above.index()].composite);
            ensure(ty.supertype.is_none_or(extends), "a type whose supertype is no such thing")?;
            ensure(values_of(&ty.composite).all(|value| is_value(value, end)), "a type that refers to none")?;
        }
        start = end;
    }
    Ok(())
}

/// The types of values in a composite type.
fn values_of(ty: &CompositeType) -> impl Iterator<Item = ValueType> + '_ {
    let (function, fields): (&[&[ValueType]], &[_]) = match ty {
        CompositeType::Func(ty) => (&[&ty.params, &ty.results], &[]),
        CompositeType::Struct(fields) => (&[], fields),
        CompositeType::Array(element) => (&[], std::slice::from_ref(element)),
    };
    let functions: Vec<ValueType> = function.concat();
    let stored = fields.iter().filter_map(|field| match field.storage {
        StorageType::Value(value) => Some(value),
        StorageType::I8 | StorageType::I16 => None,
    });
    functions.into_iter().chain(stored)
}

/// Whether a value type refers to one of the first `types` types, if to any.
fn is_value(value: ValueType, types: usize) -> bool {
    match value {
        ValueType::Ref(ty) => is_heap(ty.heap, types),
        _ => true,
    }
}

fn is_heap(heap: HeapType, types: usize) -> bool {
    match heap {
        HeapType::Concrete(index) => index.index() < types,
        _ => true,
    }
}

fn is_function_type(info: &ModuleInfo, index: TypeIndex) -> bool {
    info.types.get(index.index()).is_some_and(|ty| matches!(ty.composite, CompositeType::Func(_)))
}

fn is_memory(ty: &MemoryType) -> bool {
    matches!(ty.page_size_log2, 0 | 16)
}

fn index_spaces(info: &ModuleInfo) -> Checked {
    let types = info.types.len();
    let records = info.functions.iter().filter_map(|function| function.func_ref);
    ensure(
        info.functions.iter().all(|function| is_function_type(info, function.ty))
            && records.clone().count() == info.func_ref_count as usize
            && records.clone().all(|record| record < info.func_ref_count),
        "a function without a type or a record",
    )?;
    ensure(info.tags.iter().all(|&index| is_function_type(info, index)), "a tag without a type")?;
    ensure(info.memories.iter().all(is_memory), "a memory with impossible pages")?;
    ensure(info.tables.iter().all(|table| is_heap(table.element.heap, types)), "a table without a type")?;
    ensure(info.globals.iter().all(|global| is_value(global.value, types)), "a global without a type")
}

fn imports(info: &ModuleInfo) -> Checked {
    let types = info.types.len();
    // Functions, memories, tables, globals, tags.
    let mut counts = [0u32; 5];
    for import in &info.imports {
        let (space, sound) = match import.kind {
            ImportKind::Func(ty) => (0, is_function_type(info, ty)),
            ImportKind::Memory(ty) => (1, is_memory(&ty)),
            ImportKind::Table(ty) => (2, is_heap(ty.element.heap, types)),
            ImportKind::Global(ty) => (3, is_value(ty.value, types)),
            ImportKind::Tag(ty) => (4, is_function_type(info, ty)),
        };
        ensure(sound, "an import without a type")?;
        counts[space] += 1;
    }
    let imported = [
        info.imported_functions,
        info.imported_memories,
        info.imported_tables,
        info.imported_globals,
        info.imported_tags,
    ];
    let all = [info.functions.len(), info.memories.len(), info.tables.len(), info.globals.len(), info.tags.len()];
    ensure(counts == imported, "imports that are not counted")?;
    ensure(imported.iter().zip(all).all(|(&imported, all)| imported as usize <= all), "imports that are missing")
}

/// Whether a constant expression refers to what there is. Of the globals it may use the first `globals`.
fn is_constant(info: &ModuleInfo, expression: &[ConstOp], globals: usize) -> bool {
    let is_type = |index: TypeIndex| index.index() < info.types.len();
    let is_struct =
        |index: TypeIndex| is_type(index) && matches!(info.types[index.index()].composite, CompositeType::Struct(_));
    let is_array =
        |index: TypeIndex| is_type(index) && matches!(info.types[index.index()].composite, CompositeType::Array(_));
    expression.iter().all(|op| match *op {
        ConstOp::RefNull(heap) => is_heap(heap, info.types.len()),
        ConstOp::RefFunc(index) => has_record(info, index),
        ConstOp::GlobalGet(GlobalIndex(index)) => (index as usize) < globals,
        ConstOp::StructNew(index) | ConstOp::StructNewDefault(index) => is_struct(index),
        ConstOp::ArrayNew(index) | ConstOp::ArrayNewDefault(index) | ConstOp::ArrayNewFixed(index, _) => {
            is_array(index)
        }
        _ => true,
    })
}

/// Whether a function is there to be referred to.
fn has_record(info: &ModuleInfo, index: FuncIndex) -> bool {
    info.functions.get(index.index()).is_some_and(|function| function.func_ref.is_some())
}

fn definitions(info: &ModuleInfo) -> Checked {
    ensure(
        info.defined_tables.len() == info.tables.len() - info.imported_tables as usize
            && info.defined_globals.len() == info.globals.len() - info.imported_globals as usize,
        "tables or globals that are not defined",
    )?;
    let globals = info.globals.len();
    let tables = info.defined_tables.iter().zip(&info.tables[info.imported_tables as usize..]);
    ensure(
        tables.into_iter().all(|(defined, &ty)| {
            defined.ty == ty && defined.init.as_ref().is_none_or(|init| is_constant(info, init, globals))
        }),
        "a table that begins with nothing",
    )?;
    let imported = info.imported_globals as usize;
    let mut defined = info.defined_globals.iter().enumerate();
    ensure(
        defined.all(|(index, global)| {
            global.ty == info.globals[imported + index] && is_constant(info, &global.init, imported + index)
        }),
        "a global that begins with nothing",
    )?;
    let is_start = |start: FuncIndex| start.index() < info.functions.len();
    ensure(info.start.is_none_or(is_start), "a start function that is missing")
}

fn exports(info: &ModuleInfo) -> Checked {
    let sound = info.exports.iter().all(|(_, kind)| match *kind {
        ExportKind::Func(index) => has_record(info, index),
        ExportKind::Memory(index) => index.index() < info.memories.len(),
        ExportKind::Table(index) => index.index() < info.tables.len(),
        ExportKind::Global(index) => index.index() < info.globals.len(),
        ExportKind::Tag(index) => index.index() < info.tags.len(),
    });
    ensure(sound, "an export of something missing")
}

fn segments(info: &ModuleInfo) -> Checked {
    let globals = info.globals.len();
    let data = info.data.iter().all(|segment| {
        let active = |(memory, offset): &(_, Vec<ConstOp>)| {
            let memory: &legato_compiler::module::MemoryIndex = memory;
            memory.index() < info.memories.len() && is_constant(info, offset, globals)
        };
        segment.active.as_ref().is_none_or(active)
    });
    ensure(data, "a data segment for no memory")?;
    let elements = info.elements.iter().all(|segment| {
        let mode = match &segment.mode {
            ElementMode::Active(table, offset) => {
                table.index() < info.tables.len() && is_constant(info, offset, globals)
            }
            ElementMode::Passive | ElementMode::Declared => true,
        };
        let items = match &segment.items {
            ElementItems::Functions(functions) => functions.iter().all(|&index| has_record(info, index)),
            ElementItems::Expressions(items) => items.iter().all(|item| is_constant(info, item, globals)),
        };
        mode && items && is_heap(segment.ty.heap, info.types.len())
    });
    ensure(elements, "an element segment for no table")
}
