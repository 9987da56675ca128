//! The body of one generated function: code, locals, and steps that a reduction can leave out.

use super::types::{Field, Kind, Types};
use crate::random::Random;
use std::collections::HashSet;
use wasm_encoder::{BlockType, Function, HeapType, Instruction as I, ValType};

/// Which steps of a program are left out, and which were there to be left out.
///
/// Each step has random numbers of its own, which follow from the number that names it: without it, the others stay as
/// they are.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Steps to leave out.
    pub dropped: HashSet<u64>,
    /// Steps that were generated, in order.
    pub taken: Vec<u64>,
    /// Instructions, by their names in `wasm_encoder`: steps that hold one are left out with the steps within.
    pub without: Vec<String>,
}

impl Steps {
    /// Whether a step is there.
    pub fn take(&mut self, step: u64) -> bool {
        let taken = !self.dropped.contains(&step);
        if taken {
            self.taken.push(step);
        }
        taken
    }
}

/// A local that always holds a value of its kind, so that any step may read or write it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub kind: Kind,
    pub nullable: bool,
    pub local: u32,
}

/// A function body under construction.
pub struct Body<'a> {
    pub types: &'a mut Types,
    pub random: Random,
    /// Functions that it may call: those with smaller indices.
    pub index: u32,
    /// Steps within steps.
    pub nesting: u32,
    pub slots: Vec<Slot>,
    steps: &'a mut Steps,
    code: Vec<I<'static>>,
    parameters: u32,
    locals: Vec<ValType>,
    used: HashSet<u32>,
}

impl<'a> Body<'a> {
    /// An empty body of the function `index` with these parameters.
    pub fn new(types: &'a mut Types, steps: &'a mut Steps, seed: u64, index: u32, parameters: &[Field]) -> Body<'a> {
        let slot = |(local, field): (u32, &Field)| match *field {
            Field::Ref(kind, nullable) => Some(Slot { kind, nullable, local }),
            _ => None,
        };
        Body {
            types,
            random: Random::new(seed),
            index,
            nesting: 0,
            slots: (0..).zip(parameters).filter_map(slot).collect(),
            steps,
            code: Vec::new(),
            parameters: parameters.len() as u32,
            locals: Vec::new(),
            used: HashSet::new(),
        }
    }

    /// Appends an instruction.
    pub fn emit(&mut self, instruction: I<'static>) {
        if let I::LocalGet(local) | I::LocalSet(local) | I::LocalTee(local) = instruction {
            self.used.insert(local);
        }
        self.code.push(instruction);
    }

    /// Appends instructions.
    pub fn emit_all(&mut self, instructions: impl IntoIterator<Item = I<'static>>) {
        instructions.into_iter().for_each(|instruction| self.emit(instruction));
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choice`.
    pub fn one_of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())]
    }

    /// A new local, which is zero or null.
    pub fn local(&mut self, ty: ValType) -> u32 {
        self.locals.push(ty);
        self.parameters + self.locals.len() as u32 - 1
    }

    /// A new local for references of a kind.
    pub fn local_of(&mut self, kind: Kind) -> u32 {
        self.local(kind.value(true))
    }

    /// Adds slots for values of all kinds, some of them nullable. They are filled by [`finish`](Self::finish).
    pub fn add_slots(&mut self, kinds: &[(Kind, bool)]) {
        for &(kind, nullable) in kinds {
            let local = self.local(kind.value(nullable));
            self.slots.push(Slot { kind, nullable, local });
        }
    }

    /// Generates a part of the code that can be left out without changing what is around it.
    pub fn droppable(&mut self, generate: impl FnOnce(&mut Self)) {
        let step = self.random.bits();
        if !self.steps.take(step) {
            return;
        }
        let outer = std::mem::replace(&mut self.random, Random::new(step));
        self.nesting += 1;
        let start = self.code.len();
        generate(self);
        let unwanted = |instruction: &I| {
            let name = format!("{instruction:?}");
            let name = name.split(['(', ' ']).next().unwrap_or_default();
            self.steps.without.iter().any(|unwanted| unwanted == name)
        };
        if !self.steps.without.is_empty() && self.code[start..].iter().any(unwanted) {
            self.code.truncate(start);
        }
        self.nesting -= 1;
        self.random = outer;
    }

    /// The type of a block.
    pub fn block_type(&mut self, parameters: Vec<ValType>, results: Vec<ValType>) -> BlockType {
        match (&parameters[..], &results[..]) {
            ([], []) => BlockType::Empty,
            ([], [result]) => BlockType::Result(*result),
            _ => BlockType::FunctionType(self.types.block(parameters, results)),
        }
    }

    /// A block from `parameters` to `results` around what `generate` appends.
    pub fn block(&mut self, parameters: Vec<ValType>, results: Vec<ValType>, generate: impl FnOnce(&mut Self)) {
        let ty = self.block_type(parameters, results);
        self.emit(I::Block(ty));
        generate(self);
        self.emit(I::End);
    }

    /// Takes a reference that may be null from the stack, and appends what `generate` does with it where it is not.
    pub fn unless_null(&mut self, kind: Kind, generate: impl FnOnce(&mut Self)) {
        self.block(vec![kind.value(true)], vec![], |body| {
            body.emit(I::BrOnNull(0));
            generate(body);
        });
    }

    /// The finished function: first its slots get values, then the code so far follows.
    pub fn finish(mut self, seed: u64) -> Function {
        let code = std::mem::take(&mut self.code);
        let slots = std::mem::take(&mut self.slots);
        let used = std::mem::take(&mut self.used);
        let parameters = self.parameters;
        for slot in slots.into_iter().filter(|slot| slot.local >= parameters) {
            // Whether a slot is used depends on the steps that are left: what it gets must not depend on other slots.
            self.random = Random::new(seed ^ (u64::from(slot.local) << 32));
            if !used.contains(&slot.local) {
                continue;
            }
            let fill = |body: &mut Self| {
                body.value(slot.kind, slot.nullable, 1);
                body.emit(I::LocalSet(slot.local));
            };
            if slot.nullable { self.droppable(fill) } else { fill(&mut self) }
        }
        let mut function = Function::new_with_locals_types(self.locals);
        for instruction in self.code.iter().chain(&code) {
            function.instruction(instruction);
        }
        function.instruction(&I::End);
        function
    }

    /// Appends a null reference.
    pub fn null(&mut self, kind: Kind) {
        let bottom = matches!(kind.heap(), HeapType::Concrete(_)) && kind != Kind::Same && self.chance(30);
        let none = HeapType::Abstract { shared: false, ty: wasm_encoder::AbstractHeapType::None };
        self.emit(I::RefNull(if bottom { none } else { kind.heap() }));
    }
}
