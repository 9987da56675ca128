//! Threads that compile what is likely to be called next, and anew what is called often. There are as many as the
//! system has processors besides the caller's, and none on a system with one. They end when there is nothing to do.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::lazy::Lazy;

/// At most so many threads.
const MOST_THREADS: usize = 3;
/// A thread that has had nothing to do for so long ends.
const PATIENCE: Duration = Duration::from_millis(200);
/// At most so many functions wait to be compiled ahead; beyond, the oldest guess gives way.
const MOST_GUESSES: usize = 1024;
/// The compiler's stack, in bytes.
const STACK: usize = 4 << 20;

/// Something to compile: a function of a module, by its number among the defined ones.
type Job = (Weak<Lazy>, u32);

struct Queue {
    /// To be compiled ahead, with all optimisations: what takes a caller longest.
    slow: VecDeque<Job>,
    /// To be compiled anew.
    often: VecDeque<Job>,
    /// To be compiled ahead, quickly.
    quick: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { slow: VecDeque::new(), often: VecDeque::new(), quick: VecDeque::new(), threads: 0, idle: 0 });
static FILLED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many threads there may be.
fn most_threads() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| std::thread::available_parallelism().map_or(0, |count| (count.get() - 1).min(MOST_THREADS)))
}

/// Has these functions compiled, should a processor be idle: those that take long to compile before others. The first
/// of each is the likeliest to be called.
pub(super) fn guess(lazy: &Weak<Lazy>, slow: &[u32], quick: &[u32]) {
    if slow.is_empty() && quick.is_empty() || most_threads() == 0 {
        return;
    }
    let mut queue = lock();
    add(&mut queue.slow, lazy, slow);
    add(&mut queue.quick, lazy, quick);
    wake(queue);
}

fn add(queue: &mut VecDeque<Job>, lazy: &Weak<Lazy>, functions: &[u32]) {
    // What was found last is likely to be called first.
    functions.iter().rev().for_each(|&function| queue.push_front((Weak::clone(lazy), function)));
    queue.truncate(MOST_GUESSES);
}

/// Has a function compiled anew that is called often; returns whether some thread will.
pub(super) fn improve(lazy: &Weak<Lazy>, function: u32) -> bool {
    if most_threads() == 0 {
        return false;
    }
    let mut queue = lock();
    queue.often.push_back((Weak::clone(lazy), function));
    wake(queue)
}

/// Sees to it that a thread looks at the queue; returns whether one will.
fn wake(mut queue: MutexGuard<'_, Queue>) -> bool {
    if queue.idle > 0 {
        drop(queue);
        FILLED.notify_one();
        return true;
    }
    if queue.threads < most_threads() {
        queue.threads += 1;
        drop(queue);
        let thread = std::thread::Builder::new().name("compiler".into()).stack_size(STACK);
        if thread.spawn(work).is_err() {
            let mut queue = lock();
            queue.threads -= 1;
            return queue.threads > 0;
        }
    }
    true
}

/// What each thread does.
fn work() {
    let mut queue = lock();
    loop {
        if let Some((lazy, function)) = queue.slow.pop_front() {
            drop(queue);
            run(&lazy, |lazy| lazy.prepare(function as usize));
        } else if let Some((lazy, function)) = queue.often.pop_front() {
            drop(queue);
            run(&lazy, |lazy| lazy.improve(function as usize));
        } else if let Some((lazy, function)) = queue.quick.pop_front() {
            drop(queue);
            run(&lazy, |lazy| lazy.prepare(function as usize));
        } else {
            queue.idle += 1;
            let (woken, waited) = FILLED.wait_timeout(queue, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            let is_empty = queue.slow.is_empty() && queue.often.is_empty() && queue.quick.is_empty();
            if waited.timed_out() && is_empty {
                queue.threads -= 1;
                return;
            }
            continue;
        }
        queue = lock();
    }
}

/// A panic of the compiler's is no reason to end the thread: whoever calls the function will see it.
fn run(lazy: &Weak<Lazy>, job: impl FnOnce(&Lazy)) {
    if let Some(lazy) = lazy.upgrade() {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(&lazy)));
    }
}
