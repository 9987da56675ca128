//! Loops, nests of loops, and branches that depend on references.

use super::body::Body;
use super::names::*;
use super::signatures::Signature;
use super::types::{Array, Field, Kind};
use wasm_encoder::{BlockType, Instruction as I, ValType};

/// The deepest nest of loops.
const DEEPEST: usize = 12;
/// Rounds that a nest of loops may take altogether: loops in nests do not count down the fuel.
const MOST_ROUNDS: u32 = 64;

impl Body<'_> {
    /// A loop of `count` rounds. One that burns fuel ends when there is none left.
    pub fn counted(&mut self, counter: u32, count: u32, burns: bool, generate: impl FnOnce(&mut Self)) {
        self.emit_all([I::I32Const(0), I::LocalSet(counter), I::Loop(BlockType::Empty)]);
        generate(self);
        self.emit_all([I::LocalGet(counter), I::I32Const(1), I::I32Add, I::LocalTee(counter)]);
        self.emit_all([I::I32Const(count as i32), I::I32LtU]);
        if burns {
            self.burn(1);
            self.emit(I::I32And);
        }
        self.emit_all([I::BrIf(0), I::End]);
    }

    /// Appends whether there is fuel left after burning some.
    pub fn burn(&mut self, amount: i32) {
        self.emit_all([I::GlobalGet(FUEL), I::I32Const(amount), I::I32Sub, I::GlobalSet(FUEL)]);
        self.emit_all([I::GlobalGet(FUEL), I::I32Const(0), I::I32GtS]);
    }

    /// Some steps, several times.
    pub fn loop_steps(&mut self) {
        let counter = self.local(ValType::I32);
        let rounds = 2 + self.below(5) as u32;
        self.counted(counter, rounds, true, |body| {
            let steps = 1 + body.below(4);
            body.steps(steps);
        });
    }

    /// A loop that a reference goes round with, as its parameter.
    pub fn loop_with_parameter(&mut self) {
        let array = self.one_of(&Array::ALL);
        let kind = self.one_of(&[Kind::Base, Kind::Leaf, Kind::Any, Kind::Extern, Kind::Array(array)]);
        let counter = self.local(ValType::I32);
        let rounds = 2 + self.below(4) as i32;
        self.value(kind, true, 1);
        let ty = self.block_type(vec![kind.value(true)], vec![kind.value(true)]);
        self.emit(I::Loop(ty));
        self.safepoint();
        if self.chance(40) {
            let local = self.local_of(kind);
            self.emit(I::LocalTee(local));
            self.fold(kind, 1);
            if self.chance(50) { self.value(kind, true, 1) } else { self.emit(I::LocalGet(local)) }
        }
        self.emit_all([I::LocalGet(counter), I::I32Const(1), I::I32Add, I::LocalTee(counter)]);
        self.emit_all([I::I32Const(rounds), I::I32LtU]);
        self.burn(1);
        self.emit_all([I::I32And, I::BrIf(0), I::End]);
        self.take(Field::Ref(kind, true));
        self.emit_all([I::I32Const(0), I::LocalSet(counter)]);
    }

    /// A nest of loops: collections in the outermost, uses in the innermost, and nothing in between, as invites a
    /// compiler to move the reads of the uses out of them all.
    pub fn nest(&mut self) {
        let depth = if self.chance(50) { 1 + self.below(DEEPEST) } else { DEEPEST - self.below(3) };
        let mut rounds = Vec::new();
        let mut product = 1;
        for level in 0..depth {
            let count = if level == 0 { 2 + self.below(3) as u32 } else { 1 + self.below(3) as u32 };
            let count = if product * count > MOST_ROUNDS { 1 } else { count };
            product *= count;
            rounds.push(count);
        }
        self.loops(&rounds, true);
    }

    fn loops(&mut self, rounds: &[u32], outermost: bool) {
        let Some((&count, inner)) = rounds.split_first() else {
            let uses = 1 + self.below(3);
            for _ in 0..uses {
                self.droppable(|body| body.innermost_use());
            }
            return;
        };
        let counter = self.local(ValType::I32);
        let before = self.chance(50);
        self.counted(counter, count, false, |body| {
            if !outermost {
                body.loops(inner, false);
                return;
            }
            if before {
                body.collect_and_fill();
            }
            body.loops(inner, false);
            if !before {
                body.collect_and_fill();
            }
        });
    }

    /// Collections, and new objects where old ones were.
    fn collect_and_fill(&mut self) {
        self.safepoint();
        self.safepoint();
        self.droppable(|body| {
            let churn = body.one_of(&CHURN);
            body.call(churn, Signature::Void);
        });
    }

    fn innermost_use(&mut self) {
        if self.slots.is_empty() || self.chance(70) {
            let globals: Vec<_> = (FIRST_GLOBAL..).zip(GLOBALS).filter(|(_, g)| !g.2 && g.0 != Kind::Same).collect();
            let (index, (kind, nullable, _)) = self.one_of(&globals);
            self.emit(I::GlobalGet(index));
            if nullable || kind == Kind::Any { self.fold(kind, 1) } else { self.observe(kind, 1) }
        } else {
            self.slot_use();
        }
    }

    /// Some steps in a block that a condition may leave or not enter.
    pub fn conditional_steps(&mut self) {
        let steps = 1 + self.below(3);
        if self.chance(50) {
            self.condition();
            self.emit(I::If(BlockType::Empty));
            self.steps(steps);
            if self.chance(50) {
                self.emit(I::Else);
                self.steps(steps);
            }
            self.emit(I::End);
        } else {
            self.block(vec![], vec![], |body| {
                body.steps(1);
                body.condition();
                body.emit(I::BrIf(0));
                body.steps(steps);
            });
        }
    }

    /// Branches to where a reference has another type.
    pub fn branch_on_cast(&mut self) {
        let array = self.one_of(&Array::ALL);
        let to =
            self.one_of(&[Kind::Base, Kind::Derived, Kind::Last, Kind::Leaf, Kind::Eq, Kind::I31, Kind::Array(array)]);
        let to_nullable = self.chance(50);
        let from_ref_type = Kind::Any.reference(true);
        let to_ref_type = to.reference(to_nullable);
        let fails = self.chance(50);
        self.block(vec![], vec![], |body| {
            // What is left of `any` when the cast fails is null only if null is no `to`.
            let carried = if fails { Kind::Any.value(!to_nullable) } else { to.value(to_nullable) };
            body.block(vec![], vec![carried], |body| {
                body.value(Kind::Any, true, 2);
                body.emit(if fails {
                    I::BrOnCastFail { relative_depth: 0, from_ref_type, to_ref_type }
                } else {
                    I::BrOnCast { relative_depth: 0, from_ref_type, to_ref_type }
                });
                body.safepoint();
                body.fold(if fails { to } else { Kind::Any }, 1);
                body.emit(I::Br(1));
            });
            body.safepoint();
            body.fold(if fails { Kind::Any } else { to }, 1);
        });
    }

    /// Tests, then casts what is still there after a collection.
    pub fn test_and_cast(&mut self) {
        let array = self.one_of(&Array::ALL);
        let to = self.one_of(&[Kind::Base, Kind::Derived, Kind::Leaf, Kind::Eq, Kind::I31, Kind::Array(array)]);
        let null = self.chance(50);
        let local = self.local_of(Kind::Any);
        self.value(Kind::Any, true, 2);
        self.emit(I::LocalTee(local));
        self.emit(if null { I::RefTestNullable(to.heap()) } else { I::RefTestNonNull(to.heap()) });
        self.emit_all([I::If(BlockType::Empty), I::LocalGet(local)]);
        self.safepoint();
        self.emit(if null { I::RefCastNullable(to.heap()) } else { I::RefCastNonNull(to.heap()) });
        self.take(Field::Ref(to, null));
        self.emit(I::End);
    }

    /// Branches where a reference is null, or where it is not.
    pub fn branch_on_null(&mut self) {
        let array = self.one_of(&Array::ALL);
        let kind =
            self.one_of(&[Kind::Base, Kind::Extern, Kind::Exn, Kind::I31, Kind::Same, Kind::Any, Kind::Array(array)]);
        let local = self.local_of(kind);
        self.value(kind, true, 2);
        match self.below(3) {
            0 => {
                self.emit_all([
                    I::LocalTee(local),
                    I::RefIsNull,
                    I::I32Eqz,
                    I::If(BlockType::Empty),
                    I::LocalGet(local),
                ]);
                self.safepoint();
                self.emit(I::RefAsNonNull);
                self.take(Field::Ref(kind, false));
                self.emit(I::End);
            }
            1 => self.unless_null(kind, |body| {
                body.safepoint();
                body.take(Field::Ref(kind, false));
            }),
            _ => {
                self.emit(I::LocalSet(local));
                self.block(vec![], vec![], |body| {
                    body.block(vec![], vec![kind.value(false)], |body| {
                        body.emit_all([I::LocalGet(local), I::BrOnNonNull(0), I::Br(1)]);
                    });
                    body.safepoint();
                    body.take(Field::Ref(kind, false));
                });
            }
        }
    }
}
