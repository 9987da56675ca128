//! The steps that generated functions consist of. Each leaves the stack as it found it.

use super::body::Body;
use super::names::*;
use super::types::{Array, Field, Kind};
use wasm_encoder::{BlockType, Instruction as I};

/// Steps within steps within steps: no further.
const DEEPEST: u32 = 4;

/// How often each step comes, out of their sum, and what it is.
type Choice = (usize, fn(&mut Body));

/// Steps without steps in them.
const SIMPLE: [Choice; 22] = [
    (6, |body| body.assign()),
    (8, |body| body.slot_use()),
    (5, |body| body.value_use()),
    (6, |body| body.set_field()),
    (6, |body| body.set_element()),
    (12, |body| body.bulk_array()),
    (8, |body| body.table()),
    (4, |body| body.set_global()),
    (2, |body| body.global_use()),
    (1, |body| body.droppable_segment()),
    (6, |body| body.safepoint()),
    (4, |body| body.stacked()),
    (5, |body| body.call_generated()),
    (4, |body| body.call_host()),
    (1, |body| body.trap()),
    (2, |body| body.scatter()),
    (3, |body| body.equal()),
    (3, |body| body.branch_on_cast()),
    (3, |body| body.branch_on_null()),
    (3, |body| body.test_and_cast()),
    (2, |body| body.loop_with_parameter()),
    (4, |body| body.loop_without_calls()),
];
/// Steps with steps in them.
const COMPOUND: [Choice; 4] = [
    (3, |body| body.loop_steps()),
    (2, |body| body.nest()),
    (3, |body| body.conditional_steps()),
    (3, |body| body.try_steps()),
];

impl Body<'_> {
    /// Appends `count` steps.
    pub fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.droppable(|body| {
                let compound = if body.nesting < DEEPEST { &COMPOUND[..] } else { &[] };
                let choices: Vec<&Choice> = SIMPLE.iter().chain(compound).collect();
                let mut number = body.below(choices.iter().map(|choice| choice.0).sum());
                for (weight, step) in choices {
                    if number < *weight {
                        return step(body);
                    }
                    number -= weight;
                }
            });
        }
    }

    /// A trap, in few cases: it ends the call.
    fn trap(&mut self) {
        self.emit_all([
            I::GlobalGet(SUM),
            I::I32WrapI64,
            I::I32Const(15),
            I::I32And,
            I::I32Eqz,
            I::If(BlockType::Empty),
        ]);
        let array = self.one_of(&Array::ALL);
        match self.below(4) {
            0 => self.emit(I::Unreachable),
            1 => {
                self.value(Kind::Array(array), false, 1);
                self.amount(1 << 20);
                self.array_get(array.index(), array.element());
                self.emit(I::Drop);
            }
            2 => {
                self.value(Kind::Any, true, 1);
                self.emit_all([I::RefCastNonNull(Kind::Last.heap()), I::Drop]);
            }
            _ => {
                self.amount(1 << 20);
                self.emit_all([I::TableGet(1), I::Drop]);
            }
        }
        self.emit(I::End);
    }

    fn assign(&mut self) {
        let slots = self.slots.clone();
        let slot = self.one_of(&slots);
        self.value(slot.kind, slot.nullable, 2);
        if self.chance(25) {
            self.emit(I::LocalTee(slot.local));
            self.fold(slot.kind, 1);
        } else {
            self.emit(I::LocalSet(slot.local));
        }
    }

    /// Folds what a slot leads to.
    pub fn slot_use(&mut self) {
        let slots = self.slots.clone();
        let slot = self.one_of(&slots);
        self.emit(I::LocalGet(slot.local));
        self.fold(slot.kind, 2);
    }

    fn value_use(&mut self) {
        let array = self.one_of(&Array::ALL);
        let kind = self.one_of(&[Kind::Base, Kind::Derived, Kind::Last, Kind::Any, Kind::Extern, Kind::Array(array)]);
        self.value(kind, true, 3);
        if self.chance(50) {
            self.take(Field::Ref(kind, true));
        } else {
            self.fold(kind, 2);
        }
    }

    fn set_global(&mut self) {
        let globals: Vec<_> = (FIRST_GLOBAL..).zip(GLOBALS).filter(|(_, global)| global.2).collect();
        let (index, (kind, nullable, _)) = self.one_of(&globals);
        self.value(kind, nullable, 2);
        self.emit(I::GlobalSet(index));
    }

    fn global_use(&mut self) {
        let globals: Vec<_> = (FIRST_GLOBAL..).zip(GLOBALS).collect();
        let (index, (kind, ..)) = self.one_of(&globals);
        self.emit(I::GlobalGet(index));
        if self.chance(40) {
            self.safepoint();
        }
        self.fold(kind, 2);
    }

    /// References that lie on the stack while collections happen.
    fn stacked(&mut self) {
        let kinds: Vec<Kind> = (0..2 + self.below(3))
            .map(|_| {
                let array = self.one_of(&Array::ALL);
                self.one_of(&[Kind::Base, Kind::Last, Kind::Leaf, Kind::Any, Kind::Extern, Kind::Array(array)])
            })
            .collect();
        for kind in &kinds {
            self.value(*kind, true, 1);
            if self.chance(40) {
                self.safepoint();
            }
        }
        for kind in kinds.into_iter().rev() {
            self.fold(kind, 1);
        }
    }

    /// Compares identities, of the same object or of two.
    fn equal(&mut self) {
        self.value(Kind::Eq, true, 1);
        if self.chance(50) {
            let local = self.local_of(Kind::Eq);
            self.emit(I::LocalTee(local));
            self.safepoint();
            self.emit(I::LocalGet(local));
        } else {
            self.value(Kind::Eq, true, 1);
        }
        self.emit(I::RefEq);
        self.fold_i32();
    }
}
