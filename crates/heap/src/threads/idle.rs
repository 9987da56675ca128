//! Whether a hardware context is idle, for [`Zeroing::Adaptive`](crate::Zeroing::Adaptive) and `helpers=auto`.
//!
//! The rule of Why Nothing Matters, section 6.3: zero concurrently while fewer threads are active than there are
//! hardware contexts. The paper counts the virtual machine's own application threads. A heap has one mutator and does
//! not know its host's other threads, let alone other processes, so both are asked of the operating system:
//!
//! * Within the process: its processor time over the time by the clock since the last look is how many of its threads
//!   were active (section 4.1's measure of CPU utilisation), the helper's share taken off. That must leave half a
//!   context of those that the process may use, by affinity mask and control group.
//! * On the machine: threads that can run at this moment, against processors online. Asked only where the system tells.
//!
//! Limit: other processes that are confined to the same few processors of a large machine are not seen.

use crate::os::processors;
use std::time::{Duration, Instant};

/// The answer is kept for so long: the questions take some microseconds, and a nursery may be full every millisecond.
const KEPT: Duration = Duration::from_millis(10);
/// After a helper was found without a processor, none counts as idle for so long: a virtual machine's host takes one
/// away for some milliseconds now and then, which says nothing of the next.
const LEAST_BUSY: Duration = Duration::from_millis(50);
/// Each time that a helper is without one again, not much later, it is twice as long; not longer than this.
const MOST_BUSY: Duration = Duration::from_secs(1);
/// The processors are asked for this often: that opens files.
const PROCESSORS_KEPT: Duration = Duration::from_secs(1);

/// What the answer depends on.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Processors that the process may use.
    usable: u32,
    /// How many of them it used on average since the last look, the helper not counted.
    used: f64,
    /// Threads of the whole machine that can run, and processors online.
    machine: Option<(u32, u32)>,
}

impl Load {
    fn leaves_a_context(self) -> bool {
        self.used + 0.5 <= f64::from(self.usable) && self.machine.is_none_or(|(runnable, online)| runnable < online)
    }
}

/// The last answer, and what the next one is measured against.
#[derive(Debug)]
pub(crate) struct IdleContexts {
    answer: bool,
    /// When the last time ends in which none counts as idle, and how long that is.
    busy: Option<(Instant, Duration)>,
    usable: u32,
    /// Processors online, of the whole machine.
    online: Option<u32>,
    /// When these two were asked for.
    asked: Instant,
    looked: Instant,
    process_time: Duration,
    /// What the helper has worked since the last look.
    helper: Duration,
}

impl IdleContexts {
    /// Measures from now on.
    pub(crate) fn new() -> IdleContexts {
        let now = Instant::now();
        let usable = processors::usable();
        IdleContexts {
            // Until something has been measured: the mutator is the one active thread.
            answer: usable > 1,
            busy: None,
            usable,
            online: processors::online(),
            asked: now,
            looked: now,
            process_time: processors::process_time().unwrap_or_default(),
            helper: Duration::ZERO,
        }
    }

    /// Counts time in which the helper was active.
    pub(crate) fn helper_worked(&mut self, time: Duration) {
        self.helper += time;
    }

    /// Notes that the helper has been kept waiting for a processor, whatever the system says of idle ones.
    pub(crate) fn helper_waited(&mut self) {
        self.note_busy(Instant::now());
    }

    /// A helper that had a processor for as long as none counted as idle before begins anew.
    fn note_busy(&mut self, now: Instant) {
        let again = self.busy.filter(|&(until, length)| now.saturating_duration_since(until) < length);
        let length = again.map_or(LEAST_BUSY, |(_, length)| (2 * length).min(MOST_BUSY));
        self.busy = Some((now + length, length));
    }

    /// Whether a context is idle now, or would be but for the helper, where that `is_active`.
    pub(crate) fn any(&mut self, is_active: bool) -> bool {
        let now = Instant::now();
        if self.busy.is_some_and(|(until, _)| now < until) {
            return false;
        }
        let elapsed = now.saturating_duration_since(self.looked);
        if elapsed < KEPT {
            return self.answer;
        }
        if now - self.asked >= PROCESSORS_KEPT {
            (self.usable, self.online) = (processors::usable(), processors::online());
            self.asked = now;
        }
        // Where the process's time is unknown, the mutator counts as the one active thread.
        let own = processors::process_time().map(|time| {
            let since = time.saturating_sub(self.process_time).saturating_sub(self.helper);
            self.process_time = time;
            since
        });
        let load = Load {
            usable: self.usable,
            used: own.map_or(1.0, |own| own.as_secs_f64() / elapsed.as_secs_f64()),
            machine: processors::runnable_threads()
                .map(|count| count.saturating_sub(is_active as u32))
                .zip(self.online),
        };
        self.helper = Duration::ZERO;
        self.looked = now;
        self.answer = load.leaves_a_context();
        self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_idle_while_fewer_threads_are_active_than_there_are_contexts() {
        let idle = |usable, used, machine| Load { usable, used, machine }.leaves_a_context();
        assert!(idle(2, 1.0, Some((1, 2))), "one thread on two processors");
        assert!(!idle(2, 1.9, Some((1, 2))), "two threads of our own");
        assert!(!idle(2, 1.0, Some((2, 2))), "another process on the second processor");
        assert!(!idle(1, 1.0, Some((1, 64))), "a large machine, of which one processor is ours");
        assert!(idle(4, 3.1, None), "a system that does not tell of others");
        assert!(idle(1, 0.2, None), "a mutator that mostly waits");
    }

    #[test]
    fn no_context_is_idle_where_the_helper_had_to_wait_for_one() {
        let mut contexts = IdleContexts::new();
        contexts.answer = true;
        contexts.helper_waited();
        assert!(!contexts.any(false));
        contexts.busy = Some((Instant::now(), LEAST_BUSY));
        contexts.looked = Instant::now() + KEPT;
        assert!(contexts.any(false), "that is over");
    }

    #[test]
    fn a_helper_that_waits_again_and_again_is_asked_less_often() {
        let mut contexts = IdleContexts::new();
        let mut now = Instant::now();
        let mut wait_after = |time: Duration| {
            now += time;
            contexts.note_busy(now);
            let (until, length) = contexts.busy.unwrap();
            now = until;
            length.as_millis()
        };
        let short = Duration::from_millis(10);
        assert_eq!([short; 7].map(&mut wait_after), [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(wait_after(MOST_BUSY - short), 1000, "less time with a processor than without");
        assert_eq!(wait_after(MOST_BUSY), 50);
        assert_eq!(wait_after(LEAST_BUSY), 50);
    }

    #[test]
    fn the_answer_is_kept_for_a_while() {
        let mut contexts = IdleContexts::new();
        let (first, looked) = (contexts.any(false), contexts.looked);
        if contexts.looked.elapsed() < KEPT {
            assert_eq!(contexts.any(false), first);
        }
        contexts.looked -= KEPT;
        contexts.any(false);
        assert!(contexts.looked >= looked, "it looked again");
    }
}
