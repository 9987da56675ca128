//! The registers of interrupted code: Linux, AArch64.

use libc::ucontext_t;

use super::Fault;
use crate::vm::exceptions::Continuation;

/// The frame pointer's number.
const FP: usize = 29;

pub(super) fn fault(context: &ucontext_t, address: Option<usize>) -> Fault {
    let registers = &context.uc_mcontext;
    Fault { pc: registers.pc as usize, sp: registers.sp as usize, fp: registers.regs[FP] as usize, address }
}

pub(super) fn set(context: &mut ucontext_t, continuation: &Continuation) {
    let registers = &mut context.uc_mcontext;
    registers.pc = continuation.pc as u64;
    registers.sp = continuation.sp as u64;
    registers.regs[FP] = continuation.fp as u64;
    registers.regs[0] = continuation.payload as u64;
}
