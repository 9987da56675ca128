//! From a function body to MIR, validating it on the way.
//!
//! The operand stack holds SSA values; structured control becomes blocks whose parameters are the labels' values. Code
//! that cannot be reached is validated but not translated.

mod calls;
mod control;
mod dispatch;
mod exceptions;
mod gc;
mod memory;
mod numeric;
mod ssa;
mod table;

use smallvec::SmallVec;
use wasmparser::{FuncValidatorAllocations, Operator};

use crate::CompileError;
use crate::error::invalid;
use crate::mir::{Block, Constant, Edge, Function, Inst, Op, Terminator, Value};
use crate::module::{FunctionSource, HeapType, ModuleInfo, RefType, TypeMap, ValueType, simd_name};
use crate::passes;
use control::Frame;
use exceptions::Handlers;
use ssa::Builder;

/// The validator's memory, to be used for one function after the other.
#[derive(Default)]
pub struct Allocations(FuncValidatorAllocations);

/// Bounds the work and memory that one function may cost: a body of a few megabytes can ask for any amount of edges.
pub(crate) struct Limits {
    left: u64,
}

impl Limits {
    fn new() -> Limits {
        Limits { left: 64 << 20 }
    }

    /// Counts values, edges, arguments.
    fn spend(&mut self, amount: u64) {
        self.left = self.left.saturating_sub(amount);
    }

    fn exceeded(&self) -> bool {
        self.left == 0
    }
}

/// Validates a function body and translates it. The result has no trivial block parameters and no aliases; every block
/// has a terminator.
///
/// Fails at the body's first invalid or unsupported instruction.
pub fn translate_function(
    info: &ModuleInfo,
    source: &FunctionSource<'_>,
    allocations: &mut Allocations,
) -> Result<Function, CompileError> {
    let range = source.body.range();
    let validation = wasmparser::FuncToValidate {
        resources: source.validation.resources.clone(),
        index: source.validation.index,
        ty: source.validation.ty,
        features: source.validation.features,
    };
    let mut validator = validation.into_validator(std::mem::take(&mut allocations.0));
    let mut reader = source.body.get_binary_reader();
    reader.set_features(source.validation.features);

    let ty = info.functions[source.index.index()].ty;
    let signature = info.func_type(ty);
    let function = Function::new(source.index, ty, range.start as u32);
    let mut translator = Translator {
        info,
        types: TypeMap { canonical: &info.canonical_types },
        builder: Builder::new(function, &signature.params, Limits::new()),
        stack: Vec::new(),
        control: Vec::new(),
        handlers: Handlers::default(),
        block: Block(0),
        reachable: true,
        dead_depth: 0,
        offset: range.start as usize,
    };

    for _ in 0..reader.read_var_u32().map_err(invalid)? {
        let offset = reader.original_position();
        let count = reader.read_var_u32().map_err(invalid)?;
        let ty: wasmparser::ValType = reader.read().map_err(invalid)?;
        validator.define_locals(offset, count, ty).map_err(invalid)?;
        translator.builder.add_locals(count, translator.types.value(ty, offset as usize)?);
    }
    let mut operators = wasmparser::OperatorsReader::new(reader);
    translator.begin(&signature.results);
    while !operators.eof() {
        let offset = operators.original_position();
        let operator = operators.read().map_err(invalid)?;
        validator.op(offset, &operator).map_err(invalid)?;
        translator.offset = offset as usize;
        translator.operator(&operator)?;
        if translator.builder.limits.exceeded() {
            let what = "a function with so many values and branches".to_string();
            return Err(CompileError::Unsupported { what, offset: range.start as usize });
        }
    }
    operators.finish().map_err(invalid)?;
    allocations.0 = validator.into_allocations();
    let mut function = translator.builder.finish();
    passes::unreachable_blocks(&mut function);
    passes::block_params(&mut function);
    Ok(function)
}

/// The state of a translation.
struct Translator<'a> {
    info: &'a ModuleInfo,
    types: TypeMap<'a>,
    builder: Builder,
    stack: Vec<Value>,
    control: Vec<Frame>,
    handlers: Handlers,
    /// The block that instructions are appended to, while `reachable`.
    block: Block,
    reachable: bool,
    /// Structured instructions open within unreachable code.
    dead_depth: usize,
    /// Offset of the current instruction in the module file.
    offset: usize,
}

impl Translator<'_> {
    fn source(&self) -> u32 {
        self.offset as u32
    }

    fn operator(&mut self, operator: &Operator<'_>) -> Result<(), CompileError> {
        if let Some(what) = simd_name(operator) {
            return Err(CompileError::Unsupported { what, offset: self.offset });
        }
        if self.reachable { self.dispatch(operator) } else { self.skip(operator) }
    }

    fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    /// Validation has seen to it that the operand is there.
    fn pop(&mut self) -> Value {
        self.stack.pop().expect("validated operand stack")
    }

    fn pop_many(&mut self, count: usize) -> SmallVec<[Value; 4]> {
        self.stack.drain(self.stack.len() - count..).collect()
    }

    fn peek_many(&self, count: usize) -> SmallVec<[Value; 4]> {
        SmallVec::from_slice(&self.stack[self.stack.len() - count..])
    }

    fn value_type(&self, value: Value) -> ValueType {
        self.builder.function.value_type(value)
    }

    /// The type of a reference on the operand stack.
    fn ref_type(&self, value: Value) -> RefType {
        match self.value_type(value) {
            ValueType::Ref(ty) => ty,
            other => unreachable!("validated operand is a reference, not {other:?}"),
        }
    }

    fn emit(&mut self, op: Op, args: &[Value], results: &[ValueType]) -> Inst {
        let source = self.source();
        self.builder.limits.spend(1 + results.len() as u64);
        self.builder.function.push(self.block, op, args, results, source)
    }

    /// Emits an operation with one result.
    fn value(&mut self, op: Op, args: &[Value], result: ValueType) -> Value {
        let inst = self.emit(op, args, &[result]);
        self.builder.function.insts[inst.index()].results[0]
    }

    /// Emits an operation with one result and pushes it.
    fn push_value(&mut self, op: Op, args: &[Value], result: ValueType) {
        let value = self.value(op, args, result);
        self.push(value);
    }

    fn push_const(&mut self, constant: Constant) {
        self.push_value(Op::Const(constant), &[], constant.value_type());
    }

    /// Pops operands, emits, pushes the result.
    fn apply(&mut self, operands: usize, op: Op, result: Option<ValueType>) {
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
    fn refine(&mut self, value: Value, ty: RefType) -> Value {
        let known = self.ref_type(value);
        if self.info.is_ref_subtype(known, ty) {
            return value;
        }
        let heap = if self.info.is_heap_subtype(known.heap, ty.heap) { known.heap } else { ty.heap };
        let ty = RefType { nullable: known.nullable && ty.nullable, heap };
        self.value(Op::Refine(ty), &[value], ValueType::Ref(ty))
    }

    /// The value with a type without null, which is known to hold here.
    fn refine_non_null(&mut self, value: Value) -> Value {
        let heap = self.ref_type(value).heap;
        self.refine(value, RefType::non_null(heap))
    }

    /// Ends the current block.
    fn terminate(&mut self, terminator: Terminator) {
        let source = self.source();
        self.builder.terminate(self.block, terminator, source);
        self.reachable = false;
    }

    /// Goes on in a block.
    fn switch_to(&mut self, block: Block) {
        self.block = block;
        self.reachable = true;
    }

    /// A new block that only the next terminator will lead to. Seal it after that.
    fn new_block(&mut self) -> Block {
        self.builder.limits.spend(1);
        self.builder.add_block()
    }

    /// Goes on in a block all of whose predecessors are known.
    fn continue_in(&mut self, block: Block) {
        self.builder.seal(block);
        self.switch_to(block);
    }

    fn edge(block: Block, args: &[Value]) -> Edge {
        Edge { block, args: SmallVec::from_slice(args) }
    }

    fn heap(&self, ty: wasmparser::HeapType) -> Result<HeapType, CompileError> {
        self.types.heap(ty, self.offset)
    }
}
