//! Clocks, and runs in alternation.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// Seconds by the clock on the wall.
    pub wall: f64,
    /// Seconds of user CPU over all threads.
    pub user: f64,
}

impl Time {
    /// Measures `work` in this process. The user CPU time is that of the whole process: nothing else should run in it.
    pub fn of<R>(work: impl FnOnce() -> R) -> (Time, R) {
        let user = user_time();
        let start = Instant::now();
        let result = work();
        let wall = start.elapsed();
        let time = Time { wall: wall.as_secs_f64(), user: (user_time() - user).as_secs_f64() };
        (time, result)
    }
}

/// User CPU time of this process so far.
fn user_time() -> Duration {
    // SAFETY: `rusage` is plain data for which zero bytes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a `rusage` of ours.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    assert_eq!(result, 0, "getrusage of this process cannot fail");
    duration(usage.ru_utime)
}

/// The system's monotonic clock in seconds, the same in all processes.
pub fn monotonic() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a `timespec` of ours.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    assert_eq!(result, 0, "every system has this clock");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}

/// What a process took that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// How long, from its start to its end.
    pub time: Time,
    /// Its peak resident memory in bytes, or this process's, if that is more: so Linux tells it.
    pub peak: u64,
}

/// Runs a command to its end with its output thrown away.
///
/// # Errors
/// If it cannot be started, or does not exit with code 0.
pub fn process(command: &mut std::process::Command) -> anyhow::Result<Time> {
    Ok(ended(command, std::process::Stdio::null())?.time)
}

/// Runs a command to its end with its output sent there.
///
/// # Errors
/// If it cannot be started, or does not exit with code 0.
pub fn ended(command: &mut std::process::Command, output: std::process::Stdio) -> anyhow::Result<Ended> {
    let describe = format!("{command:?}");
    command.stdin(std::process::Stdio::null()).stdout(output);
    let start = Instant::now();
    #[allow(clippy::zombie_processes, reason = "wait4 reaps it: only that tells the child's own CPU time")]
    let child = command.spawn().with_context(|| format!("cannot start {describe}"))?;
    let mut status = 0;
    // SAFETY: zero is a value of this C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointers are to variables of ours; the child is ours and not yet waited for.
    let waited = unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage) };
    let wall = start.elapsed();
    anyhow::ensure!(waited as u32 == child.id(), "cannot wait for {describe}");
    anyhow::ensure!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{describe} failed (status {status})");
    let time = Time { wall: wall.as_secs_f64(), user: duration(usage.ru_utime).as_secs_f64() };
    Ok(Ended { time, peak: usage.ru_maxrss as u64 * 1024 })
}

/// A command in the folder of this one.
///
/// # Errors
/// If there is none.
pub fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.parent().unwrap_or(Path::new("")).join(name);
    anyhow::ensure!(path.exists(), "there is no {}", path.display());
    Ok(path)
}

/// The order in which so many contestants run in a round (from 0), so that nobody has an advantage by its place: every
/// two rounds begin with another contestant, and the second of them goes backwards.
pub fn turn(round: usize, contestants: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contestants).collect();
    order.rotate_left(round / 2 % contestants.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Runs of two contestants in pairs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Pairs {
    /// Runs of the first.
    pub a: Vec<Time>,
    /// Runs of the second.
    pub b: Vec<Time>,
}

impl Pairs {
    /// Runs `a` and `b` in alternation, `pairs` times each, after one run of each that does not count. Every second
    /// pair runs in the other order, so that whoever goes first has no advantage.
    ///
    /// # Errors
    /// The first error of `a` or `b`.
    pub fn run(
        pairs: usize,
        mut a: impl FnMut() -> anyhow::Result<Time>,
        mut b: impl FnMut() -> anyhow::Result<Time>,
    ) -> anyhow::Result<Pairs> {
        a()?;
        b()?;
        let mut result = Pairs::default();
        for pair in 0..pairs {
            if pair % 2 == 0 {
                result.a.push(a()?);
                result.b.push(b()?);
            } else {
                result.b.push(b()?);
                result.a.push(a()?);
            }
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_time_advances_with_work() {
        let (time, sum) = Time::of(|| (0..30_000_000u64).fold(0, |a, b| std::hint::black_box(a ^ b)));
        assert!(time.wall > 0.0 && time.user > 0.0, "{time:?} {sum}");
    }

    #[test]
    fn a_process_is_timed_and_its_failure_is_an_error() {
        assert!(process(&mut std::process::Command::new("true")).unwrap().wall > 0.0);
        assert!(process(&mut std::process::Command::new("false")).is_err());
        assert!(process(&mut std::process::Command::new("/nonexistent")).is_err());
    }

    #[test]
    fn turns_go_both_ways() {
        assert_eq!(
            (0..4).map(|round| turn(round, 3)).collect::<Vec<_>>(),
            [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]]
        );
        assert_eq!(turn(5, 1), [0]);
        assert!(turn(2, 0).is_empty());
    }

    #[test]
    fn pairs_alternate() {
        let order = std::cell::RefCell::new(String::new());
        let log = |c| {
            order.borrow_mut().push(c);
            Ok(Time::default())
        };
        let pairs = Pairs::run(3, || log('a'), || log('b')).unwrap();
        assert_eq!((pairs.a.len(), pairs.b.len()), (3, 3));
        assert_eq!(*order.borrow(), "ababbaab");
    }
}
