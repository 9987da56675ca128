//! Calls, exceptions and tail calls; and what may collect without having to do with any value.

use super::body::Body;
use super::names::*;
use super::signatures::Signature;
use super::types::{Field, Kind};
use wasm_encoder::{BlockType, Catch, Instruction as I, ValType};

/// How a function is called.
#[derive(Clone, Copy)]
enum CallKind {
    Direct,
    Indirect,
    Reference,
}

impl Body<'_> {
    /// Something during which a collection may happen, and which leaves the stack as it is.
    pub fn safepoint(&mut self) {
        self.droppable(|body| match body.below(14) {
            0..=2 => body.emit(I::Call(GC)),
            3 | 4 => {
                let churn = body.one_of(&CHURN);
                body.emit(I::Call(churn));
            }
            5 | 6 => {
                let churn = body.one_of(&CHURN);
                body.call(churn, Signature::Void);
            }
            7 | 8 => {
                let kind = body.one_of(&[Kind::Base, Kind::Leaf]);
                body.make(kind, 0);
                body.emit(I::Drop);
            }
            9 if body.index > WALK && body.index != REENTRY => body.emit_all([I::I32Const(1), I::Call(REENTER)]),
            // What throws must not have itself thrown.
            10 if body.index > WALK => {
                let position = body.below(BOOM.len());
                body.block(vec![], vec![], |body| {
                    body.emit(I::TryTable(BlockType::Empty, vec![Catch::All { label: 0 }].into()));
                    body.emit_all([I::I32Const(3), I::Call(BOOM[position]), I::Drop, I::End]);
                });
            }
            11 | 12 => {
                if body.chance(40) {
                    let function = body.one_of(&[NOTHING, NOTHING, CHURN[0], CHURN[1]]);
                    body.emit_all([I::RefFunc(function), I::GlobalSet(INITIALIZER)]);
                }
                body.emit_all([I::GlobalGet(INITIALIZER), I::CallRef(Signature::Void.index())]);
            }
            _ => {
                // A loop that polls.
                let counter = body.local(ValType::I32);
                body.counted(counter, 3, true, |body| body.emit(I::Nop));
            }
        });
    }

    /// Calls a function whose arguments are on the stack.
    pub fn call(&mut self, function: u32, signature: Signature) {
        match self.call_kind() {
            CallKind::Direct => self.emit(I::Call(function)),
            CallKind::Indirect => self.emit_all([
                I::I32Const(function_slot(function)),
                I::CallIndirect { type_index: signature.index(), table_index: FUNCTIONS },
            ]),
            CallKind::Reference => self.emit_all([I::RefFunc(function), I::CallRef(signature.index())]),
        }
    }

    fn call_kind(&mut self) -> CallKind {
        self.one_of(&[CallKind::Direct, CallKind::Indirect, CallKind::Reference])
    }

    /// The functions that exist to be called, below the one that calls, with their signatures.
    fn callees(&self) -> Vec<(u32, Signature)> {
        let signature = |function| match function {
            _ if MANY.contains(&function) => Signature::Many,
            FEW => Signature::Few,
            _ => Signature::Swap,
        };
        (MANY[0]..=SWAP[1]).filter(|callee| *callee < self.index).map(|callee| (callee, signature(callee))).collect()
    }

    /// A call of a generated function, and its results into the checksum or into slots.
    pub fn call_generated(&mut self) {
        let callees = self.callees();
        if callees.is_empty() {
            self.safepoint();
            return;
        }
        let (function, signature) = self.one_of(&callees);
        self.arguments(signature);
        self.call(function, signature);
        self.results(signature);
    }

    /// A call of a host function that takes references.
    pub fn call_host(&mut self) {
        let (function, signature) = self.one_of(&[(PASS, Signature::Pass), (TOUCH, Signature::Touch)]);
        self.arguments(signature);
        self.emit(I::Call(function));
        self.results(signature);
    }

    fn arguments(&mut self, signature: Signature) {
        for parameter in signature.parameters() {
            self.field_value(parameter, 1);
        }
    }

    fn results(&mut self, signature: Signature) {
        for result in signature.results().into_iter().rev() {
            self.take(result);
        }
    }

    /// Takes the value on the stack: into a slot, or into the checksum.
    pub fn take(&mut self, field: Field) {
        if let Field::Ref(kind, nullable) = field {
            let fits = |slot: &&super::body::Slot| kind.is_below(slot.kind) && (slot.nullable || !nullable);
            let slots: Vec<_> = self.slots.iter().filter(fits).copied().collect();
            if !slots.is_empty() && self.chance(60) {
                let slot = self.one_of(&slots);
                self.emit(I::LocalSet(slot.local));
                return;
            }
        }
        self.fold_field(field, 1);
    }

    /// Ends the function with a call in its own place. Gives back false, and nothing is appended, if none fits.
    pub fn tail_call(&mut self, own: Signature) -> bool {
        let fits = |callee: &(u32, Signature)| callee.1.results() == own.results();
        let callees: Vec<_> = self.callees().into_iter().filter(fits).collect();
        if callees.is_empty() {
            return false;
        }
        let (function, signature) = self.one_of(&callees);
        self.arguments(signature);
        match self.call_kind() {
            CallKind::Direct => self.emit(I::ReturnCall(function)),
            CallKind::Indirect => self.emit_all([
                I::I32Const(function_slot(function)),
                I::ReturnCallIndirect { type_index: signature.index(), table_index: FUNCTIONS },
            ]),
            CallKind::Reference => self.emit_all([I::RefFunc(function), I::ReturnCallRef(signature.index())]),
        }
        true
    }

    /// Throws, in some cases: for the inside of [`catching`](Self::catching).
    pub fn throw(&mut self) {
        let tag = self.below(Signature::TAGS.len());
        if self.chance(30) {
            self.amount(tag as u32);
            self.emit_all([I::Call(BOOM[tag]), I::Drop]);
            return;
        }
        self.condition();
        self.emit(I::If(BlockType::Empty));
        for field in Signature::TAGS[tag].parameters() {
            self.field_value(field, 1);
        }
        self.emit_all([I::Throw(tag as u32), I::End]);
    }

    /// Steps that throw, and handlers of what they throw.
    pub fn try_steps(&mut self) {
        self.catching(|body| {
            let steps = 1 + body.below(3);
            body.steps(steps);
            body.throw();
        });
    }

    /// A `try_table` around what `generate` appends, and handlers that take in what was thrown.
    pub fn catching(&mut self, generate: impl FnOnce(&mut Self)) {
        let mut handlers: Vec<(Option<usize>, bool)> = (0..Signature::TAGS.len())
            .filter_map(|tag| self.chance(60).then_some((Some(tag), self.chance(40))))
            .collect();
        if handlers.is_empty() || self.chance(80) {
            handlers.push((None, self.chance(50)));
        }
        let payload = |handler: &(Option<usize>, bool)| {
            let mut fields = handler.0.map_or(vec![], |tag| Signature::TAGS[tag].parameters());
            fields.extend(handler.1.then_some(Field::Ref(Kind::Exn, false)));
            fields
        };
        // The block around everything, and one around each handler's predecessors: the first handler's is the
        // innermost.
        self.emit(I::Block(BlockType::Empty));
        for handler in handlers.iter().rev() {
            let results = payload(handler).into_iter().map(Field::value).collect();
            let ty = self.block_type(vec![], results);
            self.emit(I::Block(ty));
        }
        let catches: Vec<Catch> = (0..)
            .zip(&handlers)
            .map(|(label, handler)| match *handler {
                (Some(tag), false) => Catch::One { tag: tag as u32, label },
                (Some(tag), true) => Catch::OneRef { tag: tag as u32, label },
                (None, false) => Catch::All { label },
                (None, true) => Catch::AllRef { label },
            })
            .collect();
        self.emit(I::TryTable(BlockType::Empty, catches.into()));
        generate(self);
        self.emit_all([I::End, I::Br(handlers.len() as u32)]);
        for (position, handler) in handlers.iter().enumerate() {
            self.emit(I::End);
            if self.chance(30) {
                self.safepoint();
            }
            for field in payload(handler).into_iter().rev() {
                match field {
                    // Not thrown again here: that would have no end.
                    Field::Ref(Kind::Exn, _) => self.keep_exception(),
                    _ => self.take(field),
                }
            }
            self.emit(I::Br((handlers.len() - 1 - position) as u32));
        }
        self.emit(I::End);
    }

    fn keep_exception(&mut self) {
        let slots: Vec<_> = self.slots.iter().filter(|slot| slot.kind == Kind::Exn).map(|slot| slot.local).collect();
        let global = (FIRST_GLOBAL..).zip(GLOBALS).find(|(_, global)| global.0 == Kind::Exn);
        match global {
            Some((index, _)) if slots.is_empty() || self.chance(30) => self.emit(I::GlobalSet(index)),
            _ => {
                let local = self.one_of(&slots);
                self.emit(I::LocalSet(local));
            }
        }
    }
}
