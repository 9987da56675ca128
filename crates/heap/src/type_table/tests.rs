//! What the table answers, with types that come and go.

use super::*;
use proptest::prelude::*;

fn structure(fields: &[StorageKind], supertype: Option<TypeId>) -> TypeInfo {
    TypeInfo { shape: TypeShape::Struct(fields.to_vec()), supertype }
}

#[test]
fn displays_answer_subtyping_at_any_depth() {
    let table = TypeTable::new().unwrap();
    let mut chain = vec![table.register(structure(&[], None)).unwrap()];
    for _ in 0..20 {
        chain.push(table.register(structure(&[StorageKind::Ref], chain.last().copied())).unwrap());
    }
    let stranger = table.register(structure(&[StorageKind::Ref], Some(chain[0]))).unwrap();
    for (i, &a) in chain.iter().enumerate() {
        for (j, &b) in chain.iter().enumerate() {
            assert_eq!(table.is_subtype(a, b), i >= j);
        }
        assert_eq!(table.is_subtype(stranger, a), i == 0);
        assert!(!table.is_subtype(a, stranger));
    }
}

#[test]
fn records_tell_where_the_references_are() {
    use StorageKind::{I8, I32, I64, Ref};
    let table = TypeTable::new().unwrap();
    let id = table.register(structure(&[I8, Ref, I64, Ref], None)).unwrap();
    assert_eq!(table.record(id).reference_map, 0b1_0010);
    assert_eq!(table.reference_offsets(id), [12, 24]);
    let exception = TypeInfo { shape: TypeShape::Exception(vec![Ref]), supertype: None };
    let exception = table.register(exception).unwrap();
    assert_eq!(table.layout(exception).unwrap().offsets, [8, 12]);
    assert_eq!(table.record(exception).reference_map, 0b10);
    let many = table.register(structure(&[[I32; 70].as_slice(), &[Ref]].concat(), None)).unwrap();
    assert_eq!((table.record(many).many_references, table.reference_offsets(many)), (1, [288].as_slice()));
}

#[test]
fn records_tell_what_need_not_be_looked_at() {
    use StorageKind::{I32, I64, Ref};
    let table = TypeTable::new().unwrap();
    let reference_free = |shape, fields: &[usize]| {
        let id = table.register_with_reference_free(TypeInfo { shape, supertype: None }, fields).unwrap();
        table.record(id).reference_free
    };
    let fields = vec![Ref, I64, Ref, Ref];
    assert_eq!(reference_free(TypeShape::Struct(fields.clone()), &[]), 0);
    assert_eq!(reference_free(TypeShape::Struct(fields.clone()), &[0, 1, 3, 7]), 0b10_0001);
    assert_eq!(reference_free(TypeShape::Array(Ref), &[0]), 1);
    assert_eq!(reference_free(TypeShape::Array(I32), &[0]), 0);
    let far = [[I32; 31].as_slice(), &[Ref, Ref]].concat();
    assert_eq!(reference_free(TypeShape::Struct(far), &[31, 32]), 1 << 31);
    let many = [[I32; 70].as_slice(), &[Ref]].concat();
    assert_eq!(reference_free(TypeShape::Struct(many), &[70]), 0);
    assert_eq!(reference_free(TypeShape::Exception(fields), &[0]), 0);
}

#[test]
fn wrong_descriptions_are_refused() {
    let table = TypeTable::new().unwrap();
    let base = table.register(structure(&[StorageKind::I32], None)).unwrap();
    assert!(table.register(structure(&[StorageKind::Ref], Some(base))).is_err());
    assert!(table.register(structure(&[], Some(TypeId(base.0 + 8)))).is_err());
    assert!(table.register(structure(&[], Some(TypeId(1 << 20)))).is_err());
    let array = TypeInfo { shape: TypeShape::Array(StorageKind::I32), supertype: Some(base) };
    assert!(table.register(array).is_err());
    assert!(!table.contains(TypeId(0)) && table.contains(TypeTable::EXTERNAL));
}

#[test]
fn a_table_takes_a_small_part_of_a_limited_address_space() {
    let left = |left: u64| reserved(Some(AddressSpace { limit_bytes: left + 7, used_bytes: 7 }));
    assert_eq!((reserved(None), left(u64::MAX - 7), left(4 << 30)), (RESERVED_BYTES, RESERVED_BYTES, RESERVED_BYTES));
    assert_eq!((left((1 << 30) - 1), left(0)), (63 << 20, 1 << 20));
}

#[test]
fn only_the_ids_of_records_are_known() {
    let table = TypeTable::new().unwrap();
    let mut known: Vec<TypeId> = (0..50).map(|_| table.register(structure(&[], None)).unwrap()).collect();
    known.push(TypeTable::EXTERNAL);
    let end = known.iter().map(|id| id.0).max().unwrap() + 4096;
    let tops = (0..4096).map(|below| u32::MAX - below);
    for id in (0..end).chain(tops).map(TypeId) {
        assert_eq!(table.contains(id), known.contains(&id), "{id:?}");
    }
    proptest!(|(id: u32)| prop_assert_eq!(table.contains(TypeId(id)), known.contains(&TypeId(id))));
}

#[test]
fn threads_register_and_read_at_once() {
    let table = TypeTable::new().unwrap();
    let threads = (0..4).map(|_| {
        let table = table.clone();
        std::thread::spawn(move || {
            let mut last = None;
            for _ in 0..3000 {
                let supertype = if last.is_some_and(|id| table.record(id).display_length < 10) { last } else { None };
                let id = table.register(structure(&[], supertype)).unwrap();
                assert!(supertype.is_none_or(|above| table.is_subtype(id, above)));
                assert_eq!(table.info(id).supertype, supertype);
                last = Some(id);
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn records_of_released_types_are_used_again() {
    let table = TypeTable::new().unwrap();
    let base = table.register(structure(&[StorageKind::I32], None)).unwrap();
    let mut ends = Vec::new();
    for round in 0..1000 {
        let fields = [StorageKind::I32, if round % 2 == 0 { StorageKind::Ref } else { StorageKind::I64 }];
        let below = table.register(structure(&fields, Some(base))).unwrap();
        let alone = table.register(structure(&fields[1..], None)).unwrap();
        assert!(table.is_subtype(below, base) && !table.is_subtype(alone, base));
        assert_eq!(table.reference_offsets(alone).len(), 1 - round % 2);
        // Compiled code reads the first entries of a display without asking for its length.
        // SAFETY: the record and its display are committed.
        let display = unsafe { std::slice::from_raw_parts(table.display(alone), MIN_DISPLAY as usize) };
        assert_eq!(display, [alone.0, 0, 0, 0, 0, 0, 0, 0]);
        ends.push(table.state.lock().unwrap().room.end);
        // SAFETY: nobody else knows them.
        unsafe { [below, alone].into_iter().for_each(|id| table.release(id)) };
        assert!(!table.contains(below) && !table.contains(alone) && table.contains(base));
    }
    assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "nothing was used again");
    let mut chain = vec![base];
    for _ in 0..20 {
        chain.push(table.register(structure(&[StorageKind::I32], chain.last().copied())).unwrap());
    }
    let (deep, deepest) = (chain[19], chain[20]);
    // SAFETY: nobody else knows it, and nothing is below it.
    unsafe { table.release(deepest) };
    assert_eq!(table.register(structure(&[StorageKind::I32], Some(deep))).unwrap(), deepest);
}

#[test]
#[should_panic(expected = "is not a type of this table")]
fn a_released_type_is_known_no_more() {
    let table = TypeTable::new().unwrap();
    let id = table.register(structure(&[], None)).unwrap();
    // SAFETY: nobody else knows it.
    unsafe { table.release(id) };
    table.info(id);
}

#[test]
fn a_full_table_has_room_for_other_types_once_its_own_are_released() {
    let table = TypeTable::new().unwrap();
    let deep = |last: TypeId| table.register(structure(&[], Some(last)));
    let base = table.register(structure(&[], None)).unwrap();
    // Each takes 4 bytes more than the one before.
    let mut chain = vec![base];
    let error = loop {
        match deep(*chain.last().unwrap()) {
            Ok(id) => chain.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, HeapError::TypeTableFull(count) if count == chain.len() + 1), "{error}");
    while let Some(id) = chain.pop() {
        // SAFETY: nobody else knows them, and what is below has been released.
        unsafe { table.release(id) };
    }
    assert_eq!(table.state.lock().unwrap().room.in_use(), 1);
    let many: Vec<TypeId> = (0..300_000).map(|_| table.register(structure(&[], None)).unwrap()).collect();
    assert!(many.iter().all(|&id| table.contains(id)));
}
