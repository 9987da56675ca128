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
    /// Locked by other threads for writing to the mutator context.
    requests: Mutex<Requests>,
    /// Whether there are any.
    requested: AtomicBool,
    /// What `stack_limit` is while no interruption is asked for.
    limit: AtomicUsize,
}

/// Who asks for an interruption that has not been answered yet.
#[derive(Debug)]
struct Requests {
    /// Null once the store is gone.
    mutator: *const MutatorContext,
    /// How many deadlines that have passed.
    deadlines: u32,
    /// Whether anybody else does.
    others: bool,
    /// How many times requests have been answered or cleared.
    round: u64,
}

// SAFETY: only the atomic fields of the mutator context are reached through it, and the lock keeps it alive meanwhile.
unsafe impl Send for Requests {}

/// The interruption that a deadline has asked for, to be [taken back](InterruptState::take_back).
#[derive(Clone, Copy, Debug)]
pub struct DeadlineRequest {
    round: u64,
}

impl InterruptState {
    /// The interruption of the store that owns `mutator`.
    ///
    /// # Safety
    /// `mutator` stays valid until [`detach`](Self::detach).
    pub unsafe fn new(mutator: *const MutatorContext) -> Arc<InterruptState> {
        Arc::new(InterruptState {
            requests: Mutex::new(Requests { mutator, deadlines: 0, others: false, round: 0 }),
            requested: AtomicBool::new(false),
            limit: AtomicUsize::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn with_mutator<R>(&self, act: impl FnOnce(&MutatorContext, &mut Requests) -> R) -> Option<R> {
        let mut requests = self.lock();
        // SAFETY: valid until `detach`, which takes the lock.
        let mutator = unsafe { requests.mutator.as_ref() };
        mutator.map(|mutator| act(mutator, &mut requests))
    }

    /// Ends the connection: the store is about to go. Later interruptions do nothing.
    pub fn detach(&self) {
        let mut requests = self.lock();
        requests.mutator = std::ptr::null();
        // Whoever has a handle still is not to take it for one that waits.
        self.requested.store(false, SeqCst);
    }

    /// Asks the store's compiled code to stop with [`PollOutcome::Interrupted`] at its next poll; if none is running,
    /// the next call of it by the host [answers](Self::answer). From any thread.
    pub fn interrupt(&self) {
        self.with_mutator(|mutator, requests| {
            requests.others = true;
            self.raise(mutator);
        });
    }

    /// As [`interrupt`](Self::interrupt), for a deadline that has passed. `None` once the store is gone.
    pub fn interrupt_for_deadline(&self) -> Option<DeadlineRequest> {
        self.with_mutator(|mutator, requests| {
            requests.deadlines += 1;
            self.raise(mutator);
            DeadlineRequest { round: requests.round }
        })
    }

    /// Takes back what a deadline has asked for, where that has not been answered: the code that it was for has ended
    /// before.
    pub fn take_back(&self, request: DeadlineRequest) {
        self.with_mutator(|mutator, requests| {
            if request.round == requests.round {
                requests.deadlines -= 1;
                if requests.deadlines == 0 && !requests.others {
                    self.withdraw(mutator, requests);
                }
            }
        });
    }

    /// Takes back an interruption that no poll has seen yet.
    pub fn clear(&self) {
        self.with_mutator(|mutator, requests| self.withdraw(mutator, requests));
    }

    fn raise(&self, mutator: &MutatorContext) {
        self.requested.store(true, SeqCst);
        mutator.stack_limit.store(usize::MAX, SeqCst);
        mutator.poll.fetch_or(POLL_INTERRUPT, SeqCst);
    }

    /// With the lock held, so that no `interrupt` is half-way, and no new limit.
    fn withdraw(&self, mutator: &MutatorContext, requests: &mut Requests) -> bool {
        (requests.deadlines, requests.others) = (0, false);
        requests.round += 1;
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
        let withdraw = |mutator: &MutatorContext, requests: &mut Requests| self.withdraw(mutator, requests);
        self.is_requested() && self.with_mutator(withdraw).unwrap_or(false)
    }

    /// Sets the address below which the stack of compiled code may not grow, and returns the former one; on each entry
    /// from a stack without compiled code, by the thread that enters. An interruption that waits keeps the limit
    /// raised. The same address belongs in
    /// [`StoreContext::stack_floor`](legato_compiler::abi::StoreContext::stack_floor).
    ///
    /// # Safety
    /// The store is alive and this thread uses it.
    pub unsafe fn set_stack_limit(&self, mutator: *const MutatorContext, limit: usize) -> usize {
        // SAFETY: the caller's promise.
        let word = unsafe { &(*mutator).stack_limit };
        // As a rule one call after another comes from the same frame. Nothing is written then that a `withdraw` of
        // another thread could come between; an interruption that waits, or comes, has raised the word.
        if self.limit.load(SeqCst) == limit && word.load(SeqCst) == limit {
            return limit;
        }
        // Nobody else takes an interruption back, or asks for one, meanwhile.
        let _requests = self.lock();
        let former = self.limit.swap(limit, SeqCst);
        word.store(if self.is_requested() { usize::MAX } else { limit }, SeqCst);
        former
    }

    /// The limit that [`set_stack_limit`](Self::set_stack_limit) set.
    pub fn stack_limit(&self) -> usize {
        self.limit.load(SeqCst)
    }

    /// Why compiled code polled. For the `poll` builtin, on the thread and stack of the poll.
    pub fn poll(&self) -> PollOutcome {
        let outcome = self.with_mutator(|mutator, requests| {
            if self.is_requested() && self.withdraw(mutator, requests) {
                PollOutcome::Interrupted
            } else if arch::stack_pointer() < self.stack_limit() {
                PollOutcome::StackOverflow
            } else {
                PollOutcome::Nothing
            }
        });
        outcome.unwrap_or(PollOutcome::Nothing)
    }
}

/// The limit for compiled code that starts on this thread now and may use `stack_bytes`: an address. Less is granted
/// where the thread's stack ends earlier, [`HOST_STACK_RESERVE`] included. Of another stack that the thread runs on, a
/// fiber's, nobody knows the end: its owner has to have made it large enough.
pub fn stack_limit_here(stack_bytes: usize) -> usize {
    let here = arch::stack_pointer();
    let least = stack_left().map_or(0, |left| here - left + HOST_STACK_RESERVE);
    here.saturating_sub(stack_bytes).max(least)
}

/// Bytes of the thread's stack from here to its end. `None` on another stack, or where nobody knows.
pub(crate) fn stack_left() -> Option<usize> {
    let here = arch::stack_pointer();
    signals::thread_stack().filter(|stack| stack.contains(&here)).map(|stack| here - stack.start)
}

/// Whether the stack that this thread runs on now may be the one that `address` lies on, further up.
pub(crate) fn is_same_stack(address: usize) -> bool {
    let stack = signals::thread_stack().unwrap_or_default();
    let is_threads = |address| stack.contains(&address);
    let here = arch::stack_pointer();
    here < address && is_threads(here) == is_threads(address)
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

    /// Whoever takes an interruption back writes the limit that holds, however late.
    #[test]
    fn a_new_limit_is_not_lost_to_an_interruption_that_is_taken_back() {
        let mutator = mutator();
        // SAFETY: detached below.
        let state = unsafe { InterruptState::new(&*mutator) };
        // Both spin, so that they begin at once: each counts what it has reached, two for each round.
        let reached = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let meet = |reached: &[AtomicUsize; 2], own: usize| {
            let now = reached[own].fetch_add(1, SeqCst) + 1;
            for spins in 0.. {
                match reached[1 - own].load(SeqCst) < now {
                    false => return,
                    true if spins < 1_000 => std::hint::spin_loop(),
                    true => std::thread::yield_now(),
                }
            }
        };
        let rounds = 1..10_000;
        let other = {
            let (state, reached, rounds) = (state.clone(), reached.clone(), rounds.clone());
            move || {
                for _ in rounds {
                    state.interrupt();
                    meet(&reached, 0);
                    state.clear();
                    meet(&reached, 0);
                }
            }
        };
        let other = std::thread::spawn(other);
        let mut wrong = 0;
        for limit in rounds {
            meet(&reached, 1);
            // SAFETY: the mutator is alive.
            unsafe { state.set_stack_limit(&*mutator, limit) };
            meet(&reached, 1);
            // The next interruption may have come already.
            wrong += usize::from(![limit, usize::MAX].contains(&mutator.stack_limit.load(SeqCst)));
        }
        other.join().unwrap();
        state.detach();
        assert_eq!(wrong, 0, "limits were lost");
    }

    #[test]
    fn deadlines_take_back_what_they_alone_have_asked_for() {
        let mutator = mutator();
        // SAFETY: detached below.
        let state = unsafe { InterruptState::new(&*mutator) };
        let ask = || state.interrupt_for_deadline().unwrap();
        let [first, second] = [ask(), ask()];
        state.take_back(first);
        assert!(state.is_requested(), "the other deadline has passed, too");
        state.take_back(second);
        assert_eq!((state.is_requested(), mutator.poll.load(SeqCst)), (false, 0));
        assert_eq!(state.poll(), PollOutcome::Nothing);

        let [answered, cleared] = [ask(), ask()];
        assert_eq!(state.poll(), PollOutcome::Interrupted);
        state.take_back(answered);
        let third = ask();
        state.take_back(cleared);
        assert!(state.is_requested(), "what was answered says nothing of what was asked for since");
        state.interrupt();
        state.take_back(third);
        assert!(state.is_requested(), "somebody else has asked, too");
        state.clear();
        assert!(!state.is_requested());
        state.detach();
        assert!(state.interrupt_for_deadline().is_none());
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
