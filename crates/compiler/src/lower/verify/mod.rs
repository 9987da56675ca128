//! The checker of generated code: no reference is used behind a safepoint at which it may have changed, and the
//! collector finds every reference that is used behind one.
//!
//! It walks the finished Cranelift IR of a function and knows nothing of how the roots were planned: [`notes`] tells it
//! which values are references, everything else it finds out by itself. From there:
//!
//! * what is computed from a reference (the address of an object or an element) is as good as the reference;
//! * where references change, no path leads from the definition of such a value over a safepoint to a use;
//! * where objects move and references do not change, the same holds of what a reference has led to;
//! * where references do not change, every safepoint on such a path has the reference in its stack map;
//! * a slot in a stack map has been stored to on every path, with the value that it is for, and so has a slot that is
//!   loaded from;
//! * there, too, no load of a reference is `readonly` or `can_move`: Cranelift would move it over a safepoint;
//! * whatever stores where there may be references goes through [`barrier`](super::barrier), and, where objects may
//!   have two copies, whatever stores into an object; a store into one that is not new is made in the other copy, too,
//!   where the mutator's context says that there are such.
//!
//! On wherever compilations are verified: in all tests and in fuzzing.

mod code;
mod notes;
mod references;
mod slots;
mod stores;

use cranelift_codegen::ir;

pub(super) use notes::{Mirrored, Notes, SlotAccess};

use self::code::Code;
use super::env::ModuleEnv;

/// Checks the code of a function. The error says what is wrong, and where.
pub(super) fn verify(env: &ModuleEnv, function: &ir::Function, notes: &Notes) -> Result<(), String> {
    let code = Code::new(env, function, notes);
    references::check(&code)?;
    slots::check(&code)?;
    stores::check(env, &code)
}
