//! `try_table`, `throw`, `throw_ref`.
//!
//! Each catch clause has a landing block, which takes the exception apart and goes to the clause's label. Every call
//! and throw within the `try_table` has an edge to it.

use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};
use wasmparser::{Catch, Operator, TryTable};

use super::state::{Frame, FrameKind, Handlers, Landing, Translator};
use crate::CompileError;
use crate::mir::{Block, Edge, HandlerEdge, Op, Terminator, Value};
use crate::module::{HeapType, RefType, TagIndex, ValueType};

/// The type of caught exceptions.
const EXCEPTION: ValueType = ValueType::Ref(RefType::non_null(HeapType::Exn));

impl Translator<'_> {
    /// Translates an instruction on exceptions; false if it is none.
    pub(super) fn exceptions(&mut self, operator: &Operator<'_>) -> Result<bool, CompileError> {
        match operator {
            Operator::TryTable { try_table } => self.try_table(try_table)?,
            Operator::Throw { tag_index } => {
                let tag = TagIndex(*tag_index);
                let info = self.info;
                let payload = self.pop_many(info.func_type(info.tags[tag.index()]).params.len());
                let exception = self.value(Op::ExceptionNew(tag), &payload, EXCEPTION);
                self.throw(exception);
            }
            Operator::ThrowRef => {
                let exception = self.pop();
                self.throw(exception);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn throw(&mut self, exception: Value) {
        let handlers = self.handler_edges();
        self.terminate(Terminator::Throw { exception, handlers });
    }

    /// The edges to the handlers in effect.
    pub(super) fn handler_edges(&mut self) -> Vec<HandlerEdge> {
        self.builder.limits.spend(self.handlers.0.len() as u64);
        self.handlers.0.iter().map(|&(tag, block)| HandlerEdge { tag, edge: Edge::to(block) }).collect()
    }

    fn try_table(&mut self, try_table: &TryTable) -> Result<(), CompileError> {
        let (params, results) = self.block_type(try_table.ty)?;
        let outer = self.handlers.clone();
        let mut landings = Vec::new();
        let mut inner = Vec::new();
        for &clause in &try_table.catches {
            let tag = match clause {
                Catch::One { tag, .. } | Catch::OneRef { tag, .. } => Some(TagIndex(tag)),
                Catch::All { .. } | Catch::AllRef { .. } => None,
            };
            let block = self.new_block();
            let exception = self.builder.function.add_param(block, EXCEPTION);
            landings.push(Landing { block, exception, clause });
            inner.push((tag, block));
        }
        inner.extend_from_slice(&outer.0);
        self.builder.limits.spend(inner.len() as u64);
        self.handlers.0 = effective(inner);
        let follow = self.new_block();
        self.add_params(follow, &results);
        let height = self.stack.len() - params.len();
        let slots = self.save_around(height);
        let kind = FrameKind::TryTable { landings, outer };
        self.control.push(Frame { kind, height, label: follow, arity: results.len(), follow, slots });
        Ok(())
    }

    /// Writes the landing blocks that something leads to. The `try_table` itself is no longer on the control stack, as
    /// the clauses' labels count from outside it.
    pub(super) fn finish_try_table(&mut self, landings: Vec<Landing>, outer: Handlers) {
        self.handlers = outer;
        for Landing { block, exception, clause } in landings {
            if !self.builder.has_predecessors(block) {
                continue;
            }
            self.continue_in(block);
            let mut values: SmallVec<[Value; 4]> = smallvec![];
            let (tag, with_reference, label) = match clause {
                Catch::One { tag, label } => (Some(tag), false, label),
                Catch::OneRef { tag, label } => (Some(tag), true, label),
                Catch::All { label } => (None, false, label),
                Catch::AllRef { label } => (None, true, label),
            };
            if let Some(tag) = tag {
                let info = self.info;
                let payload = &info.func_type(info.tags[tag as usize]).params;
                for (field, &ty) in payload.iter().enumerate() {
                    let op = Op::ExceptionGet(TagIndex(tag), field as u32);
                    values.push(self.value(op, &[exception], ty));
                }
            }
            if with_reference {
                values.push(exception);
            }
            self.branch_to(label, &values);
        }
    }
}

/// Keeps the first handler of each tag, and none after one that catches all.
fn effective(handlers: Vec<(Option<TagIndex>, Block)>) -> Vec<(Option<TagIndex>, Block)> {
    let mut seen = FxHashSet::default();
    let mut kept = Vec::new();
    for (tag, block) in handlers {
        if seen.insert(tag) {
            kept.push((tag, block));
        }
        if tag.is_none() {
            break;
        }
    }
    kept
}
