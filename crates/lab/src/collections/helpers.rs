//! The functions of a program that are the same in all, but for a few numbers: what allocates, throws, and looks at
//! everything.

use super::body::Body;
use super::names::*;
use super::signatures::Signature;
use super::types::{Array, Field, Kind};
use wasm_encoder::{BlockType, Instruction as I, ValType};

/// Elements of an array that a walk looks at.
const WALKED: i32 = 12;
const MULTIPLIER: i32 = 0x0100_0193;

impl Body<'_> {
    /// Allocates and fills objects that nobody keeps, where earlier collections left the memory of others.
    pub fn churn(&mut self) {
        let counter = self.local(ValType::I32);
        let rounds = 4 + self.below(30) as u32;
        let bytes = 16 + self.below(400) as i32;
        self.counted(counter, rounds, false, |body| match body.below(4) {
            0 => {
                body.emit_all([I::I64Const(0x5555_5555_5555_5555), I::I32Const(bytes / 8)]);
                body.emit_all([I::ArrayNew(Array::Longs.index()), I::Drop]);
            }
            1 => {
                body.emit_all([I::I32Const(0x66), I::I32Const(bytes), I::ArrayNew(Array::Bytes.index()), I::Drop]);
            }
            2 => {
                body.emit_all([I::I32Const(0x77), I::I32Const(1), I::I32Const(2), I::I64Const(-1)]);
                body.emit_all([I::StructNew(Kind::Leaf.index()), I::I32Const(bytes / 8)]);
                body.emit_all([I::ArrayNew(Array::Leaves.index()), I::Drop]);
            }
            _ => {
                body.emit_all([I::I32Const(0x77), I::RefNull(Kind::Base.heap()), I::I32Const(0x3333), I::RefI31]);
                body.emit_all([I::StructNew(Kind::Base.index()), I::Drop]);
            }
        });
    }

    /// Gives back its argument, after one of the things that may collect.
    pub fn same(&mut self) {
        if self.chance(40) {
            self.emit(I::Call(GC));
        }
        if self.chance(70) {
            self.churn();
        }
        self.emit(I::LocalGet(0));
    }

    /// Throws with the tag number `tag`.
    pub fn boom(&mut self, tag: usize) {
        for field in Signature::TAGS[tag].parameters() {
            self.field_value(field, 1);
        }
        if self.chance(50) {
            self.emit(I::Call(CHURN[0]));
        }
        self.emit(I::Throw(tag as u32));
    }

    /// From a reference and a depth to a number: everything that can be reached within the depth has its part in it.
    pub fn walk(&mut self) {
        let (value, depth) = (0, 1);
        let hash = self.local(ValType::I32);
        let index = self.local(ValType::I32);
        self.emit_all([I::LocalGet(value), I::RefIsNull, I::If(BlockType::Empty), I::I32Const(1), I::Return, I::End]);
        self.emit_all([I::LocalGet(depth), I::I32Const(0), I::I32LtS, I::If(BlockType::Empty)]);
        self.emit_all([I::I32Const(2), I::Return, I::End]);
        self.case(Kind::I31, |body, local| {
            body.emit_all([I::LocalGet(local), I::I31GetS, I::LocalSet(hash)]);
        });
        for kind in [Kind::Last, Kind::Derived, Kind::Base, Kind::Leaf] {
            self.case(kind, |body, local| {
                for (field_index, field) in (0..).zip(body.types.fields(kind)) {
                    let struct_type_index = kind.index();
                    body.emit(I::LocalGet(local));
                    body.emit(match field {
                        Field::I8 => I::StructGetS { struct_type_index, field_index },
                        Field::I16 => I::StructGetU { struct_type_index, field_index },
                        _ => I::StructGet { struct_type_index, field_index },
                    });
                    body.mix(field, hash);
                }
            });
        }
        for array in Array::ALL {
            self.case(Kind::Array(array), |body, local| {
                body.emit_all([I::LocalGet(local), I::ArrayLen, I::LocalSet(hash)]);
                // From 0 in steps that are a part of the length.
                body.emit_all([
                    I::I32Const(0),
                    I::LocalSet(index),
                    I::Block(BlockType::Empty),
                    I::Loop(BlockType::Empty),
                ]);
                body.emit_all([I::LocalGet(index), I::LocalGet(local), I::ArrayLen, I::I32GeU, I::BrIf(1)]);
                body.emit_all([I::LocalGet(local), I::LocalGet(index)]);
                body.emit(match array.element() {
                    Field::I8 => I::ArrayGetS(array.index()),
                    Field::I16 => I::ArrayGetU(array.index()),
                    _ => I::ArrayGet(array.index()),
                });
                body.mix(array.element(), hash);
                body.emit_all([
                    I::LocalGet(local),
                    I::ArrayLen,
                    I::I32Const(WALKED),
                    I::I32DivU,
                    I::I32Const(1),
                    I::I32Add,
                ]);
                body.emit_all([I::LocalGet(index), I::I32Add, I::LocalSet(index), I::Br(0), I::End, I::End]);
            });
        }
        self.emit_all([I::LocalGet(value), I::ExternConvertAny, I::Call(EXTERN_ID)]);
    }

    /// What a walk does with values of a kind, which come in a local. It ends with what is in the local 2.
    fn case(&mut self, kind: Kind, generate: impl FnOnce(&mut Self, u32)) {
        let hash = 2;
        let local = self.local_of(kind);
        self.block(vec![], vec![], |body| {
            body.block(vec![], vec![Kind::Any.value(true)], |body| {
                let (from_ref_type, to_ref_type) = (Kind::Any.reference(true), kind.reference(false));
                body.emit(I::LocalGet(0));
                body.emit(I::BrOnCastFail { relative_depth: 0, from_ref_type, to_ref_type });
                body.emit(I::LocalSet(local));
                generate(body, local);
                body.emit_all([I::LocalGet(hash), I::Return]);
            });
            body.emit(I::Drop);
        });
    }

    /// Mixes the value on the stack into the local `hash`.
    fn mix(&mut self, field: Field, hash: u32) {
        let walk = [I::LocalGet(1), I::I32Const(1), I::I32Sub, I::Call(WALK)];
        match field {
            Field::I8 | Field::I16 | Field::I32 => {}
            Field::I64 | Field::V128 => {
                if field == Field::V128 {
                    self.halves();
                }
                self.emit_all([I::I64Const(0x1_0000_0001), I::I64Mul, I::I64Const(32), I::I64ShrU, I::I32WrapI64])
            }
            Field::F32 => self.emit(I::I32ReinterpretF32),
            Field::F64 => self.emit_all([I::I64ReinterpretF64, I::I64Const(29), I::I64ShrU, I::I32WrapI64]),
            Field::Ref(Kind::Extern, _) => {
                self.emit(I::AnyConvertExtern);
                self.emit_all(walk);
            }
            Field::Ref(Kind::Same | Kind::Exn, _) => self.emit(I::RefIsNull),
            Field::Ref(..) => self.emit_all(walk),
        }
        self.emit_all([I::LocalGet(hash), I::I32Const(MULTIPLIER), I::I32Mul, I::I32Add, I::LocalSet(hash)]);
    }

    /// Walks through all globals and tables.
    pub fn observe_all(&mut self) {
        let hash = self.local(ValType::I32);
        let index = self.local(ValType::I32);
        let depth = self.local(ValType::I32);
        let walk = |body: &mut Self, kind: Kind| {
            match kind {
                Kind::Same | Kind::Exn => body.emit(I::RefIsNull),
                _ => {
                    if kind == Kind::Extern {
                        body.emit(I::AnyConvertExtern);
                    }
                    body.emit_all([I::LocalGet(depth), I::Call(WALK)]);
                }
            }
            body.emit_all([I::LocalGet(hash), I::I32Const(MULTIPLIER), I::I32Mul, I::I32Add, I::LocalSet(hash)]);
        };
        self.emit_all([I::I32Const(3), I::LocalSet(depth)]);
        for (global, (kind, ..)) in (FIRST_GLOBAL..).zip(GLOBALS) {
            self.emit(I::GlobalGet(global));
            walk(self, kind);
        }
        self.emit_all([I::I32Const(2), I::LocalSet(depth)]);
        for (table, (kind, _)) in (1..).zip(TABLES) {
            self.emit_all([I::I32Const(0), I::LocalSet(index), I::Loop(BlockType::Empty)]);
            self.emit_all([I::LocalGet(index), I::TableGet(table)]);
            walk(self, kind);
            self.emit_all([I::LocalGet(index), I::I32Const(1), I::I32Add, I::LocalTee(index)]);
            self.emit_all([I::TableSize(table), I::I32LtU, I::BrIf(0), I::End]);
        }
        self.emit_all([I::LocalGet(hash), I::I64ExtendI32U]);
    }
}
