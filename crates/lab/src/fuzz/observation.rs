//! What an engine did with a module, in terms that engines have in common.

use super::plan::{Plan, PlannedCall};

/// A value as the host sees it. References count by what they are, not by identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `i32`, or the bits of an `f32`.
    Bits32(u32),
    /// `i64`, or the bits of an `f64`.
    Bits64(u64),
    /// `v128`.
    Bits128(u128),
    /// Null of any type.
    Null,
    /// An `i31ref`.
    I31(u32),
    /// A struct.
    Struct,
    /// An array, and its length.
    Array(u32),
    /// A function.
    Func,
    /// An `externref`.
    Extern,
    /// An exception.
    Exn,
}

/// How a call, or the instantiation, ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned.
    Values(Vec<Value>),
    /// It trapped.
    Trap(TrapKind),
    /// An exception reached the host.
    Exception,
    /// Something that no program's meaning determines: out of memory, stack overflow, an interrupt. Ends the module.
    Inconclusive(String),
    /// The engine refused or failed in a way that a valid module gives no reason for. Ends the module.
    Failure(String),
}

/// The kinds of traps that the specification tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TrapKind {
    Unreachable,
    MemoryOutOfBounds,
    TableOutOfBounds,
    ArrayOutOfBounds,
    IndirectCallToNull,
    BadSignature,
    DivisionByZero,
    IntegerOverflow,
    BadConversion,
    NullReference,
    CastFailure,
}

/// One call of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The export.
    pub export: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The budget that it left.
    pub budget: u32,
}

/// Everything that an engine did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Compilation and instantiation: no values, or why not.
    pub instantiation: Outcome,
    /// The calls, in order. The list ends early at an inconclusive one.
    pub calls: Vec<Call>,
    /// The state at the end: exported globals, memories (length and a hash of the contents), tables (each element).
    pub state: Vec<(String, Vec<Value>)>,
}

impl Observation {
    /// An instantiation that did not succeed.
    pub fn not_instantiated(outcome: Outcome) -> Observation {
        Observation { instantiation: outcome, calls: Vec::new(), state: Vec::new() }
    }
}

/// A memory's contents as values: its length and a hash (FNV-1a) of its bytes.
pub fn memory_contents(bytes: &[u8]) -> Vec<Value> {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    vec![Value::Bits64(bytes.len() as u64), Value::Bits64(hash)]
}

/// An instance in some engine, for [`observe`].
pub trait Subject {
    /// Calls an export.
    fn call(&mut self, call: &PlannedCall) -> Outcome;
    /// Sets the budget.
    fn set_budget(&mut self, budget: u32);
    /// The budget that is left.
    fn budget(&mut self) -> u32;
    /// A global's value.
    fn global(&mut self, name: &str) -> Vec<Value>;
    /// A memory's contents.
    fn memory(&mut self, name: &str) -> Vec<Value>;
    /// A table's elements.
    fn table(&mut self, name: &str) -> Vec<Value>;
}

/// Carries out a plan on an instance. Each call gets the whole budget.
pub fn observe(subject: &mut impl Subject, plan: &Plan, budget: u32) -> Observation {
    let mut calls = Vec::new();
    for call in &plan.calls {
        subject.set_budget(budget);
        let outcome = subject.call(call);
        let ended = matches!(outcome, Outcome::Inconclusive(_) | Outcome::Failure(_));
        calls.push(Call { export: call.export.clone(), outcome, budget: subject.budget() });
        if ended {
            break;
        }
    }
    let mut state = Vec::new();
    state.extend(plan.globals.iter().map(|name| (name.clone(), subject.global(name))));
    state.extend(plan.memories.iter().map(|name| (name.clone(), subject.memory(name))));
    state.extend(plan.tables.iter().map(|name| (name.clone(), subject.table(name))));
    Observation { instantiation: Outcome::Values(Vec::new()), calls, state }
}
