//! The data structure: values, instructions, blocks, terminators.

use smallvec::SmallVec;

use super::op::{Callee, HandlerEdge, Op};
use crate::artifact::TrapCode;
use crate::module::{FuncIndex, TypeIndex, ValueType};
use crate::sources::Sources;

macro_rules! entity {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// The number as a `usize`.
            pub const fn index(self) -> usize { self.0 as usize }
        }
    )* };
}

entity! {
    /// An SSA value.
    Value;
    /// An instruction.
    Inst;
    /// A basic block.
    Block;
}

/// A function in MIR.
#[derive(Clone, Debug)]
pub struct Function {
    /// Index in the module.
    pub index: FuncIndex,
    /// Its type.
    pub ty: TypeIndex,
    /// All values.
    pub values: Vec<ValueData>,
    /// All instructions, including removed ones (those in no block).
    pub insts: Vec<InstData>,
    /// All blocks, including unreachable ones.
    pub blocks: Vec<BlockData>,
    /// Where execution starts; its parameters are the function's parameters, or locals where it goes on in a loop.
    pub entry: Block,
    /// Where it is the part of a function that goes on in a loop ([`Op::OsrEntry`]): the loop's offset in the module
    /// file.
    pub osr: Option<u32>,
    /// Wasm byte offset of the function's body in the module file.
    pub source: u32,
    /// Sources of instructions that were inlined.
    pub sources: Sources,
}

/// A value's type and origin.
#[derive(Clone, Copy, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: ValueType,
    /// Where it is defined.
    pub def: ValueDef,
}

/// Where a value is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueDef {
    /// Result of an instruction, and which one.
    Result(Inst, u32),
    /// Parameter of a block, and which one.
    Param(Block, u32),
    /// Replaced by another value: follow it.
    Alias(Value),
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct InstData {
    /// The operation, with its immediates.
    pub op: Op,
    /// Operands.
    pub args: SmallVec<[Value; 4]>,
    /// Results (several only for calls).
    pub results: SmallVec<[Value; 1]>,
    /// Offset of the Wasm instruction in the module file, or what the function's [`Sources`] explain.
    pub source: u32,
}

/// A basic block.
#[derive(Clone, Debug, Default)]
pub struct BlockData {
    /// Parameters.
    pub params: Vec<Value>,
    /// Instructions in order.
    pub insts: Vec<Inst>,
    /// The end; `None` only while the block is being built.
    pub terminator: Option<Terminator>,
    /// The terminator's, as an instruction's.
    pub terminator_source: u32,
    /// Executed rarely: laid out of line.
    pub cold: bool,
}

/// A target block and the values for its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Edge {
    /// The target.
    pub block: Block,
    /// One value for each parameter (less the leading ones that a call or handler supplies, see [`Terminator`]).
    pub args: SmallVec<[Value; 4]>,
}

impl Edge {
    /// An edge without arguments.
    pub fn to(block: Block) -> Edge {
        Edge { block, args: SmallVec::new() }
    }
}

/// The end of a block.
#[derive(Clone, PartialEq, Debug)]
pub enum Terminator {
    /// Goes on in another block.
    Jump(Edge),
    /// Two ways on an `i32` condition: first where it is not zero.
    Branch {
        /// Condition.
        cond: Value,
        /// Where it is not zero.
        then: Edge,
        /// Where it is zero.
        otherwise: Edge,
    },
    /// `br_table` on an `i32` index.
    Switch {
        /// Index into the targets.
        index: Value,
        /// Targets.
        targets: Vec<Edge>,
        /// Where the index is not below the number of targets.
        default: Edge,
    },
    /// Returns from the function.
    Return(SmallVec<[Value; 4]>),
    /// Tail call.
    TailCall {
        /// Whom.
        callee: Callee,
        /// Parameters.
        args: SmallVec<[Value; 4]>,
    },
    /// A call inside `try_table`. The call's results become the leading parameters of `normal.block`, before
    /// `normal.args`.
    TryCall {
        /// Whom.
        callee: Callee,
        /// Parameters.
        args: SmallVec<[Value; 4]>,
        /// Where it goes on.
        normal: Edge,
        /// Where exceptions go, in order of precedence. The exception becomes the leading parameter of the handler's
        /// block (type `(ref exn)`), before the edge's arguments.
        handlers: Vec<HandlerEdge>,
    },
    /// Throws an exception object; null is a trap (`throw_ref`). Handlers as in [`Terminator::TryCall`], empty outside
    /// `try_table`.
    Throw {
        /// The exception, possibly null.
        exception: Value,
        /// Where it may be caught in this function.
        handlers: Vec<HandlerEdge>,
    },
    /// Stops with a trap.
    Trap(TrapCode),
}

impl Terminator {
    /// Calls `f` with every outgoing edge.
    pub fn for_each_edge<'a>(&'a self, mut f: impl FnMut(&'a Edge)) {
        match self {
            Terminator::Jump(edge) => f(edge),
            Terminator::Branch { then, otherwise, .. } => {
                f(then);
                f(otherwise);
            }
            Terminator::Switch { targets, default, .. } => {
                targets.iter().for_each(&mut f);
                f(default);
            }
            Terminator::TryCall { normal, handlers, .. } => {
                f(normal);
                handlers.iter().for_each(|handler| f(&handler.edge));
            }
            Terminator::Throw { handlers, .. } => handlers.iter().for_each(|handler| f(&handler.edge)),
            Terminator::Return(_) | Terminator::TailCall { .. } | Terminator::Trap(_) => {}
        }
    }

    /// Calls `f` with every outgoing edge, mutably.
    pub fn for_each_edge_mut(&mut self, mut f: impl FnMut(&mut Edge)) {
        match self {
            Terminator::Jump(edge) => f(edge),
            Terminator::Branch { then, otherwise, .. } => {
                f(then);
                f(otherwise);
            }
            Terminator::Switch { targets, default, .. } => {
                targets.iter_mut().for_each(&mut f);
                f(default);
            }
            Terminator::TryCall { normal, handlers, .. } => {
                f(normal);
                handlers.iter_mut().for_each(|handler| f(&mut handler.edge));
            }
            Terminator::Throw { handlers, .. } => handlers.iter_mut().for_each(|handler| f(&mut handler.edge)),
            Terminator::Return(_) | Terminator::TailCall { .. } | Terminator::Trap(_) => {}
        }
    }

    /// Calls `f` with every value the terminator uses, edge arguments included, mutably.
    pub fn for_each_use_mut(&mut self, mut f: impl FnMut(&mut Value)) {
        match self {
            Terminator::Branch { cond, .. } => f(cond),
            Terminator::Switch { index, .. } => f(index),
            Terminator::Return(values) => values.iter_mut().for_each(&mut f),
            Terminator::TailCall { callee, args } | Terminator::TryCall { callee, args, .. } => {
                callee.for_each_use_mut(&mut f);
                args.iter_mut().for_each(&mut f);
            }
            Terminator::Throw { exception, .. } => f(exception),
            Terminator::Jump(_) | Terminator::Trap(_) => {}
        }
        self.for_each_edge_mut(|edge| edge.args.iter_mut().for_each(&mut f));
    }

    /// Calls `f` with every value the terminator uses, edge arguments included.
    pub fn for_each_use(&self, mut f: impl FnMut(Value)) {
        self.for_each_own_use(&mut f);
        self.for_each_edge(|edge| edge.args.iter().copied().for_each(&mut f));
    }

    /// Calls `f` with every value the terminator uses, but for edge arguments.
    pub fn for_each_own_use(&self, mut f: impl FnMut(Value)) {
        match self {
            Terminator::Branch { cond, .. } => f(*cond),
            Terminator::Switch { index, .. } => f(*index),
            Terminator::Return(values) => values.iter().copied().for_each(&mut f),
            Terminator::TailCall { callee, args } | Terminator::TryCall { callee, args, .. } => {
                callee.for_each_use(&mut f);
                args.iter().copied().for_each(&mut f);
            }
            Terminator::Throw { exception, .. } => f(*exception),
            Terminator::Jump(_) | Terminator::Trap(_) => {}
        }
    }
}

impl Function {
    /// An empty function with an empty entry block.
    pub fn new(index: FuncIndex, ty: TypeIndex, source: u32) -> Function {
        let mut function = Function {
            index,
            ty,
            values: Vec::new(),
            insts: Vec::new(),
            blocks: Vec::new(),
            entry: Block(0),
            osr: None,
            source,
            sources: Sources::default(),
        };
        function.entry = function.add_block();
        function
    }

    /// Appends an empty block.
    pub fn add_block(&mut self) -> Block {
        self.blocks.push(BlockData::default());
        Block(self.blocks.len() as u32 - 1)
    }

    /// Appends a parameter to a block.
    pub fn add_param(&mut self, block: Block, ty: ValueType) -> Value {
        let value = Value(self.values.len() as u32);
        let params = &mut self.blocks[block.index()].params;
        self.values.push(ValueData { ty, def: ValueDef::Param(block, params.len() as u32) });
        params.push(value);
        value
    }

    /// Creates an instruction with results of these types, in no block yet.
    pub fn add_inst(&mut self, op: Op, args: &[Value], results: &[ValueType], source: u32) -> Inst {
        let inst = Inst(self.insts.len() as u32);
        let mut values = SmallVec::new();
        for (number, &ty) in results.iter().enumerate() {
            values.push(Value(self.values.len() as u32));
            self.values.push(ValueData { ty, def: ValueDef::Result(inst, number as u32) });
        }
        self.insts.push(InstData { op, args: SmallVec::from_slice(args), results: values, source });
        inst
    }

    /// Creates an instruction and appends it to a block.
    pub fn push(&mut self, block: Block, op: Op, args: &[Value], results: &[ValueType], source: u32) -> Inst {
        let inst = self.add_inst(op, args, results, source);
        self.blocks[block.index()].insts.push(inst);
        inst
    }

    /// The value behind a chain of aliases.
    pub fn resolve(&self, mut value: Value) -> Value {
        while let ValueDef::Alias(next) = self.values[value.index()].def {
            value = next;
        }
        value
    }

    /// The type of a value.
    pub fn value_type(&self, value: Value) -> ValueType {
        self.values[value.index()].ty
    }
}

impl Function {
    /// The values that a block's terminator supplies to the first parameters of one of its targets: how many of them.
    /// `edge` counts the terminator's edges in the order of [`Terminator::for_each_edge`].
    pub fn supplied(&self, block: Block, edge: usize) -> usize {
        match &self.blocks[block.index()].terminator {
            Some(Terminator::TryCall { normal, .. }) if edge == 0 => {
                self.blocks[normal.block.index()].params.len() - normal.args.len()
            }
            Some(Terminator::TryCall { .. } | Terminator::Throw { .. }) => 1,
            _ => 0,
        }
    }

    /// Replaces all uses of aliases by what they stand for, in time linear in the function's size.
    pub fn resolve_aliases(&mut self) {
        // First the chains are shortened to one step, then uses take that step.
        for value in 0..self.values.len() {
            let root = self.resolve(Value(value as u32));
            let mut at = Value(value as u32);
            while let ValueDef::Alias(next) = self.values[at.index()].def {
                self.values[at.index()].def = ValueDef::Alias(root);
                if next == root {
                    break;
                }
                at = next;
            }
        }
        let values = &self.values;
        let resolve = |value: &mut Value| {
            if let ValueDef::Alias(root) = values[value.index()].def {
                *value = root;
            }
        };
        for block in &mut self.blocks {
            for &inst in &block.insts {
                let data = &mut self.insts[inst.index()];
                data.args.iter_mut().for_each(resolve);
                data.op.for_each_use_mut(resolve);
            }
            if let Some(terminator) = &mut block.terminator {
                terminator.for_each_use_mut(resolve);
            }
        }
    }
}
