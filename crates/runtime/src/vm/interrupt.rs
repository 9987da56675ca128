//! Interrupting compiled code from another thread, and telling why it polled.
//!
//! Function entries compare the stack pointer with [`MutatorContext::stack_limit`] and loops look at
//! [`MutatorContext::poll`]. An interruption raises both, so that whichever comes first calls the `poll` builtin. That
//! asks [`InterruptState::poll`] what happened.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use legato_heap::MutatorContext;

use crate::vm::{arch, signals};

/// Bit of [`MutatorContext::poll`]: an interruption was asked for. The lowest and the highest bit are the heap's.
pub const POLL_INTERRUPT: u32 = 2;

/// Bytes of stack below the limit of compiled code that stay free for builtins, host functions and the collector.
pub const HOST_STACK_RESERVE: usize = 256 << 10;

/// What a poll found, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PollOutcome {
    /// Another thread asked for an interruption. The request is answered by this and gone.
    Interrupted,
    /// The stack has passed its limit.
    StackOverflow,
    /// Neither. The heap may have something to do.
    Nothing,
}

/// One store's interruption, shared with the handles that other threads hold. It may outlive the store.
#[derive(Debug)]
pub struct InterruptState {
    /// The mutator context, while the store lives. Locked by other threads for writing to it.
    mutator: Mutex<MutatorAddress>,
    requested: AtomicBool,
    /// What `stack_limit` is while no interruption is asked for.
    limit: AtomicUsize,
}

/// Null once the store is gone.
#[derive(Debug)]
struct MutatorAddress(*const MutatorContext);

// SAFETY: only the atomic fields of the mutator context are reached through it, and the lock keeps it alive meanwhile.
unsafe impl Send for MutatorAddress {}

impl InterruptState {
    /// The interruption of the store that owns `mutator`.
    ///
    /// # Safety
    /// `mutator` stays valid until [`detach`](Self::detach).
    pub unsafe fn new(mutator: *const MutatorContext) -> Arc<InterruptState> {
        Arc::new(InterruptState {
            mutator: Mutex::new(MutatorAddress(mutator)),
            requested: AtomicBool::new(false),
            limit: AtomicUsize::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, MutatorAddress> {
        self.mutator.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn with_mutator(&self, act: impl FnOnce(&MutatorContext)) {
        let address = self.lock();
        // SAFETY: valid until `detach`, which takes the lock.
        if let Some(mutator) = unsafe { address.0.as_ref() } {
            act(mutator);
        }
    }

    /// Ends the connection: the store is about to go. Later interruptions do nothing.
    pub fn detach(&self) {
        self.lock().0 = std::ptr::null();
    }

    /// Asks the store's compiled code to stop with [`PollOutcome::Interrupted`] at its next poll; if none is running,
    /// the next that does. From any thread.
    pub fn interrupt(&self) {
        self.with_mutator(|mutator| {
            self.requested.store(true, SeqCst);
            mutator.stack_limit.store(usize::MAX, SeqCst);
            mutator.poll.fetch_or(POLL_INTERRUPT, SeqCst);
        });
    }

    /// Takes back an interruption that no poll has seen yet.
    pub fn clear(&self) {
        self.with_mutator(|mutator| {
            self.withdraw(mutator);
        });
    }

    /// With the lock held, so that no `interrupt` is half-way.
    fn withdraw(&self, mutator: &MutatorContext) -> bool {
        mutator.poll.fetch_and(!POLL_INTERRUPT, SeqCst);
        mutator.stack_limit.store(self.limit.load(SeqCst), SeqCst);
        self.requested.swap(false, SeqCst)
    }

    /// Whether an interruption waits for a poll.
    pub fn is_requested(&self) -> bool {
        self.requested.load(SeqCst)
    }

    /// Answers an interruption that waits, for work of the host's that takes long: the request is gone then. Says
    /// whether there was one.
    #[cold]
    pub fn answer(&self) -> bool {
        let mut answered = false;
        if self.is_requested() {
            self.with_mutator(|mutator| answered = self.withdraw(mutator));
        }
        answered
    }

    /// Sets the address below which the stack of compiled code may not grow, and returns the former one; on each entry
    /// from a stack without compiled code, by the thread that enters. An interruption that waits keeps the limit
    /// raised. The same address belongs in
    /// [`StoreContext::stack_floor`](legato_compiler::abi::StoreContext::stack_floor).
    ///
    /// # Safety
    /// The store is alive and this thread uses it.
    pub unsafe fn set_stack_limit(&self, mutator: *const MutatorContext, limit: usize) -> usize {
        let former = self.limit.swap(limit, SeqCst);
        // SAFETY: the caller's promise.
        let word = unsafe { &(*mutator).stack_limit };
        word.store(limit, SeqCst);
        // An interruption that came before the store above is seen here; one that comes after raises the word itself.
        if self.is_requested() {
            word.store(usize::MAX, SeqCst);
        }
        former
    }

    /// The limit that [`set_stack_limit`](Self::set_stack_limit) set.
    pub fn stack_limit(&self) -> usize {
        self.limit.load(SeqCst)
    }

    /// Why compiled code polled. For the `poll` builtin, on the thread and stack of the poll.
    pub fn poll(&self) -> PollOutcome {
        let mut outcome = PollOutcome::Nothing;
        self.with_mutator(|mutator| {
            if self.is_requested() && self.withdraw(mutator) {
                outcome = PollOutcome::Interrupted;
            } else if arch::stack_pointer() < self.stack_limit() {
                outcome = PollOutcome::StackOverflow;
            }
        });
        outcome
    }
}

/// The limit for compiled code that starts on this thread now and may use `stack_bytes`: an address. Less is granted
/// where the thread's stack ends earlier, [`HOST_STACK_RESERVE`] included.
pub fn stack_limit_here(stack_bytes: usize) -> usize {
    let wanted = arch::stack_pointer().saturating_sub(stack_bytes);
    match signals::thread_stack() {
        Some(stack) => wanted.max(stack.start + HOST_STACK_RESERVE),
        None => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutator() -> Box<MutatorContext> {
        // SAFETY: all its fields are integers and atomics, for which zero is a value.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    #[test]
    fn an_interruption_is_answered_once() {
        let mutator = mutator();
        // SAFETY: detached below.
        let state = unsafe { InterruptState::new(&*mutator) };
        let limit = stack_limit_here(64 << 10);
        // SAFETY: the mutator is alive.
        unsafe { state.set_stack_limit(&*mutator, limit) };
        assert_eq!(state.poll(), PollOutcome::Nothing);
        let handle = state.clone();
        std::thread::spawn(move || handle.interrupt()).join().unwrap();
        assert_eq!(mutator.stack_limit.load(SeqCst), usize::MAX);
        assert_eq!(mutator.poll.load(SeqCst), POLL_INTERRUPT);
        // Entering anew does not lose it.
        // SAFETY: the mutator is alive.
        unsafe { state.set_stack_limit(&*mutator, limit) };
        assert_eq!(mutator.stack_limit.load(SeqCst), usize::MAX);
        assert_eq!(state.poll(), PollOutcome::Interrupted);
        assert_eq!(mutator.stack_limit.load(SeqCst), limit);
        assert_eq!(mutator.poll.load(SeqCst), 0);
        assert_eq!(state.poll(), PollOutcome::Nothing);
        state.detach();
        state.interrupt();
        assert!(!state.is_requested());
    }

    #[test]
    fn a_poll_finds_the_stack_beyond_its_limit() {
        let mutator = mutator();
        // SAFETY: detached below.
        let state = unsafe { InterruptState::new(&*mutator) };
        assert_eq!(state.poll(), PollOutcome::Nothing);
        // SAFETY: the mutator is alive.
        unsafe { state.set_stack_limit(&*mutator, arch::stack_pointer()) };
        assert_eq!(state.poll(), PollOutcome::StackOverflow);
        state.detach();
    }
}
