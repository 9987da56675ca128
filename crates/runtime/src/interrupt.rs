//! Stopping compiled code from outside: on request, or at a deadline.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::vm::{DeadlineRequest, InterruptState};

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
    /// running, the host's next call of it stops before it begins.
    pub fn interrupt(&self) {
        self.state.interrupt();
    }

    /// Takes back an interruption that has not been noticed yet.
    pub fn clear(&self) {
        self.state.clear();
    }

    /// Whether an interruption has been asked for, and not been noticed yet.
    pub fn is_requested(&self) -> bool {
        self.state.is_requested()
    }

    /// Answers an interruption that waits, for a host function that ends by it, with
    /// [`Trap::Interrupt`](crate::Trap::Interrupt): the request is gone then. Returns whether there was one.
    pub fn answer(&self) -> bool {
        self.state.answer()
    }

    /// Interrupts after `duration`, unless the result is dropped before; dropped later, it takes an interruption back
    /// that nothing has been stopped by. Each deadline that waits has a thread of its own; where the system makes none,
    /// the interruption comes at once.
    pub fn interrupt_after(&self, duration: Duration) -> Deadline {
        let (cancel, cancelled) = mpsc::channel::<()>();
        let request = Arc::new(Mutex::new(Request::Waiting));
        let pass = {
            let (state, request) = (self.state.clone(), request.clone());
            move || {
                let mut request = lock(&request);
                if let Request::Waiting = *request {
                    *request = state.interrupt_for_deadline().map_or(Request::Cancelled, Request::Made);
                }
            }
        };
        let wait = {
            let pass = pass.clone();
            move || {
                if let Err(RecvTimeoutError::Timeout) = cancelled.recv_timeout(duration) {
                    pass();
                }
            }
        };
        // Without a thread there is no deadline; so the code stops at once rather than never.
        if std::thread::Builder::new().name("legato-deadline".into()).spawn(wait).is_err() {
            pass();
        }
        Deadline { _cancel: cancel, state: self.state.clone(), request }
    }
}

/// A deadline that waits. Dropping it cancels it; where it has passed behind what it was for, so that nothing has been
/// stopped, that does not stop what runs next.
#[derive(Debug)]
pub struct Deadline {
    /// Its end wakes the thread that waits.
    _cancel: Sender<()>,
    state: Arc<InterruptState>,
    request: Arc<Mutex<Request>>,
}

/// What has become of a deadline.
#[derive(Debug)]
enum Request {
    Waiting,
    Made(DeadlineRequest),
    Cancelled,
}

fn lock(request: &Mutex<Request>) -> MutexGuard<'_, Request> {
    request.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for Deadline {
    fn drop(&mut self) {
        if let Request::Made(request) = std::mem::replace(&mut *lock(&self.request), Request::Cancelled) {
            self.state.take_back(request);
        }
    }
}
