//! Stopping compiled code from outside: on request, or at a deadline.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::vm::InterruptState;

/// Interrupts the compiled code of one store, from any thread. It may outlive the store.
///
/// ```
/// use legato::{Engine, Instance, Module, Store, Trap};
///
/// let engine = Engine::default();
/// let module = Module::new(&engine, r#"(module (func (export "spin") (loop $again (br $again))))"#)?;
/// let mut store = Store::new(&engine, ());
/// let instance = Instance::new(&mut store, &module, &[])?;
/// let spin = instance.get_typed_func::<(), ()>(&mut store, "spin")?;
/// let handle = store.interrupt_handle();
/// let thread = std::thread::spawn(move || handle.interrupt());
/// let error = spin.call(&mut store, ()).unwrap_err();
/// assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::Interrupt));
/// # thread.join().unwrap();
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct InterruptHandle {
    state: Arc<InterruptState>,
}

impl InterruptHandle {
    pub(crate) fn new(state: Arc<InterruptState>) -> InterruptHandle {
        InterruptHandle { state }
    }

    /// Lets the store's compiled code stop with [`Trap::Interrupt`](crate::Trap::Interrupt) at its next loop or
    /// function entry, or within a bulk instruction on a large range, a part of which is written then. If none is
    /// running, the next call stops so.
    pub fn interrupt(&self) {
        self.state.interrupt();
    }

    /// Takes back an interruption that has not been noticed yet.
    pub fn clear(&self) {
        self.state.clear();
    }

    /// Interrupts after `duration`, unless the result is dropped before.
    pub fn interrupt_after(&self, duration: Duration) -> Deadline {
        let (cancel, cancelled) = mpsc::channel::<()>();
        let handle = self.clone();
        let wait = move || {
            if let Err(RecvTimeoutError::Timeout) = cancelled.recv_timeout(duration) {
                handle.interrupt();
            }
        };
        // Without a thread there is no deadline; so the code stops at once rather than never.
        if std::thread::Builder::new().name("legato-deadline".into()).spawn(wait).is_err() {
            self.interrupt();
        }
        Deadline { _cancel: cancel }
    }
}

/// A deadline that waits. Dropping it cancels it, where it has not passed yet.
#[derive(Debug)]
pub struct Deadline {
    /// Its end wakes the thread that waits.
    _cancel: Sender<()>,
}
