//! MIR: a typed SSA form in which the garbage-collected operations are still whole.
//!
//! A function is a graph of basic blocks with parameters. Each block holds instructions and ends in one
//! [`Terminator`]. Null, bounds and cast checks are operations (or flags of operations) of their own, so that passes
//! remove them by dominance. Nothing here knows how the heap lays out or reaches objects: that is
//! `lower`'s alone.

mod cfg;
mod dominators;
mod extension;
mod function;
mod loops;
mod op;
mod properties;
mod signature;
mod text;
mod vector;
mod verify;

pub use cfg::Cfg;
pub use dominators::Dominators;
pub use extension::Extension;
pub use loops::{Loop, Loops};
pub use properties::{Collects, Memory, Properties, Traps};
pub use verify::verify;

pub use function::{Block, BlockData, Edge, Function, Inst, InstData, Terminator, Value, ValueData, ValueDef};
pub use op::{BinaryOp, Callee, CompareOp, Constant, HandlerEdge, LoadKind, NullCheck, Op, StoreKind, UnaryOp};
pub use vector::{Lanes, VectorBinary, VectorOp, VectorShift, VectorTernary, VectorTest, VectorUnary};
