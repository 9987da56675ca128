//! Programs in memory groups, as processes with a time limit.

use super::group::Group;
use crate::contestants::worker::Sample;
use anyhow::{Context, ensure};
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
        Ok(Running { child, group, start, output, errors })
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
