//! Traps of compiled code: the signal's handler goes on at the landing of the entry trampoline.

use std::cell::Cell;
use std::sync::Once;

use legato_compiler::artifact::TrapCode;

use super::{ENTRY, WORLD};

thread_local! {
    static TRAP: Cell<Option<TrapCode>> = const { Cell::new(None) };
}

/// The trap that has just been raised.
pub(super) fn take() -> TrapCode {
    TRAP.take().expect("what unwinds is a trap")
}

pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for signal in [libc::SIGILL, libc::SIGSEGV, libc::SIGFPE] {
            // SAFETY: the handler touches what belongs to the faulting thread alone.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
    });
}

unsafe extern "C" fn handler(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the interrupted context.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let pc = registers[libc::REG_RIP as usize] as usize;
    // Compiled code runs with the world at rest.
    let found = WORLD.with(|world| {
        let world = world.try_borrow().ok()?;
        let world = world.as_ref()?;
        let offset = pc.checked_sub(world.code as usize)? as u32;
        let traps = &world.module.tables.traps;
        traps.binary_search_by_key(&offset, |site| site.offset).ok().map(|found| traps[found].code)
    });
    let Some(code) = found else {
        // Not ours: the instruction is executed again and ends the process.
        // SAFETY: restores the default.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    };
    TRAP.set(Some(code));
    // SAFETY: the entry trampoline has filled its record.
    let entry = unsafe { &*ENTRY.get() };
    registers[libc::REG_RSP as usize] = entry.sp as i64;
    registers[libc::REG_RBP as usize] = entry.fp as i64;
    registers[libc::REG_RIP as usize] = entry.landing as i64;
}
