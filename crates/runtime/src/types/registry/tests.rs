//! Which types an engine knows, and for how long.

use super::*;

fn field(storage: StorageType) -> FieldType {
    FieldType { storage, mutable: true }
}

fn reference(heap: HeapType) -> FieldType {
    field(StorageType::Value(ValueType::Ref(RefType { heap, nullable: true })))
}

#[test]
fn what_leads_to_numbers_alone_is_known() {
    let registry = TypeRegistry::new().unwrap();
    let number = field(StorageType::Value(ValueType::I64));
    let held = RefCell::new(Vec::new());
    let one = |is_final, composite| {
        let ty = registry.register_one(is_final, None, composite).unwrap();
        held.borrow_mut().push(ty.clone());
        ty.id
    };
    let to = |id: TypeId| reference(HeapType::Concrete(TypeIndex(id.0)));
    let characters = one(true, CompositeType::Array(number));
    let point = one(true, CompositeType::Struct(vec![number, number]));
    let open = one(false, CompositeType::Struct(vec![number]));
    let function = one(true, CompositeType::Func(FuncType { params: vec![], results: vec![] }));
    let caller = one(true, CompositeType::Struct(vec![to(function)]));
    let string = one(true, CompositeType::Struct(vec![to(characters)]));
    let abstract_types = [HeapType::Any, HeapType::Eq, HeapType::Struct, HeapType::Array, HeapType::Extern];
    let mut fields: Vec<FieldType> = [characters, open, point, string, caller, function].map(to).to_vec();
    fields.extend(abstract_types.map(reference));
    let all = one(true, CompositeType::Struct(fields));
    // Characters, points, callers: function references are not traced.
    assert_eq!(registry.table().record(all).reference_free, 0b1_0101);
    let lines = one(false, CompositeType::Array(to(characters)));
    assert_eq!(registry.table().record(lines).reference_free, 1);
    assert_eq!(registry.table().record(one(false, CompositeType::Array(to(open)))).reference_free, 0);
}

#[test]
fn types_of_one_group_lead_to_each_other() {
    let registry = TypeRegistry::new().unwrap();
    let within = |index: u32| reference(HeapType::Concrete(TypeIndex(WITHIN_GROUP | index)));
    let sub =
        |composite| SubType { is_final: true, supertype: None, composite, depth: 0, rec_group: (TypeIndex(0), 2) };
    let number = field(StorageType::Value(ValueType::I32));
    let node = structure(vec![within(0), within(1)]);
    let group = registry.register_group(vec![sub(node), sub(CompositeType::Array(number))]).unwrap();
    assert_eq!(registry.table().record(group.entries[0].id).reference_free, 0b10);
}

fn structure(fields: Vec<FieldType>) -> CompositeType {
    CompositeType::Struct(fields)
}

/// A type that no other call's equals: its number is in the kinds of its fields.
fn numbered(registry: &TypeRegistry, number: usize, supertype: Option<&RegisteredType>) -> RegisteredType {
    let bits = (0..16).map(|bit| if number >> bit & 1 == 1 { ValueType::I64 } else { ValueType::I32 });
    let fields = bits.map(|ty| field(StorageType::Value(ty))).collect();
    registry.register_one(false, supertype.map(|ty| ty.id), structure(fields)).unwrap()
}

#[test]
fn types_that_nobody_has_are_released() {
    let registry = TypeRegistry::new().unwrap();
    let kept: Vec<RegisteredType> = (0..300).map(|number| numbered(&registry, number, None)).collect();
    let mut ids = BTreeSet::new();
    for number in 300..20_000 {
        let ty = numbered(&registry, number, None);
        ids.insert(ty.id);
        let func = FuncType { params: vec![ValueType::I32; number % 7], results: vec![] };
        let func = registry.register_one(true, None, CompositeType::Func(func)).unwrap();
        registry.exception_type(func.id).unwrap();
        assert!(registry.count() <= MIN_TYPES_BEFORE_RELEASE, "{} types", registry.count());
    }
    assert!(ids.len() <= MIN_TYPES_BEFORE_RELEASE, "{} ids", ids.len());
    for (number, ty) in kept.iter().enumerate() {
        assert_eq!(registry.get(ty.id).id, numbered(&registry, number, None).id);
    }
}

#[test]
fn types_stay_as_long_as_others_refer_to_them() {
    let registry = TypeRegistry::new().unwrap();
    let base = numbered(&registry, 0, None);
    let (base, below) = (base.id, numbered(&registry, 0, Some(&base)));
    let leading = vec![reference(HeapType::Concrete(TypeIndex(below.id.0)))];
    let (below, leading) = (below.id, registry.register_one(true, None, structure(leading)).unwrap());
    // A long chain of types, each of which refers to the one before.
    let mut last = leading.clone();
    for _ in 0..100_000 {
        let fields = vec![reference(HeapType::Concrete(TypeIndex(last.id.0)))];
        last = registry.register_one(true, None, structure(fields)).unwrap();
    }
    assert!(registry.count() > 100_000);
    for number in 1..30_000 {
        numbered(&registry, number, None);
    }
    assert!(registry.find(base).is_some() && registry.find(below).is_some());
    assert!(registry.count() > 100_000, "what is referred to was released");
    drop(last);
    for number in 30_000..60_000 {
        numbered(&registry, number, None);
    }
    assert!(registry.count() < 100_000, "{} types", registry.count());
    assert!(registry.find(base).is_some() && registry.find(below).is_some());
    let mut last = leading;
    for _ in 0..100_000 {
        let fields = vec![reference(HeapType::Concrete(TypeIndex(last.id.0)))];
        last = registry.register_one(true, None, structure(fields)).unwrap();
    }
    // The last one outlives the registry, as a type may outlive its engine.
    drop(registry);
    drop(last);
}

/// Leaves no room in the heap's table, by types that are in no registry.
fn fill(table: &TypeTable) {
    let function = |supertype| table.register(TypeInfo { shape: TypeShape::Function, supertype });
    // Each takes 4 bytes more than the one before.
    let mut last = function(None).unwrap();
    while let Ok(below) = function(Some(last)) {
        last = below;
    }
    while function(None).is_ok() {}
}

#[test]
fn a_full_table_is_emptied_of_what_nobody_has() {
    let registry = TypeRegistry::new().unwrap();
    let func = FuncType { params: vec![ValueType::I32], results: vec![] };
    let func = registry.register_one(true, None, CompositeType::Func(func)).unwrap();
    let held: Vec<RegisteredType> = (0..100).map(|number| numbered(&registry, number, None)).collect();
    fill(registry.table());
    let array = || registry.register_one(true, None, CompositeType::Array(field(StorageType::I8)));
    let error = array().unwrap_err().to_string();
    assert!(error.contains("the type table is full") && registry.exception_type(func.id).is_err(), "{error}");
    drop(held);
    let array = array().unwrap();
    fill(registry.table());
    drop(array);
    registry.exception_type(func.id).unwrap();
    assert_eq!(registry.count(), 1);
}

#[test]
fn no_type_lies_below_more_than_63_others() {
    let registry = TypeRegistry::new().unwrap();
    let mut last = numbered(&registry, 0, None);
    for depth in 1.. {
        let ty = registry.register_one(false, Some(last.id), last.sub.composite.clone());
        match ty {
            Ok(ty) => last = ty,
            Err(error) => {
                assert_eq!(
                    (depth, error.to_string().as_str()),
                    (64, "invalid type: it lies below more than 63 others")
                );
                break;
            }
        }
    }
}

#[test]
fn a_long_chain_of_types_is_soon_told() {
    let registry = TypeRegistry::new().unwrap();
    let mut last = numbered(&registry, 0, None);
    for _ in 0..100 {
        let fields = vec![reference(HeapType::Concrete(TypeIndex(last.id.0))); 3];
        last = registry.register_one(true, None, structure(fields)).unwrap();
    }
    assert!(format!("{last:?}").len() < 5000);
}

#[test]
fn a_group_is_released_as_a_whole() {
    let registry = TypeRegistry::new().unwrap();
    let within = |index: u32| reference(HeapType::Concrete(TypeIndex(WITHIN_GROUP | index)));
    let sub =
        |composite| SubType { is_final: true, supertype: None, composite, depth: 0, rec_group: (TypeIndex(0), 2) };
    let group = |number: usize| {
        let node = structure([vec![within(1)], vec![field(StorageType::I8); number]].concat());
        registry.register_group(vec![sub(node), sub(CompositeType::Array(within(0)))]).unwrap()
    };
    let first = RegisteredType { group: group(0), index: 1 };
    for number in 1..2000 {
        group(number);
    }
    assert!(registry.count() <= MIN_TYPES_BEFORE_RELEASE);
    assert_eq!(registry.get(first.id).group().number, 0);
    assert_eq!(registry.get(first.group.entries[0].id).group().number, 0);
    assert_eq!(group(0).number, 0);
}
