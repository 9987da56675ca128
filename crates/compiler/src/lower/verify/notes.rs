//! What lowering notes for the checker: which values of Cranelift's are references, and what goes in and out of root
//! slots.

use cranelift_codegen::ir;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::mir::Value;

/// An access to a root slot: its number, and the MIR value that it is for.
#[derive(Clone, Copy, Debug)]
pub(in crate::lower) enum SlotAccess {
    Store(u32, Value),
    Load(u32, Value),
}

/// Whether a store into an object is made in its other copy as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lower) enum Mirrored {
    /// The object is new, or what is stored into is none.
    NeedNotBe,
    /// By this one.
    By(ir::Inst),
    /// It is the one in the other copy.
    Mirrors,
    /// It heals what this one has stored, which is mirrored if it has to be.
    Heals(ir::Inst),
    /// It has to be, and is not yet.
    Not,
}

/// The notes of one function.
#[derive(Default)]
pub(in crate::lower) struct Notes {
    /// Values that hold traced references, with the MIR value they are, where they are one.
    pub(in crate::lower) references: FxHashMap<ir::Value, Option<Value>>,
    /// Where objects lie by what a reference led to: addresses, and offsets in the cage.
    pub(in crate::lower) addresses: FxHashSet<ir::Value>,
    /// Values that may be computed from references, but are none that the collector traces, nor addresses of objects.
    pub(in crate::lower) numbers: FxHashSet<ir::Value>,
    /// Addresses within objects that lie in variables over safepoints, because another variable says whether they are
    /// still good.
    pub(in crate::lower) guarded: FxHashSet<ir::Value>,
    pub(in crate::lower) slots: FxHashMap<ir::Inst, SlotAccess>,
    /// Stores with the barrier that they need.
    pub(in crate::lower) stores: FxHashMap<ir::Inst, Mirrored>,
    /// The stores that need no barrier, as the object is young, with its age.
    pub(in crate::lower) young: FxHashMap<ir::Inst, ir::Value>,
    /// What is stored for references that may lead to old copies, and those.
    pub(in crate::lower) healed: FxHashMap<ir::Value, ir::Value>,
    /// For each call with a stack map what it says: slots and the MIR values in them.
    pub(in crate::lower) maps: FxHashMap<ir::Inst, Vec<(u32, Value)>>,
}
