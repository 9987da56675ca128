//! Threads that compile what is likely to be called next, and anew what is called often. There are as many as the
//! system has processors besides the caller's, and none on a system with one. They end when there is nothing to do.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::lazy::{Lazy, LoopKey};

/// At most so many threads.
const MOST_THREADS: usize = 3;
/// A thread that has had nothing to do for so long ends.
const PATIENCE: Duration = Duration::from_millis(200);
/// At most so many functions wait to be compiled ahead; beyond, the oldest guess gives way.
const MOST_GUESSES: usize = 1024;
/// The compiler's stack, in bytes.
const STACK: usize = 4 << 20;

/// Something to compile, by the number of a function among the defined ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// A function, before it is called.
    Prepare(u32),
    /// A function, anew.
    Improve(u32),
    /// The same, of one that may not be called again: when nothing else is to be done.
    ImproveLater(u32),
    /// What goes on in a loop.
    Loop(LoopKey),
}

type Job = (Weak<Lazy>, Task);

struct Queue {
    /// Loops that a program is in.
    loops: VecDeque<Job>,
    /// To be compiled ahead, with all optimisations: what takes a caller longest.
    slow: VecDeque<Job>,
    /// To be compiled anew.
    often: VecDeque<Job>,
    /// To be compiled ahead, quickly.
    quick: VecDeque<Job>,
    /// To be compiled anew at last.
    later: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl Queue {
    /// What is to be done first.
    fn next(&mut self) -> Option<Job> {
        let queues = [&mut self.loops, &mut self.slow, &mut self.often, &mut self.quick, &mut self.later];
        queues.into_iter().find_map(VecDeque::pop_front)
    }

    /// Where something waits that is needed often.
    fn of(&mut self, task: Task) -> &mut VecDeque<Job> {
        match task {
            Task::Loop(_) => &mut self.loops,
            Task::Prepare(_) | Task::Improve(_) => &mut self.often,
            Task::ImproveLater(_) => &mut self.later,
        }
    }

    fn is_empty(&self) -> bool {
        [&self.loops, &self.slow, &self.often, &self.quick, &self.later].into_iter().all(VecDeque::is_empty)
    }
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    loops: VecDeque::new(),
    slow: VecDeque::new(),
    often: VecDeque::new(),
    quick: VecDeque::new(),
    later: VecDeque::new(),
    threads: 0,
    idle: 0,
});
static FILLED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many threads there may be.
fn most_threads() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| std::thread::available_parallelism().map_or(0, |count| (count.get() - 1).min(MOST_THREADS)))
}

/// Whether there are such threads on this system.
pub(super) fn are_there() -> bool {
    most_threads() > 0
}

/// Has these functions compiled, should a processor be idle: those that take long to compile before others. The first
/// of each is the likeliest to be called.
pub(super) fn guess(lazy: &Weak<Lazy>, slow: &[u32], quick: &[u32]) {
    if slow.is_empty() && quick.is_empty() || most_threads() == 0 {
        return;
    }
    let mut queue = lock();
    prepare(&mut queue.slow, lazy, slow);
    prepare(&mut queue.quick, lazy, quick);
    wake(queue);
}

fn prepare(queue: &mut VecDeque<Job>, lazy: &Weak<Lazy>, functions: &[u32]) {
    // What was found last is likely to be called first.
    functions.iter().rev().for_each(|&function| queue.push_front((Weak::clone(lazy), Task::Prepare(function))));
    queue.truncate(MOST_GUESSES);
}

/// Has something compiled that is needed often; returns whether some thread will, or has. Loops come first: a program
/// is in them.
pub(super) fn add(lazy: &Weak<Lazy>, task: Task) -> bool {
    if most_threads() == 0 {
        return false;
    }
    let mut queue = lock();
    queue.of(task).push_back((Weak::clone(lazy), task));
    wake(queue) || !take_back(&mut lock(), lazy, task)
}

/// Takes back what waits to be compiled; returns whether it did wait still.
fn take_back(queue: &mut Queue, lazy: &Weak<Lazy>, task: Task) -> bool {
    let waiting = queue.of(task);
    let count = waiting.len();
    waiting.retain(|(other, own)| *own != task || !Weak::ptr_eq(other, lazy));
    waiting.len() < count
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
        if let Some((lazy, task)) = queue.next() {
            drop(queue);
            run(&lazy, |lazy| lazy.perform(task));
        } else {
            queue.idle += 1;
            let (woken, waited) = FILLED.wait_timeout(queue, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            if waited.timed_out() && queue.is_empty() {
                queue.threads -= 1;
                return;
            }
            continue;
        }
        queue = lock();
    }
}

/// A panic of the compiler's is no reason to end the thread: whoever calls a function that could not be compiled will
/// see it, and code that could not be compiled anew stays as it is.
fn run(lazy: &Weak<Lazy>, job: impl FnOnce(&Lazy)) {
    if let Some(lazy) = lazy.upgrade() {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(&lazy)));
    }
}
