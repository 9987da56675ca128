//! The state of a translation, and what every part of it asks.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wasmparser::Catch;

use super::Part;
use super::ssa::Builder;
use crate::CompileError;
use crate::mir::{Block, Constant, Edge, Inst, Op, Terminator, Value};
use crate::module::{HeapType, ModuleInfo, RefType, TagIndex, TypeMap, ValueType};

/// An open structured instruction.
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    /// Height of the operand stack below the parameters.
    pub(super) height: usize,
    /// Where a branch to this frame goes.
    pub(super) label: Block,
    /// How many values such a branch takes.
    pub(super) arity: usize,
    /// Where execution goes on after the end; unused for loops, which are left only at their end.
    pub(super) follow: Block,
    /// Locals that hold what is on the operand stack below the frame: of loops that may be entered or left, and of what
    /// is around the loop that a part begins with.
    pub(super) slots: Slots,
}

/// Locals of the translator's, by height on the operand stack.
pub(super) type Slots = SmallVec<[u32; 4]>;

pub(super) enum FrameKind {
    /// The body. A branch to it returns.
    Function,
    Block,
    Loop {
        /// The header's.
        poll: Inst,
    },
    /// The other arm, as long as no `else` was seen, and the parameters, which both arms take.
    If(Option<Block>, SmallVec<[Value; 4]>),
    TryTable {
        landings: Vec<Landing>,
        /// The handlers in effect outside.
        outer: Handlers,
    },
}

/// The handlers in effect, innermost first, without those that can never be reached: a second one for a tag, and any
/// after one that catches all.
#[derive(Clone, Default)]
pub(super) struct Handlers(pub(super) Vec<(Option<TagIndex>, Block)>);

/// A clause of a `try_table` whose landing block is still to be written.
pub(super) struct Landing {
    pub(super) block: Block,
    pub(super) exception: Value,
    pub(super) clause: Catch,
}

/// The state of a translation.
pub(super) struct Translator<'a> {
    pub(super) info: &'a ModuleInfo,
    pub(super) part: Part<'a>,
    pub(super) types: TypeMap<'a>,
    /// The types of locals that cannot be null and have no initial value, where all locals are asked for at loops: they
    /// are kept with types that can be null.
    pub(super) non_null: FxHashMap<u32, RefType>,
    pub(super) builder: Builder,
    pub(super) stack: Vec<Value>,
    pub(super) control: Vec<Frame>,
    pub(super) handlers: Handlers,
    /// The block that instructions are appended to, while `reachable`.
    pub(super) block: Block,
    pub(super) reachable: bool,
    /// Structured instructions open within unreachable code.
    pub(super) dead_depth: usize,
    /// Where only a part is translated, until it is reached: how it is entered.
    pub(super) entering: Option<Entering>,
    /// Offset of the current instruction in the module file.
    pub(super) offset: usize,
}

/// How the loop is entered that a part of a function begins with: through the headers of those around it.
#[derive(Clone, Copy)]
pub(super) struct Entering {
    /// The block that goes on in the next loop inwards: the entry, or one behind a header.
    pub(super) block: Block,
    /// A local that is 1 on the way in, and 0 once the loop has been reached.
    pub(super) is_on_way: u32,
}

impl Translator<'_> {
    pub(super) fn source(&self) -> u32 {
        self.offset as u32
    }

    pub(super) fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    /// Validation has seen to it that the operand is there.
    pub(super) fn pop(&mut self) -> Value {
        self.stack.pop().expect("validated operand stack")
    }

    pub(super) fn pop_many(&mut self, count: usize) -> SmallVec<[Value; 4]> {
        self.stack.drain(self.stack.len() - count..).collect()
    }

    pub(super) fn peek_many(&self, count: usize) -> SmallVec<[Value; 4]> {
        SmallVec::from_slice(&self.stack[self.stack.len() - count..])
    }

    pub(super) fn value_type(&self, value: Value) -> ValueType {
        self.builder.function.value_type(value)
    }

    /// The type of a reference on the operand stack.
    pub(super) fn ref_type(&self, value: Value) -> RefType {
        match self.value_type(value) {
            ValueType::Ref(ty) => ty,
            other => unreachable!("validated operand is a reference, not {other:?}"),
        }
    }

    pub(super) fn emit(&mut self, op: Op, args: &[Value], results: &[ValueType]) -> Inst {
        let source = self.source();
        self.builder.limits.spend(1 + results.len() as u64);
        self.builder.function.push(self.block, op, args, results, source)
    }

    /// Emits an operation with one result.
    pub(super) fn value(&mut self, op: Op, args: &[Value], result: ValueType) -> Value {
        let inst = self.emit(op, args, &[result]);
        self.builder.function.insts[inst.index()].results[0]
    }

    /// Emits an operation with one result and pushes it.
    pub(super) fn push_value(&mut self, op: Op, args: &[Value], result: ValueType) {
        let value = self.value(op, args, result);
        self.push(value);
    }

    pub(super) fn push_const(&mut self, constant: Constant) {
        self.push_value(Op::Const(constant), &[], constant.value_type());
    }

    /// Pops operands, emits, pushes the result.
    pub(super) fn apply(&mut self, operands: usize, op: Op, result: Option<ValueType>) {
        let args = self.pop_many(operands);
        match result {
            Some(ty) => self.push_value(op, &args, ty),
            None => {
                self.emit(op, &args, &[]);
            }
        }
    }

    /// The value with a narrower type that is known to hold here, besides what its own type says; the value itself if
    /// that says as much.
    pub(super) fn refine(&mut self, value: Value, ty: RefType) -> Value {
        let known = self.ref_type(value);
        if self.info.is_ref_subtype(known, ty) {
            return value;
        }
        let heap = if self.info.is_heap_subtype(known.heap, ty.heap) { known.heap } else { ty.heap };
        let ty = RefType { nullable: known.nullable && ty.nullable, heap };
        self.value(Op::Refine(ty), &[value], ValueType::Ref(ty))
    }

    /// The value with a type without null, which is known to hold here.
    pub(super) fn refine_non_null(&mut self, value: Value) -> Value {
        let heap = self.ref_type(value).heap;
        self.refine(value, RefType::non_null(heap))
    }

    /// The type without the promise that it is not null.
    pub(super) fn nullable(ty: ValueType) -> ValueType {
        match ty {
            ValueType::Ref(ty) => ValueType::Ref(RefType::nullable(ty.heap)),
            ty => ty,
        }
    }

    /// Ends the current block.
    pub(super) fn terminate(&mut self, terminator: Terminator) {
        let source = self.source();
        self.builder.terminate(self.block, terminator, source);
        self.reachable = false;
    }

    /// Goes on in a block.
    pub(super) fn switch_to(&mut self, block: Block) {
        self.block = block;
        self.reachable = true;
    }

    /// A new block that only the next terminator will lead to. Seal it after that.
    pub(super) fn new_block(&mut self) -> Block {
        self.builder.limits.spend(1);
        self.builder.add_block()
    }

    /// Goes on in a block all of whose predecessors are known.
    pub(super) fn continue_in(&mut self, block: Block) {
        self.builder.seal(block);
        self.switch_to(block);
    }

    pub(super) fn edge(block: Block, args: &[Value]) -> Edge {
        Edge { block, args: SmallVec::from_slice(args) }
    }

    pub(super) fn heap(&self, ty: wasmparser::HeapType) -> Result<HeapType, CompileError> {
        self.types.heap(ty, self.offset)
    }
}
