//! Programs in memory groups, as processes with a time limit.

use super::group::Group;
use crate::contestants::worker::Sample;
use anyhow::{Context, ensure};
use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How a run ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// By itself, with a result.
    Finished(Box<Sample>),
    /// It was ended after so many seconds.
    OutOfTime(f64),
    /// It failed, or the kernel killed it.
    Failed(String),
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) end: End,
    /// Page faults for which the process waited for swap or a file.
    pub(super) major_faults: u64,
    /// The most memory that the group has had, in bytes; 0 where the kernel does not tell.
    pub(super) peak: u64,
    /// Processes of the group that the kernel has killed for want of memory.
    pub(super) kills: u64,
}

/// A process in a group, under way.
pub(super) struct Running<'a> {
    child: Child,
    group: &'a Group,
    start: Instant,
    output: File,
    errors: File,
    is_over: bool,
}

impl<'a> Running<'a> {
    /// Starts a worker, of whichever engine, in a group.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(command: &Command, group: &'a Group) -> anyhow::Result<Running<'a>> {
        let place = || tempfile::tempfile().context("cannot make a temporary file");
        let (output, errors) = (place()?, place()?);
        let mut inside = group.holding(command);
        inside.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(errors.try_clone()?);
        let start = Instant::now();
        let child = inside.spawn().context("cannot start sh, which joins memory groups")?;
        Ok(Running { child, group, start, output, errors, is_over: false })
    }

    /// Waits for the process, but not longer than until so much time has passed since its start.
    ///
    /// # Errors
    /// If the system does not let us wait.
    pub(super) fn finish(mut self, patience: Duration) -> anyhow::Result<Outcome> {
        let mut out_of_time = false;
        let (mut status, mut usage) = (0, zero_usage());
        loop {
            // SAFETY: the pointers are to variables of ours; the child is ours and not yet waited for.
            let found = unsafe { libc::wait4(self.child.id() as libc::pid_t, &mut status, libc::WNOHANG, &mut usage) };
            ensure!(found >= 0, "cannot wait for a process: {}", std::io::Error::last_os_error());
            if found > 0 {
                self.is_over = true;
                break;
            }
            if !out_of_time && self.start.elapsed() > patience {
                out_of_time = true;
                self.child.kill().context("cannot end a process")?;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let waited = self.start.elapsed().as_secs_f64();
        let end = match (out_of_time, libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0) {
            (true, _) => End::OutOfTime(waited),
            (false, true) => sample(&text(&mut self.output)?),
            (false, false) => End::Failed(failure(status, &text(&mut self.errors)?)),
        };
        let major_faults = usage.ru_majflt as u64;
        Ok(Outcome { end, major_faults, peak: self.group.peak().unwrap_or(0), kills: self.group.kills() })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // Fails only if it has ended already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Kernels kill processes of a group although there is swap, where it is too slow: such runs are repeated once.
#[derive(Debug, Default)]
pub(super) struct Retries {
    repeated: Cell<u32>,
    in_vain: Cell<u32>,
}

impl Retries {
    /// Runs something in a group with swap, and again if `kills` says that the kernel has killed somebody there.
    ///
    /// # Errors
    /// Those of `run`.
    pub(super) fn run<T>(
        &self,
        kills: impl Fn(&T) -> u64,
        mut run: impl FnMut() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let first = run()?;
        if kills(&first) == 0 {
            return Ok(first);
        }
        eprintln!("pressure: the kernel has killed a process although there is swap; once more ...");
        self.repeated.set(self.repeated.get() + 1);
        let second = run()?;
        self.in_vain.set(self.in_vain.get() + u32::from(kills(&second) > 0));
        Ok(second)
    }

    /// What is to be told of them, if there were some.
    pub(super) fn note(&self) -> Option<String> {
        let (repeated, in_vain) = (self.repeated.get(), self.in_vain.get());
        let what = "runs were repeated, in which the kernel had killed a process although there is swap";
        (repeated > 0).then(|| format!("{repeated} {what}; in {in_vain} of them it did again"))
    }
}

fn zero_usage() -> libc::rusage {
    // SAFETY: `rusage` is plain data for which zero bytes are valid.
    unsafe { std::mem::zeroed() }
}

fn text(file: &mut File) -> anyhow::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn sample(text: &str) -> End {
    match serde_json::from_str::<Sample>(text) {
        Ok(sample) if !sample.runs.is_empty() => End::Finished(Box::new(sample)),
        _ => End::Failed("the process printed no result".into()),
    }
}

fn failure(status: i32, said: &str) -> String {
    let how = match libc::WIFSIGNALED(status) {
        true => format!("signal {}", libc::WTERMSIG(status)),
        false => format!("status {}", libc::WEXITSTATUS(status)),
    };
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).take(3).collect();
    if lines.is_empty() { how } else { format!("{how}: {}", lines.join("; ")) }
}

impl Outcome {
    /// Runs a worker in a group to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn of(command: &Command, group: &Group, patience: Duration) -> anyhow::Result<Outcome> {
        Running::start(command, group)?.finish(patience)
    }

    /// The time of the program in seconds: the least that it would have taken, of one that was ended.
    ///
    /// # Errors
    /// If it failed.
    pub(super) fn seconds(&self) -> anyhow::Result<f64> {
        match &self.end {
            End::Finished(sample) => Ok(sample.runs[0].run.wall),
            End::OutOfTime(seconds) => Ok(*seconds),
            End::Failed(why) if self.kills > 0 => anyhow::bail!("killed for want of memory: {why}"),
            End::Failed(why) => anyhow::bail!("{why}"),
        }
    }

    /// Whether it was ended before its end.
    pub(super) fn is_late(&self) -> bool {
        matches!(self.end, End::OutOfTime(_))
    }

    /// What the process said of itself, if it came to its end.
    pub(super) fn sample(&self) -> Option<&Sample> {
        match &self.end {
            End::Finished(sample) => Some(sample),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::group::Limit;
    use super::super::group::tests::fake;
    use super::*;

    fn run(script: &str, patience: Duration) -> Outcome {
        let (_folder, groups) = fake(true);
        let group = groups.make(Limit::None).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Outcome::of(&command, &group, patience).unwrap()
    }

    #[test]
    fn runs_with_kills_are_repeated_once_and_told() {
        let retries = Retries::default();
        let run = |kills: &[u64]| {
            let mut all = kills.iter().copied();
            retries.run(|kills| *kills, || all.next().context("a run too many")).unwrap()
        };
        assert_eq!((run(&[0]), retries.note()), (0, None));
        assert_eq!(run(&[1, 0]), 0);
        assert_eq!(run(&[1, 2]), 2);
        let note = retries.note().unwrap();
        assert!(note.starts_with("2 runs") && note.contains("in 1 of them"), "{note}");
    }

    #[test]
    fn a_run_that_nobody_waits_for_is_ended() {
        let (_folder, groups) = fake(true);
        let group = groups.make(Limit::None).unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000");
        let running = Running::start(&command, &group).unwrap();
        let process = running.child.id() as libc::pid_t;
        drop(running);
        // SAFETY: no signal is sent: this asks whether there is such a process.
        assert_eq!(unsafe { libc::kill(process, 0) }, -1);
    }

    #[test]
    fn runs_end_by_themselves_or_by_the_clock_or_not_well() {
        let long = Duration::from_secs(60);
        let time = r#"{"wall":0.0,"user":0.0}"#;
        let document = format!(
            r#"{{"runs":[{{"instantiation":{time},"run":{{"wall":1.5,"user":1.0}}}}],"output":"x","pauses":[]}}"#
        );
        let outcome = run(&format!("echo '{document}'"), long);
        assert!(outcome.seconds().is_ok_and(|seconds| seconds == 1.5), "{outcome:?}");
        let outcome = run("exec sleep 100", Duration::from_millis(50));
        assert!(outcome.seconds().is_ok_and(|seconds| (0.05..60.0).contains(&seconds)), "{outcome:?}");
        assert!(outcome.sample().is_none());
        for (script, why) in [
            ("echo no room >&2; exit 3", "status 3: no room"),
            ("echo x", "printed no result"),
            ("kill -9 $$", "signal 9"),
        ] {
            let error = run(script, long).seconds().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
