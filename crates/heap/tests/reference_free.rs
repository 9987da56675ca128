//! Fields that are said to lead to objects without references: such objects live as long as others, though they are
//! not looked at, in every layout of arrays.

mod common;

use common::{Held, Trusting, all_layouts, register};
use legato_heap::layout::{ARRAY_LENGTH_OFFSET, StorageKind};
use legato_heap::{Cause, Heap, HeapConfig, Reference, TypeId, TypeInfo, TypeShape, TypeTable};

/// Elements of the characters of a string: some lie in one piece in every layout, some do not.
const LENGTHS: [u32; 4] = [0, 7, 300, 20_000];
const STRINGS: u32 = 60;

struct Text {
    heap: Heap,
    roots: Held,
    characters: TypeId,
    /// A struct with a reference to characters.
    string: TypeId,
    /// An array of references to characters.
    lines: TypeId,
}

impl Text {
    fn new(config: &HeapConfig) -> Text {
        use StorageKind::{I16, I64, Ref};
        let types = TypeTable::new().unwrap();
        let characters = register(&types, TypeShape::Array(I16));
        let reference_free = |shape, fields: &[usize]| {
            types.register_with_reference_free(TypeInfo { shape, supertype: None }, fields).unwrap()
        };
        let string = reference_free(TypeShape::Struct(vec![I64, Ref, Ref]), &[1]);
        let lines = reference_free(TypeShape::Array(Ref), &[0]);
        // The first root is the array of lines, the second the last string.
        Text { heap: Heap::new(config, types).unwrap(), roots: Held::nulls(2), characters, string, lines }
    }

    fn reference(&self, object: Reference, field: usize) -> Reference {
        let offset = self.heap.types().layout(self.string).unwrap().offsets[field];
        Reference(self.heap.load(object, offset, StorageKind::Ref) as u32)
    }

    /// An array of characters, each `number`.
    fn new_characters(&mut self, number: u32) -> Reference {
        let length = LENGTHS[number as usize % LENGTHS.len()];
        let new = self.heap.allocate_array(self.characters, length, &mut self.roots).unwrap();
        (0..length).step_by(97).for_each(|index| self.heap.set(new, index, number.into()).unwrap());
        new
    }

    fn check_characters(&self, array: Reference, number: u32) {
        let length = LENGTHS[number as usize % LENGTHS.len()];
        assert_eq!(self.heap.load(array, ARRAY_LENGTH_OFFSET, StorageKind::I32), length.into());
        for index in (0..length).step_by(97) {
            assert_eq!(self.heap.array_get(array, index), number.into(), "of {number}, at {index}");
        }
    }

    /// Adds a string in front of the others, and a line.
    fn add(&mut self, number: u32) {
        let new = self.new_characters(number);
        self.roots.push(new);
        let string = self.heap.allocate_struct(self.string, &mut self.roots).unwrap();
        let (characters, before) = (self.roots.pop().unwrap(), self.roots[1]);
        let offsets = self.heap.types().layout(self.string).unwrap().offsets.clone();
        self.heap.put(string, offsets[1], StorageKind::Ref, characters.0.into());
        self.heap.put(string, offsets[2], StorageKind::Ref, before.0.into());
        self.roots[1] = string;
        let line = self.new_characters(number + 1);
        self.heap.set(self.roots[0], number, line.0.into()).unwrap();
    }

    fn check(&self) {
        let mut string = self.roots[1];
        for number in (0..STRINGS).rev() {
            self.check_characters(self.reference(string, 1), number);
            let line = self.heap.array_get(self.roots[0], number);
            self.check_characters(Reference(line as u32), number + 1);
            string = self.reference(string, 2);
        }
        assert!(string.is_null());
    }
}

#[test]
fn what_is_not_looked_at_lives() {
    for stress in [None, Some(1)] {
        let config =
            HeapConfig { max_bytes: Some(64 << 20), min_bytes: 1 << 20, stress, verify: true, ..HeapConfig::default() };
        for config in all_layouts(config) {
            let mut text = Text::new(&config);
            text.roots[0] = text.heap.allocate_array(text.lines, STRINGS, &mut text.roots).unwrap();
            (0..STRINGS).for_each(|number| text.add(number));
            text.heap.collect(Cause::Requested, &mut text.roots);
            text.check();
            text.heap.collect(Cause::Requested, &mut text.roots);
            text.check();
            text.roots[1] = Reference::NULL;
            text.roots[0] = Reference::NULL;
            text.heap.collect(Cause::Requested, &mut text.roots);
            assert_eq!(text.heap.stats().live_objects, 0, "{config:?}");
        }
    }
}

#[test]
fn a_type_that_says_so_wrongly_is_noticed() {
    let mut text = Text::new(&HeapConfig::default());
    (0..2).for_each(|_| {
        let string = text.heap.allocate_struct(text.string, &mut text.roots).unwrap();
        text.roots.push(string);
    });
    text.heap.verify(Some(&mut text.roots)).unwrap();
    let offset = text.heap.types().layout(text.string).unwrap().offsets[1];
    let (to, wrong) = (text.roots[2], text.roots[3]);
    text.heap.put(to, offset, StorageKind::Ref, wrong.0.into());
    let error = text.heap.verify(Some(&mut text.roots)).unwrap_err().to_string();
    assert!(error.contains("said to hold no references"), "{error}");
}
