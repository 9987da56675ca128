//! The registers of interrupted code: Linux, x86-64.

use libc::{REG_RBP, REG_RIP, REG_RSP, ucontext_t};

use super::Fault;
use crate::vm::exceptions::Continuation;

pub(super) fn fault(context: &ucontext_t, address: Option<usize>) -> Fault {
    let register = |index: i32| context.uc_mcontext.gregs[index as usize] as usize;
    Fault { pc: register(REG_RIP), sp: register(REG_RSP), fp: register(REG_RBP), address }
}

pub(super) fn set(context: &mut ucontext_t, continuation: &Continuation) {
    let mut set = |index: i32, value: usize| context.uc_mcontext.gregs[index as usize] = value as i64;
    set(REG_RIP, continuation.pc);
    set(REG_RSP, continuation.sp);
    set(REG_RBP, continuation.fp);
    set(libc::REG_RAX, continuation.payload);
}
