//! Loops that call nothing: compilers keep in registers where their objects lie.

use super::body::Body;
use super::types::{Array, Field, Kind};
use wasm_encoder::{Ieee32, Ieee64, Instruction as I, ValType};

/// An object that a loop reads and writes, in a local that does not change while it runs.
#[derive(Clone, Copy)]
struct Object {
    kind: Kind,
    local: u32,
}

impl Body<'_> {
    /// Reads and writes objects from before the loop, and makes others in between, which may move the first ones.
    pub fn loop_without_calls(&mut self) {
        let objects: Vec<Object> = (0..1 + self.below(5)).map(|_| self.object()).collect();
        let counter = self.local(ValType::I32);
        let rounds = 2 + self.below(40) as u32;
        let accesses = 1 + self.below(6);
        self.counted(counter, rounds, false, |body| {
            for _ in 0..accesses {
                body.droppable(|body| body.access(&objects, counter));
            }
        });
        for object in objects {
            self.emit(I::LocalGet(object.local));
            self.fold(object.kind, 1);
        }
    }

    fn object(&mut self) -> Object {
        let array = self.one_of(&Array::ALL);
        let kind = self.one_of(&[Kind::Base, Kind::Derived, Kind::Last, Kind::Leaf, Kind::Array(array)]);
        let local = self.local_of(kind);
        // Null ends the call at the first access.
        let nullable = self.chance(5);
        self.value(kind, nullable, 1);
        self.emit(I::LocalSet(local));
        Object { kind, local }
    }

    fn access(&mut self, objects: &[Object], counter: u32) {
        let object = self.one_of(objects);
        match self.below(6) {
            0 if matches!(object.kind, Kind::Array(_)) => {
                self.emit_all([I::LocalGet(object.local), I::ArrayLen]);
                self.fold_i32();
            }
            0 | 1 => self.read(object),
            2..=4 => self.write(object, objects, counter),
            _ => {
                let kind = if self.chance(70) { Kind::Leaf } else { Kind::Array(Array::Anys) };
                self.new_object(kind);
                self.emit(I::Drop);
            }
        }
    }

    fn read(&mut self, object: Object) {
        let (field_index, field) = self.place(object);
        match object.kind {
            Kind::Array(array) => self.array_get(array.index(), field),
            kind => self.struct_get(kind, field_index, field),
        }
        match field {
            // What it leads to would be folded by a call.
            Field::Ref(..) => {
                self.emit(I::RefIsNull);
                self.fold_i32();
            }
            _ => self.fold_field(field, 0),
        }
    }

    fn write(&mut self, object: Object, objects: &[Object], counter: u32) {
        let (field_index, field) = self.place(object);
        self.quiet_value(field, objects, counter);
        self.emit(match object.kind {
            Kind::Array(array) => I::ArraySet(array.index()),
            kind => I::StructSet { struct_type_index: kind.index(), field_index },
        });
    }

    /// Appends an object and, for an array, the index of an element; gives back the index of a field, and its type.
    fn place(&mut self, object: Object) -> (u32, Field) {
        self.emit(I::LocalGet(object.local));
        match object.kind {
            Kind::Array(array) => {
                let index = self.below(self.types.least(array) as usize) as u32;
                self.emit(I::I32Const(index as i32));
                (0, array.element())
            }
            kind => {
                let fields = self.types.fields(kind);
                let index = self.below(fields.len());
                (index as u32, fields[index])
            }
        }
    }

    /// Appends a value without any call: for a reference one of the objects, or a new one.
    fn quiet_value(&mut self, field: Field, objects: &[Object], counter: u32) {
        match field {
            Field::I8 | Field::I16 | Field::I32 => self.emit(I::LocalGet(counter)),
            Field::I64 => self.emit_all([I::LocalGet(counter), I::I64ExtendI32U]),
            Field::F32 => self.emit(I::F32Const(Ieee32::from(0.5))),
            Field::F64 => self.emit(I::F64Const(Ieee64::from(0.25))),
            Field::V128 => self.emit_all([I::LocalGet(counter), I::I8x16Splat]),
            Field::Ref(kind, nullable) => {
                let fits = |object: &Object| object.kind.is_below(kind);
                let fitting: Vec<Object> = objects.iter().copied().filter(fits).collect();
                if !fitting.is_empty() && self.chance(50) {
                    let object = self.one_of(&fitting);
                    self.emit(I::LocalGet(object.local));
                    if !nullable {
                        self.emit(I::RefAsNonNull);
                    }
                } else if Kind::Leaf.is_below(kind) {
                    self.new_object(Kind::Leaf);
                } else if nullable {
                    self.null(kind);
                } else {
                    self.make(kind, 0);
                }
            }
        }
    }

    /// Appends a new object that its type alone describes, where that is possible.
    fn new_object(&mut self, kind: Kind) {
        match kind {
            Kind::Array(array) => {
                let length = self.types.least(array);
                self.emit_all([I::I32Const(length as i32), I::ArrayNewDefault(array.index())]);
            }
            _ if self.types.fields(kind).iter().all(|field| field.is_defaultable()) => {
                self.emit(I::StructNewDefault(kind.index()));
            }
            _ => self.make(kind, 0),
        }
    }
}
