//! How what a program reads gets into its checksum.

use super::body::Body;
use super::names::*;
use super::signatures::Signature;
use super::types::{Field, Kind};
use wasm_encoder::{Instruction as I, ValType};

impl Body<'_> {
    /// Folds the `i32` on the stack into the checksum.
    pub fn fold_i32(&mut self) {
        self.emit(I::I64ExtendI32U);
        self.fold_i64();
    }

    /// Folds the `i64` on the stack into the checksum.
    pub fn fold_i64(&mut self) {
        self.emit_all([
            I::GlobalGet(SUM),
            I::I64Const(7),
            I::I64Rotl,
            I::I64Xor,
            I::I64Const(0x9e37_79b9_7f4a_7c15_u64 as i64),
            I::I64Mul,
            I::GlobalSet(SUM),
        ]);
    }

    /// Folds the value on the stack, read from a field or an element.
    pub fn fold_field(&mut self, field: Field, depth: u32) {
        match field {
            Field::I8 | Field::I16 | Field::I32 => self.fold_i32(),
            Field::I64 => self.fold_i64(),
            Field::F32 => {
                self.emit(I::I32ReinterpretF32);
                self.fold_i32();
            }
            Field::F64 => {
                self.emit(I::I64ReinterpretF64);
                self.fold_i64();
            }
            Field::V128 => {
                self.halves();
                self.fold_i64();
            }
            Field::Ref(kind, _) => self.fold(kind, depth),
        }
    }

    /// Makes an `i64` of both halves of the vector on the stack.
    pub fn halves(&mut self) {
        let vector = self.local(ValType::V128);
        self.emit_all([I::LocalTee(vector), I::I64x2ExtractLane(0), I::I64Const(1), I::I64Rotl]);
        self.emit_all([I::LocalGet(vector), I::I64x2ExtractLane(1), I::I64Xor]);
    }

    /// Folds what the reference on the stack, which may be null, leads to.
    pub fn fold(&mut self, kind: Kind, depth: u32) {
        match kind {
            Kind::Extern => {
                if self.chance(50) {
                    self.emit(I::Call(EXTERN_ID));
                    self.fold_i32();
                } else {
                    self.emit(I::AnyConvertExtern);
                    self.fold(Kind::Any, depth);
                }
            }
            Kind::Same => self.unless_null(kind, |body| {
                let local = body.local_of(kind);
                let argument = body.below(1000) as i32;
                body.emit_all([I::LocalSet(local), I::I32Const(argument), I::LocalGet(local)]);
                body.emit(I::CallRef(Signature::Same.index()));
                body.fold_i32();
            }),
            Kind::Exn => self.fold_exception(),
            Kind::I31 => self.unless_null(kind, |body| {
                let get = body.one_of(&[0, 1]);
                body.emit(if get == 0 { I::I31GetS } else { I::I31GetU });
                body.fold_i32();
            }),
            Kind::Any | Kind::Eq => match self.below(6) {
                0 => {
                    self.emit(I::RefIsNull);
                    self.fold_i32();
                }
                1 => {
                    let to = self.one_of(&[Kind::Base, Kind::Derived, Kind::Leaf, Kind::I31, Kind::Eq]);
                    let null = self.chance(50);
                    self.emit(if null { I::RefTestNullable(to.heap()) } else { I::RefTestNonNull(to.heap()) });
                    self.fold_i32();
                }
                _ => self.fold_walk(),
            },
            _ if depth == 0 || self.chance(25) => self.fold_walk(),
            _ => self.unless_null(kind, |body| body.observe(kind, depth)),
        }
    }

    fn fold_walk(&mut self) {
        let depth = self.one_of(&[0, 0, 1, 1, 1, 2]);
        self.emit_all([I::I32Const(depth), I::Call(WALK)]);
        self.fold_i32();
    }

    /// Folds one part of the struct or array on the stack, which is not null.
    pub fn observe(&mut self, kind: Kind, depth: u32) {
        let Kind::Array(array) = kind else {
            let fields = self.types.fields(kind);
            let index = if self.chance(40) { 0 } else { self.below(fields.len()) };
            self.struct_get(kind, index as u32, fields[index]);
            self.fold_field(fields[index], depth.saturating_sub(1));
            return;
        };
        if self.chance(25) {
            self.emit(I::ArrayLen);
            self.fold_i32();
            return;
        }
        self.index(array);
        self.array_get(array.index(), array.element());
        self.fold_field(array.element(), depth.saturating_sub(1));
    }

    /// Reads a field of the struct on the stack.
    pub fn struct_get(&mut self, kind: Kind, field_index: u32, field: Field) {
        let struct_type_index = kind.index();
        let signed = self.chance(50);
        self.emit(match field {
            Field::I8 | Field::I16 if signed => I::StructGetS { struct_type_index, field_index },
            Field::I8 | Field::I16 => I::StructGetU { struct_type_index, field_index },
            _ => I::StructGet { struct_type_index, field_index },
        });
    }

    /// Reads the element whose array and index are on the stack.
    pub fn array_get(&mut self, type_index: u32, element: Field) {
        let signed = self.chance(50);
        self.emit(match element {
            Field::I8 | Field::I16 if signed => I::ArrayGetS(type_index),
            Field::I8 | Field::I16 => I::ArrayGetU(type_index),
            _ => I::ArrayGet(type_index),
        });
    }

    /// Throws the exception on the stack, if it is not null, to see what it carries.
    fn fold_exception(&mut self) {
        let local = self.local_of(Kind::Exn);
        self.emit(I::LocalSet(local));
        self.block(vec![], vec![], |body| {
            body.emit_all([I::LocalGet(local), I::RefIsNull, I::BrIf(0)]);
            body.catching(|body| {
                body.droppable(|body| body.safepoint());
                body.emit_all([I::LocalGet(local), I::ThrowRef]);
            });
        });
    }
}
