//! Expressions: how a value of some kind comes to the operand stack, with collections on the way.

use super::body::Body;
use super::names::*;
use super::signatures::Signature;
use super::types::{Array, Field, Kind};
use wasm_encoder::{Ieee32, Ieee64, Instruction as I};

impl Body<'_> {
    /// Appends the `i32` `amount`: as a constant, or as something that may collect first.
    pub fn amount(&mut self, amount: u32) {
        let constant = I::I32Const(amount as i32);
        match self.below(20) {
            0..=10 => self.emit(constant),
            11 | 12 => self.emit_all([I::GlobalGet(ZERO), constant, I::I32Add]),
            13 => self.emit_all([I::Call(GC), constant]),
            14 => {
                self.safepoint();
                self.emit(constant);
            }
            15 | 16 => {
                let same = self.one_of(&SAME);
                self.emit_all([constant, I::Call(same)]);
            }
            17 => {
                let same = self.one_of(&SAME);
                self.emit_all([constant, I::RefFunc(same), I::CallRef(Signature::Same.index())]);
            }
            18 => {
                self.emit(constant);
                self.value(Kind::Same, false, 0);
                self.emit(I::CallRef(Signature::Same.index()));
            }
            _ => {
                let same = self.one_of(&SAME);
                let type_index = Signature::Same.index();
                self.emit_all([
                    constant,
                    I::I32Const(function_slot(same)),
                    I::CallIndirect { type_index, table_index: FUNCTIONS },
                ]);
            }
        }
    }

    /// Appends a value for a field or an element.
    pub fn field_value(&mut self, field: Field, depth: u32) {
        match field {
            Field::I8 | Field::I16 | Field::I32 => {
                let amount = self.below(1 << 20) as u32;
                self.amount(amount);
            }
            Field::I64 => {
                let amount = self.below(1 << 30) as u32;
                self.amount(amount);
                self.emit_all([I::I64ExtendI32U, I::I64Const(0x0001_0001_0003), I::I64Mul]);
            }
            Field::F32 => {
                let value = self.below(1 << 20) as f32;
                self.emit(I::F32Const(Ieee32::from(value)));
            }
            Field::F64 => {
                let value = self.below(1 << 30) as f64;
                self.emit(I::F64Const(Ieee64::from(value)));
            }
            Field::V128 => {
                let amount = self.below(1 << 20) as u32;
                self.amount(amount);
                self.emit_all([I::I32x4Splat, I::V128Const(0x0003_0002_0000_0001_0005_0000_0007), I::I32x4Mul]);
            }
            Field::Ref(kind, nullable) => self.value(kind, nullable, depth),
        }
    }

    /// Appends a reference. `depth` limits the expressions within.
    pub fn value(&mut self, kind: Kind, nullable: bool, depth: u32) {
        if nullable && self.chance(6) {
            self.null(kind);
            return;
        }
        if self.chance(if depth == 0 { 70 } else { 35 }) && self.slot_value(kind, nullable) {
            return;
        }
        let within = depth.saturating_sub(1);
        let done = match self.below(if depth == 0 { 6 } else { 13 }) {
            0 => self.global_value(kind, nullable),
            1 => self.element_of_table(kind, nullable),
            2..=6 => false,
            7 => self.field_of_struct(kind, nullable, within),
            8 => self.element_of_array(kind, nullable, within),
            9 => self.selected(kind, nullable, within),
            10 => self.through_block(kind, nullable, within),
            11 => self.through_extern(kind, nullable, within),
            _ => self.through_any(kind, within),
        };
        if !done {
            self.make(kind, within);
        }
    }

    /// Appends what a new object holds: with a depth of 0 nothing that holds references itself.
    fn content(&mut self, field: Field, depth: u32) {
        match field {
            Field::Ref(kind, nullable) if depth == 0 => {
                if self.chance(60) && self.slot_value(kind, nullable) {
                    return;
                }
                if nullable { self.null(kind) } else { self.make(kind, 0) }
            }
            _ => self.field_value(field, depth.saturating_sub(1)),
        }
    }

    /// Appends what `nullable_value` does, and something new in place of null.
    fn or_new(&mut self, kind: Kind, nullable: bool, nullable_value: impl FnOnce(&mut Self)) {
        if nullable {
            nullable_value(self);
            return;
        }
        self.block(vec![], vec![kind.value(false)], |body| {
            nullable_value(body);
            body.emit(I::BrOnNonNull(0));
            body.make(kind, 0);
        });
    }

    fn slot_value(&mut self, kind: Kind, nullable: bool) -> bool {
        let fitting: Vec<_> = self.slots.iter().copied().filter(|slot| slot.kind.is_below(kind)).collect();
        if fitting.is_empty() {
            return false;
        }
        let slot = self.one_of(&fitting);
        if kind == Kind::Exn || !slot.nullable {
            self.emit(I::LocalGet(slot.local));
        } else {
            self.or_new(kind, nullable, |body| body.emit(I::LocalGet(slot.local)));
        }
        true
    }

    fn global_value(&mut self, kind: Kind, nullable: bool) -> bool {
        let fitting: Vec<_> = (FIRST_GLOBAL..).zip(GLOBALS).filter(|(_, global)| global.0.is_below(kind)).collect();
        if fitting.is_empty() {
            return false;
        }
        let (index, global) = self.one_of(&fitting);
        self.or_new(kind, nullable || !global.1, |body| body.emit(I::GlobalGet(index)));
        true
    }

    fn element_of_table(&mut self, kind: Kind, nullable: bool) -> bool {
        let fitting: Vec<_> = (1..).zip(TABLES).filter(|(_, table)| table.0.is_below(kind)).collect();
        if fitting.is_empty() {
            return false;
        }
        let (index, table) = self.one_of(&fitting);
        self.or_new(kind, nullable || !table.1, |body| {
            let element = body.below(TABLE_ELEMENTS as usize) as u32;
            body.amount(element);
            body.emit(I::TableGet(index));
        });
        true
    }

    fn field_of_struct(&mut self, kind: Kind, nullable: bool, depth: u32) -> bool {
        let owner = self.one_of(&[Kind::Base, Kind::Derived, Kind::Last]);
        let fields = self.types.fields(owner);
        let fits = |field: &Field| matches!(field, Field::Ref(of, _) if of.is_below(kind));
        let fitting: Vec<_> = (0..).zip(fields).filter(|(_, field)| fits(field)).collect();
        if fitting.is_empty() {
            return false;
        }
        let (field_index, field) = self.one_of(&fitting);
        self.or_new(kind, nullable || !field.is_defaultable(), |body| {
            body.value(owner, false, depth);
            body.emit(I::StructGet { struct_type_index: owner.index(), field_index });
        });
        true
    }

    fn element_of_array(&mut self, kind: Kind, nullable: bool, depth: u32) -> bool {
        let fits = |array: &Array| matches!(array.element(), Field::Ref(of, _) if of.is_below(kind));
        let fitting: Vec<_> = Array::ALL.into_iter().filter(fits).collect();
        if fitting.is_empty() {
            return false;
        }
        let array = self.one_of(&fitting);
        self.or_new(kind, nullable || !array.element().is_defaultable(), |body| {
            body.value(Kind::Array(array), false, depth);
            body.index(array);
            body.emit(I::ArrayGet(array.index()));
        });
        true
    }

    fn selected(&mut self, kind: Kind, nullable: bool, depth: u32) -> bool {
        self.value(kind, nullable, depth);
        self.value(kind, nullable, depth);
        self.condition();
        self.emit(I::TypedSelect(kind.value(nullable)));
        true
    }

    fn through_block(&mut self, kind: Kind, nullable: bool, depth: u32) -> bool {
        self.value(kind, nullable, depth);
        self.block(vec![kind.value(nullable)], vec![kind.value(nullable)], |body| body.safepoint());
        true
    }

    fn through_extern(&mut self, kind: Kind, nullable: bool, depth: u32) -> bool {
        match kind {
            Kind::Extern => {
                self.or_new(Kind::Extern, nullable, |body| {
                    body.value(Kind::Any, true, depth);
                    body.emit(I::ExternConvertAny);
                });
            }
            _ if kind.is_any() => {
                self.value(kind, nullable, depth);
                self.emit_all([I::ExternConvertAny]);
                self.safepoint();
                self.emit(I::AnyConvertExtern);
                self.cast(kind, nullable);
            }
            _ => return false,
        }
        true
    }

    /// The value passes as something of which only its being a reference is known.
    fn through_any(&mut self, kind: Kind, depth: u32) -> bool {
        if !kind.is_any() {
            return false;
        }
        self.block(vec![], vec![Kind::Any.value(true)], |body| body.value(kind, false, depth));
        self.cast(kind, false);
        true
    }

    fn cast(&mut self, kind: Kind, nullable: bool) {
        self.emit(if nullable { I::RefCastNullable(kind.heap()) } else { I::RefCastNonNull(kind.heap()) });
    }

    /// Appends a new value, never null. Exceptions alone cannot be made like this: they come from slots.
    pub fn make(&mut self, kind: Kind, depth: u32) {
        match kind {
            Kind::Base | Kind::Derived | Kind::Last | Kind::Leaf => self.make_struct(kind, depth),
            Kind::Array(array) => {
                let length = self.length(array);
                self.make_array(array, length, depth);
            }
            Kind::Any | Kind::Eq => {
                let array = self.one_of(&Array::ALL);
                let kind =
                    self.one_of(&[Kind::Base, Kind::Derived, Kind::Last, Kind::Leaf, Kind::Array(array), Kind::I31]);
                self.make(kind, depth);
            }
            Kind::I31 => {
                let value = self.below(1 << 20) as u32;
                self.amount(value);
                self.emit(I::RefI31);
            }
            Kind::Extern => {
                if self.chance(50) {
                    let number = self.below(1000) as i32;
                    self.emit_all([I::I32Const(number), I::Call(EXTERN_NEW), I::RefAsNonNull]);
                } else {
                    let kind = self.one_of(&[Kind::Base, Kind::Leaf, Kind::Array(Array::Longs)]);
                    self.make(kind, depth);
                    self.emit(I::ExternConvertAny);
                }
            }
            Kind::Same => {
                let same = self.one_of(&SAME);
                self.emit(I::RefFunc(same));
            }
            Kind::Exn => self.emit(I::RefNull(Kind::Exn.heap())),
        }
    }

    fn make_struct(&mut self, kind: Kind, depth: u32) {
        let fields = self.types.fields(kind);
        if fields.iter().all(|field| field.is_defaultable()) && self.chance(20) {
            let local = self.local_of(kind);
            self.emit_all([I::StructNewDefault(kind.index()), I::LocalTee(local)]);
            self.field_value(Field::I32, 0);
            self.emit_all([I::StructSet { struct_type_index: kind.index(), field_index: 0 }, I::LocalGet(local)]);
            self.emit(I::RefAsNonNull);
            return;
        }
        for field in fields {
            self.content(field, depth);
        }
        self.emit(I::StructNew(kind.index()));
    }

    /// A length for a new array: mostly the least, at times so long that the array is not a small object, or a large
    /// one.
    pub fn length(&mut self, array: Array) -> u32 {
        let bytes = array.element().bytes();
        let more = match self.below(40) {
            0..=19 => 0,
            20..=28 => 1 + self.below(8) as u32,
            29..=34 => (300 + self.below(400) as u32) / bytes,
            35..=38 => (1000 + self.below(3000) as u32) / bytes,
            _ => (14_000 + self.below(40_000) as u32) / bytes,
        };
        self.types.least(array) + more
    }

    /// Appends an index that every array of the type has.
    pub fn index(&mut self, array: Array) {
        let index = self.below(self.types.least(array) as usize) as u32;
        self.amount(index);
    }

    /// Appends a new array of a length.
    pub fn make_array(&mut self, array: Array, length: u32, depth: u32) {
        let element = array.element();
        let index = array.index();
        match self.below(5) {
            0 if element.is_defaultable() => {
                self.amount(length);
                self.emit(I::ArrayNewDefault(index));
            }
            1 | 2 if length <= 24 => {
                for _ in 0..length {
                    let depth = if self.chance(90) { 0 } else { depth };
                    self.content(element, depth);
                }
                self.emit(I::ArrayNewFixed { array_type_index: index, array_size: length });
            }
            3 | 4 => match element {
                Field::Ref(kind, _) if length <= SEGMENT_ELEMENTS => {
                    let offset = self.below((SEGMENT_ELEMENTS - length + 1) as usize) as u32;
                    self.amount(offset);
                    self.amount(length);
                    let array_elem_index = segment(kind).expect("every kind of element has its segment");
                    self.emit(I::ArrayNewElem { array_type_index: index, array_elem_index });
                }
                Field::Ref(..) => self.make_filled_array(array, length, depth),
                _ if length * element.bytes() <= DATA_BYTES => {
                    let offset = self.below((DATA_BYTES - length * element.bytes() + 1) as usize) as u32;
                    self.amount(offset);
                    self.amount(length);
                    self.emit(I::ArrayNewData { array_type_index: index, array_data_index: 0 });
                }
                _ => self.make_filled_array(array, length, depth),
            },
            _ => self.make_filled_array(array, length, depth),
        }
    }

    fn make_filled_array(&mut self, array: Array, length: u32, depth: u32) {
        self.content(array.element(), depth);
        self.amount(length);
        self.emit(I::ArrayNew(array.index()));
    }

    /// Appends an `i32` that is 0 in some cases: a condition that follows from what the program computed.
    pub fn condition(&mut self) {
        let mask = self.one_of(&[1, 3, 7]);
        self.emit_all([I::GlobalGet(SUM), I::I32WrapI64, I::I32Const(mask), I::I32And]);
    }
}
