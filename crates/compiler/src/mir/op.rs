//! The operations.

use super::extension::Extension;
use super::function::{Edge, Value};
use super::vector::VectorOp;
use crate::module::{
    DataIndex, ElemIndex, FuncIndex, GlobalIndex, HeapType, MemoryIndex, RefType, TableIndex, TagIndex, TypeIndex,
};

/// Whether an operation must check its reference for null.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NullCheck {
    /// The reference may be null: the operation traps (by fault, where the heap allows it).
    Needed,
    /// The reference is known not to be null.
    Elided,
}

/// A constant. Floats are given by their bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Constant {
    I32(i32),
    I64(i64),
    F32(u32),
    F64(u64),
    V128(u128),
    Null(HeapType),
}

/// An operation with one operand and one result, named as in WebAssembly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum UnaryOp {
    I32Clz,
    I32Ctz,
    I32Popcnt,
    I32Eqz,
    I32Extend8S,
    I32Extend16S,
    I64Clz,
    I64Ctz,
    I64Popcnt,
    I64Eqz,
    I64Extend8S,
    I64Extend16S,
    I64Extend32S,
    F32Abs,
    F32Neg,
    F32Ceil,
    F32Floor,
    F32Trunc,
    F32Nearest,
    F32Sqrt,
    F64Abs,
    F64Neg,
    F64Ceil,
    F64Floor,
    F64Trunc,
    F64Nearest,
    F64Sqrt,
    I32WrapI64,
    I64ExtendI32S,
    I64ExtendI32U,
    // Trap on NaN and overflow.
    I32TruncF32S,
    I32TruncF32U,
    I32TruncF64S,
    I32TruncF64U,
    I64TruncF32S,
    I64TruncF32U,
    I64TruncF64S,
    I64TruncF64U,
    I32TruncSatF32S,
    I32TruncSatF32U,
    I32TruncSatF64S,
    I32TruncSatF64U,
    I64TruncSatF32S,
    I64TruncSatF32U,
    I64TruncSatF64S,
    I64TruncSatF64U,
    F32ConvertI32S,
    F32ConvertI32U,
    F32ConvertI64S,
    F32ConvertI64U,
    F64ConvertI32S,
    F64ConvertI32U,
    F64ConvertI64S,
    F64ConvertI64U,
    F32DemoteF64,
    F64PromoteF32,
    I32ReinterpretF32,
    I64ReinterpretF64,
    F32ReinterpretI32,
    F64ReinterpretI64,
}

/// An operation with two operands of one type and a result of the same type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum BinaryOp {
    I32Add,
    I32Sub,
    I32Mul,
    // Divisions and remainders trap.
    I32DivS,
    I32DivU,
    I32RemS,
    I32RemU,
    I32And,
    I32Or,
    I32Xor,
    I32Shl,
    I32ShrS,
    I32ShrU,
    I32Rotl,
    I32Rotr,
    I64Add,
    I64Sub,
    I64Mul,
    I64DivS,
    I64DivU,
    I64RemS,
    I64RemU,
    I64And,
    I64Or,
    I64Xor,
    I64Shl,
    I64ShrS,
    I64ShrU,
    I64Rotl,
    I64Rotr,
    F32Add,
    F32Sub,
    F32Mul,
    F32Div,
    F32Min,
    F32Max,
    F32Copysign,
    F64Add,
    F64Sub,
    F64Mul,
    F64Div,
    F64Min,
    F64Max,
    F64Copysign,
}

/// A comparison: two operands of one type, an `i32` result of 0 or 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum CompareOp {
    I32Eq,
    I32Ne,
    I32LtS,
    I32LtU,
    I32GtS,
    I32GtU,
    I32LeS,
    I32LeU,
    I32GeS,
    I32GeU,
    I64Eq,
    I64Ne,
    I64LtS,
    I64LtU,
    I64GtS,
    I64GtU,
    I64LeS,
    I64LeU,
    I64GeS,
    I64GeU,
    F32Eq,
    F32Ne,
    F32Lt,
    F32Gt,
    F32Le,
    F32Ge,
    F64Eq,
    F64Ne,
    F64Lt,
    F64Gt,
    F64Le,
    F64Ge,
}

/// A load from linear memory: width, extension and result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum LoadKind {
    I32,
    I64,
    F32,
    F64,
    I32From8S,
    I32From8U,
    I32From16S,
    I32From16U,
    I64From8S,
    I64From8U,
    I64From16S,
    I64From16U,
    I64From32S,
    I64From32U,
    V128,
}

/// A store to linear memory: operand and width.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum StoreKind {
    I32,
    I64,
    F32,
    F64,
    I32To8,
    I32To16,
    I64To8,
    I64To16,
    I64To32,
    V128,
}

/// Whom a call reaches.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Callee {
    /// A function of the module (imported or defined).
    Direct(FuncIndex),
    /// `call_indirect`: the table, the expected type, the index (`i32`, or `i64` for 64-bit tables). Traps on an index
    /// out of bounds, on null and on another type.
    Indirect(TableIndex, TypeIndex, Value),
    /// `call_ref`: the type, the reference. Traps on null where the check is needed.
    Reference(TypeIndex, Value, NullCheck),
    /// The code at this address (`i64`, from [`Op::OsrEntry`]), in tail calls alone: it takes locals, and returns what
    /// the function returns.
    Osr(Value),
}

impl Callee {
    /// Calls `f` with the value that names the callee, if any.
    pub fn for_each_use(&self, mut f: impl FnMut(Value)) {
        match self {
            Callee::Direct(_) => {}
            Callee::Indirect(_, _, value) | Callee::Reference(_, value, _) | Callee::Osr(value) => f(*value),
        }
    }

    /// Calls `f` with the value that names the callee, if any, mutably.
    pub fn for_each_use_mut(&mut self, mut f: impl FnMut(&mut Value)) {
        match self {
            Callee::Direct(_) => {}
            Callee::Indirect(_, _, value) | Callee::Reference(_, value, _) | Callee::Osr(value) => f(value),
        }
    }
}

/// An exception handler of a call.
#[derive(Clone, PartialEq, Debug)]
pub struct HandlerEdge {
    /// The tag it catches; `None` catches every exception.
    pub tag: Option<TagIndex>,
    /// Where it goes; the exception is the block's leading parameter.
    pub edge: Edge,
}

/// An operation with its immediates. The comment gives operands and results.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// () -> T
    Const(Constant),
    /// (T) -> U
    Unary(UnaryOp),
    /// (T, T) -> T
    Binary(BinaryOp),
    /// (T, T) -> i32
    Compare(CompareOp),
    /// Operands and result as it says itself.
    Vector(VectorOp),
    /// (condition, if not zero: T, if zero: T) -> T
    Select,

    /// (index) -> value. The offset is in bytes; the index has the memory's address type.
    Load(MemoryIndex, LoadKind, u64),
    /// (index, value)
    Store(MemoryIndex, StoreKind, u64),
    /// () -> pages
    MemorySize(MemoryIndex),
    /// (pages) -> old size in pages or -1
    MemoryGrow(MemoryIndex),
    /// Destination and source memory. (destination, source, length)
    MemoryCopy(MemoryIndex, MemoryIndex),
    /// (destination, byte, length)
    MemoryFill(MemoryIndex),
    /// (destination, source offset: i32, length: i32)
    MemoryInit(MemoryIndex, DataIndex),
    /// ()
    DataDrop(DataIndex),

    /// (index) -> reference
    TableGet(TableIndex),
    /// (index, reference)
    TableSet(TableIndex),
    /// () -> elements
    TableSize(TableIndex),
    /// (reference, elements) -> old length or -1
    TableGrow(TableIndex),
    /// (start, reference, length)
    TableFill(TableIndex),
    /// Destination and source table. (destination, source, length)
    TableCopy(TableIndex, TableIndex),
    /// (destination, source offset: i32, length: i32)
    TableInit(TableIndex, ElemIndex),
    /// ()
    ElemDrop(ElemIndex),

    /// () -> value
    GlobalGet(GlobalIndex),
    /// (value)
    GlobalSet(GlobalIndex),

    /// () -> function reference, not null
    RefFunc(FuncIndex),
    /// (function reference) -> i32: whether it is what `RefFunc` of the function gives. With a global, the reference
    /// has been read from that, at some time, and it holds the function for good once it does, or once what has been
    /// read from it has been called.
    IsFunction(FuncIndex, Option<GlobalIndex>),
    /// (reference) -> i32
    RefIsNull,
    /// (reference, reference) -> i32
    RefEq,
    /// (reference) -> the same, not null. Traps (`NullReference`) on null.
    NullCheck,
    /// (reference) -> the same with a narrower static type that is known to hold. Costs nothing.
    Refine(RefType),
    /// (reference) -> i32: whether it belongs to the type.
    RefTest(RefType),
    /// (reference) -> the same with the type. Traps (`CastFailure`) where it does not belong to it.
    RefCast(RefType),
    /// (i32) -> i31 reference
    RefI31,
    /// (i31 reference, possibly null if the check is needed) -> i32. Never packed otherwise than signed or unsigned.
    I31Get(Extension, NullCheck),

    /// (every field) -> struct
    StructNew(TypeIndex),
    /// () -> struct of default values
    StructNewDefault(TypeIndex),
    /// Type, field. (struct) -> value
    StructGet(TypeIndex, u32, Extension, NullCheck),
    /// Type, field. (struct, value)
    StructSet(TypeIndex, u32, NullCheck),

    /// (element, length) -> array
    ArrayNew(TypeIndex),
    /// (length) -> array
    ArrayNewDefault(TypeIndex),
    /// (every element) -> array
    ArrayNewFixed(TypeIndex),
    /// (offset in the segment, length) -> array
    ArrayNewData(TypeIndex, DataIndex),
    /// (offset in the segment, length) -> array
    ArrayNewElem(TypeIndex, ElemIndex),
    /// (array) -> i32
    ArrayLen(NullCheck),
    /// (index, length): traps (`ArrayOutOfBounds`) unless index < length, unsigned.
    BoundsCheck,
    /// (array, index) -> element. Checks nothing: an `ArrayLen` and a `BoundsCheck` precede it.
    ArrayGet(TypeIndex, Extension),
    /// (array, index, element). Checks nothing.
    ArraySet(TypeIndex),
    /// (array not null, start, element, length). Checks bounds.
    ArrayFill(TypeIndex),
    /// Destination and source type. (destination not null, start, source not null, start, length). Checks bounds.
    ArrayCopy(TypeIndex, TypeIndex),
    /// (array not null, start, offset in the segment, length). Checks bounds.
    ArrayInitData(TypeIndex, DataIndex),
    /// (array not null, start, offset in the segment, length). Checks bounds.
    ArrayInitElem(TypeIndex, ElemIndex),

    /// (payload values) -> exception, not null
    ExceptionNew(TagIndex),
    /// Tag, payload field. (exception not null, known to have the tag) -> value
    ExceptionGet(TagIndex, u32),

    /// A call outside `try_table`. (parameters) -> results
    Call(Callee),
    /// A safepoint at a loop back-edge.
    Poll,
    /// On-stack replacement, at a loop's header in code that was compiled quickly: counts, and asks now and then for
    /// optimised code that goes on there. The loop is known by its offset in the module file. () -> i64, its address; 0
    /// where there is none, or not yet
    OsrEntry(u32),
    /// Notes which function a call by reference leads to, in code that was compiled quickly. The call is known by its
    /// number among the module's. (function reference)
    NoteTarget(u32),
    /// Notes that a loop or a call runs, in the same code: adds 1 to this word of the profile. ()
    NoteRun(u32),
}

impl Op {
    /// Calls `f` with the values held in the operation itself (the callee of a call).
    pub fn for_each_use(&self, f: impl FnMut(Value)) {
        if let Op::Call(callee) = self {
            callee.for_each_use(f);
        }
    }

    /// Calls `f` with the values held in the operation itself, mutably.
    pub fn for_each_use_mut(&mut self, f: impl FnMut(&mut Value)) {
        if let Op::Call(callee) = self {
            callee.for_each_use_mut(f);
        }
    }
}
