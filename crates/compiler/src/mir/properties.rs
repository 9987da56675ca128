//! What an operation does beside giving its results: the one table that passes and lowering ask. A new operation gets
//! its row here, and the compiler sees to it.
//!
//! What depends on the heap is left open here, and decided in one place, in lowering: whether an allocation is made
//! inline, for one, or whether an operation on a range of an array makes room for leaves.

use super::function::Value;
use super::op::{Callee, CompareOp, NullCheck, Op};
use crate::module::{GlobalIndex, ModuleInfo, TypeIndex};

/// Whether an operation traps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traps {
    /// On no operands.
    Never,
    /// Where its first operand is null, and only there.
    OnNull,
    /// On some operands, wherever and whenever it is executed.
    OnOperands,
    /// As what it reads or calls demands.
    OnState,
}

/// What memory an operation reads or writes. Objects that it makes itself do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// None.
    None,
    /// What never changes: types and lengths of objects, payloads of exceptions, records of functions.
    Constant,
    /// This field of an object of this type.
    Field(TypeIndex, u32),
    /// Elements of an array of this type.
    Elements(TypeIndex),
    /// This global.
    Global(GlobalIndex),
    /// Linear memories, tables, segments: all that neither field, element nor global is.
    Other,
    /// Anything at all: it runs code of functions or of the host.
    All,
}

/// Whether garbage may be collected before an operation is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collects {
    /// Never.
    Never,
    /// Where a collection is due, on a cold path.
    WhenDue,
    /// Where there is no memory at hand for the object that it makes.
    Allocating,
    /// Where there is no memory at hand for leaves: not in every layout of arrays.
    ReservingLeaves,
    /// In what it calls.
    Calling,
}

/// What an operation does, and what it depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Properties {
    /// Whether it traps.
    pub traps: Traps,
    /// What its results depend on, beside its operands.
    pub reads: Memory,
    /// What it changes.
    pub writes: Memory,
    /// Whether it is a safepoint.
    pub collects: Collects,
    /// Whether it calls, be it on a cold path, what needs more stack than trampolines do that keep all registers.
    pub calls: bool,
    /// Whether its result is its operand, with another static type.
    pub copies: bool,
    /// Whether it relies on a check before it, and must stay behind that.
    pub relies: bool,
    /// Whether it reads its operands behind its safepoint: it allocates, then fills what it has allocated. The operands
    /// of any other are read before, and are the business of what it calls.
    pub fills: bool,
}

/// An operation that gives its result and does nothing else.
const COMPUTES: Properties = Properties {
    traps: Traps::Never,
    reads: Memory::None,
    writes: Memory::None,
    collects: Collects::Never,
    calls: false,
    copies: false,
    relies: false,
    fills: false,
};

/// One that makes an object.
const ALLOCATES: Properties = Properties { collects: Collects::Allocating, calls: true, ..COMPUTES };

/// One on ranges of memories, tables or segments, which the runtime does.
const RUNTIME: Properties =
    Properties { traps: Traps::OnState, reads: Memory::Other, writes: Memory::Other, calls: true, ..COMPUTES };

/// One that runs code of functions or of the host.
const CALLS: Properties = Properties {
    traps: Traps::OnState,
    reads: Memory::All,
    writes: Memory::All,
    collects: Collects::Calling,
    calls: true,
    ..COMPUTES
};

/// The trap of an access through a reference.
const fn null(check: NullCheck) -> Traps {
    match check {
        NullCheck::Needed => Traps::OnNull,
        NullCheck::Elided => Traps::Never,
    }
}

const fn operands(can_trap: bool) -> Traps {
    if can_trap { Traps::OnOperands } else { Traps::Never }
}

impl Op {
    /// What the operation does.
    pub const fn properties(&self) -> Properties {
        match self {
            Op::Const(_) | Op::Compare(_) | Op::Vector(_) | Op::Select | Op::RefIsNull | Op::RefEq | Op::RefI31 => {
                COMPUTES
            }
            Op::Unary(op) => Properties { traps: operands(op.can_trap()), ..COMPUTES },
            Op::Binary(op) => Properties { traps: operands(op.can_trap()), ..COMPUTES },
            Op::I31Get(_, check) => Properties { traps: null(*check), ..COMPUTES },

            Op::Load(..) => Properties { traps: Traps::OnState, reads: Memory::Other, ..COMPUTES },
            Op::Store(..) => Properties { traps: Traps::OnState, writes: Memory::Other, ..COMPUTES },
            Op::MemorySize(_) | Op::TableSize(_) => Properties { reads: Memory::Other, ..COMPUTES },
            Op::MemoryGrow(_) | Op::TableGrow(_) | Op::DataDrop(_) | Op::ElemDrop(_) => {
                Properties { traps: Traps::Never, ..RUNTIME }
            }
            Op::MemoryCopy(..) | Op::MemoryFill(_) | Op::MemoryInit(..) | Op::TableFill(_) | Op::TableCopy(..) => {
                RUNTIME
            }
            Op::TableGet(_) => Properties { traps: Traps::OnState, reads: Memory::Other, ..COMPUTES },
            Op::TableSet(_) => Properties { traps: Traps::OnState, writes: Memory::Other, ..COMPUTES },
            // Elements of segments are computed when they are asked for.
            Op::TableInit(..) => Properties { collects: Collects::Calling, ..RUNTIME },

            Op::GlobalGet(global) => Properties { reads: Memory::Global(*global), ..COMPUTES },
            Op::GlobalSet(global) => Properties { writes: Memory::Global(*global), ..COMPUTES },

            Op::RefFunc(_) | Op::IsFunction(..) | Op::RefTest(_) => Properties { reads: Memory::Constant, ..COMPUTES },
            Op::NullCheck => Properties { traps: Traps::OnNull, copies: true, ..COMPUTES },
            Op::Refine(_) => Properties { copies: true, relies: true, ..COMPUTES },
            Op::RefCast(_) => {
                Properties { traps: Traps::OnOperands, reads: Memory::Constant, copies: true, ..COMPUTES }
            }

            Op::StructNew(_) | Op::ExceptionNew(_) | Op::ArrayNewFixed(_) => Properties { fills: true, ..ALLOCATES },
            Op::StructNewDefault(_) => ALLOCATES,
            Op::StructGet(ty, field, _, check) => {
                Properties { traps: null(*check), reads: Memory::Field(*ty, *field), ..COMPUTES }
            }
            Op::StructSet(ty, field, check) => {
                Properties { traps: null(*check), writes: Memory::Field(*ty, *field), ..COMPUTES }
            }
            Op::ExceptionGet(..) => Properties { reads: Memory::Constant, relies: true, ..COMPUTES },

            // Lengths may be too great.
            Op::ArrayNew(_) => Properties { traps: Traps::OnOperands, fills: true, ..ALLOCATES },
            Op::ArrayNewDefault(_) => Properties { traps: Traps::OnOperands, ..ALLOCATES },
            Op::ArrayNewData(..) | Op::ArrayNewElem(..) => {
                Properties { reads: Memory::Other, writes: Memory::None, ..CALLS }
            }
            Op::ArrayLen(check) => Properties { traps: null(*check), reads: Memory::Constant, ..COMPUTES },
            Op::BoundsCheck => Properties { traps: Traps::OnOperands, ..COMPUTES },
            Op::ArrayGet(ty, ..) => Properties { reads: Memory::Elements(*ty), relies: true, ..COMPUTES },
            Op::ArraySet(ty) => Properties { writes: Memory::Elements(*ty), relies: true, ..COMPUTES },
            Op::ArrayFill(ty) => Properties {
                reads: Memory::None,
                writes: Memory::Elements(*ty),
                collects: Collects::ReservingLeaves,
                ..RUNTIME
            },
            Op::ArrayCopy(to, from) => Properties {
                reads: Memory::Elements(*from),
                writes: Memory::Elements(*to),
                collects: Collects::ReservingLeaves,
                ..RUNTIME
            },
            Op::ArrayInitData(ty, _) => {
                Properties { writes: Memory::Elements(*ty), collects: Collects::ReservingLeaves, ..RUNTIME }
            }
            Op::ArrayInitElem(ty, _) => {
                Properties { writes: Memory::Elements(*ty), collects: Collects::Calling, ..RUNTIME }
            }

            Op::Call(_) => CALLS,
            // It may interrupt the program. Its trampoline needs no more stack than callers have checked.
            Op::Poll => Properties { traps: Traps::OnState, collects: Collects::WhenDue, ..COMPUTES },
            // It counts. Compiling is no safepoint.
            Op::OsrEntry(_) => Properties { reads: Memory::Other, writes: Memory::Other, ..COMPUTES },
            Op::NoteTarget(_) | Op::NoteRun(_) => Properties { writes: Memory::Other, ..COMPUTES },
        }
    }

    /// The reference that is not null behind the operation: with null, it would have trapped.
    pub fn non_null(&self, args: &[Value]) -> Option<Value> {
        match self {
            Op::Call(Callee::Reference(_, reference, NullCheck::Needed)) => Some(*reference),
            Op::RefCast(ty) if !ty.nullable => args.first().copied(),
            _ if self.properties().traps == Traps::OnNull => args.first().copied(),
            _ => None,
        }
    }

    /// The flag that says whether the operation checks its reference for null, if it has one.
    pub fn check_mut(&mut self) -> Option<&mut NullCheck> {
        match self {
            Op::I31Get(_, check) | Op::StructGet(_, _, _, check) | Op::StructSet(_, _, check) | Op::ArrayLen(check) => {
                Some(check)
            }
            _ => None,
        }
    }

    /// Whether the two operands may be exchanged.
    pub fn is_commutative(&self) -> bool {
        use CompareOp::{I32Eq, I32Ne, I64Eq, I64Ne};
        match self {
            Op::Binary(op) => op.is_commutative(),
            Op::Vector(op) => op.is_commutative(),
            Op::Compare(op) => matches!(op, I32Eq | I32Ne | I64Eq | I64Ne),
            op => *op == Op::RefEq,
        }
    }
}

impl Memory {
    /// Whether it never changes.
    fn is_constant(self, info: &ModuleInfo) -> bool {
        match self {
            Memory::None | Memory::Constant => true,
            Memory::Field(ty, field) => !info.struct_fields(ty)[field as usize].mutable,
            Memory::Elements(ty) => !info.array_element(ty).mutable,
            Memory::Global(global) => !info.globals[global.index()].mutable,
            Memory::Other | Memory::All => false,
        }
    }
}

impl Properties {
    /// Whether it may go when nothing uses its results. (That memory may be exhausted is no effect to be preserved.)
    pub fn is_removable(&self) -> bool {
        self.traps == Traps::Never && self.writes == Memory::None
    }

    /// Whether its outcome, results or trap, depends on its operands alone, however often it is executed, and wherever,
    /// but for what it [relies](Self::relies) on.
    pub fn is_pure(&self, info: &ModuleInfo) -> bool {
        self.is_repeatable() && self.reads.is_constant(info) && self.traps != Traps::OnState
    }

    /// Whether it finds the same and changes nothing when it is executed again, with nothing but such operations
    /// between.
    pub fn is_repeatable(&self) -> bool {
        self.writes == Memory::None && self.collects == Collects::Never
    }

    /// Whether it computes its result from its operands, without memory and without a trap, so that it may change
    /// places with anything.
    pub fn is_computation(&self) -> bool {
        self.is_removable() && self.reads == Memory::None && self.collects == Collects::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{BinaryOp, Constant, Extension};
    use crate::module::ElemIndex;

    const TYPE: TypeIndex = TypeIndex(0);

    /// The kinds of safepoint, one operation each.
    #[test]
    fn who_collects() {
        for (op, collects) in [
            (Op::ArraySet(TYPE), Collects::Never),
            (Op::Poll, Collects::WhenDue),
            (Op::StructNew(TYPE), Collects::Allocating),
            (Op::ArrayFill(TYPE), Collects::ReservingLeaves),
            (Op::ArrayCopy(TYPE, TYPE), Collects::ReservingLeaves),
            (Op::ArrayNewElem(TYPE, ElemIndex(0)), Collects::Calling),
        ] {
            assert_eq!(op.properties().collects, collects, "{op}");
        }
    }

    #[test]
    fn what_may_go_and_what_may_be_repeated() {
        let (divide, constant) = (Op::Binary(BinaryOp::I32DivS), Op::Const(Constant::I32(1)));
        let get = |check| Op::StructGet(TYPE, 0, Extension::None, check);
        for (op, removable, repeatable, computation) in [
            (constant, true, true, true),
            (divide, false, true, false),
            (get(NullCheck::Elided), true, true, false),
            (get(NullCheck::Needed), false, true, false),
            (Op::StructNew(TYPE), true, false, false),
            (Op::StructSet(TYPE, 0, NullCheck::Elided), false, false, false),
            (Op::Poll, false, false, false),
            (Op::OsrEntry(7), false, false, false),
            (Op::NoteTarget(7), false, false, false),
            (Op::NoteRun(7), false, false, false),
        ] {
            let properties = op.properties();
            let found = (properties.is_removable(), properties.is_repeatable(), properties.is_computation());
            assert_eq!(found, (removable, repeatable, computation), "{op}");
        }
    }

    #[test]
    fn who_shows_a_reference_not_to_be_null() {
        let args = [Value(1), Value(2)];
        assert_eq!(Op::NullCheck.non_null(&args), Some(Value(1)));
        assert_eq!(Op::ArrayLen(NullCheck::Needed).non_null(&args), Some(Value(1)));
        assert_eq!(Op::ArrayLen(NullCheck::Elided).non_null(&args), None);
        assert_eq!(Op::Call(Callee::Reference(TYPE, Value(3), NullCheck::Needed)).non_null(&args), Some(Value(3)));
        assert_eq!(Op::RefEq.non_null(&args), None);
    }
}
