//! Programs that can be run in memory groups under any rule, and what they take by themselves.

use super::Options;
use super::group::{Groups, Limit};
use super::runs::{End, Outcome, Retries};
use crate::contestants::{Contestant, Prepared};
use crate::programs::{Built, Program};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A rule for the heap's size, with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    /// Name for tables.
    pub(super) name: &'static str,
    /// Options of the heap.
    heap: &'static str,
}

/// The classical rule: what the others are compared with.
pub(super) const BASE: Rule = Rule { name: "gc-ratio", heap: "sizing=gc-ratio" };
/// All rules, the paper's baseline first.
pub(super) const RULES: [Rule; 5] = [BASE, FIXED, BALANCED, PAPER, BOTH];
/// The limit is the maximum.
pub(super) const FIXED: Rule = Rule { name: "fixed", heap: "sizing=fixed" };
const BALANCED: Rule = Rule { name: "balanced", heap: "sizing=balanced" };
/// The paper's rule to the letter.
pub(super) const PAPER: Rule = Rule { name: "isla-vista", heap: "sizing=isla-vista" };
/// With both extensions.
pub(super) const BOTH: Rule =
    Rule { name: "iv-recover, iv-memory", heap: "sizing=isla-vista,iv-recover=on,iv-memory=on" };

/// Programs that live on allocation, each at a size at which it takes 100 to 400 MB and some seconds.
pub(super) const PROGRAMS: [Program; 4] = [
    Program { language: "kotlin", name: "lru", arguments: &["100", "1000000"] },
    Program { language: "kotlin", name: "trees", arguments: &["18"] },
    Program { language: "java", name: "graph", arguments: &["300"] },
    Program { language: "moonbit", name: "trees", arguments: &["20"] },
];

/// Below this there is more of the process than of the heap, in bytes.
const LEAST: u64 = 64 << 20;

/// What all experiments need.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) groups: &'a Groups,
    pub(super) retries: Retries,
    folder: &'a Path,
}

/// A program that can be run.
pub(super) struct Subject {
    pub(super) title: String,
    prepared: Prepared,
    /// The command line, its name first.
    pub(super) arguments: Vec<String>,
    /// The most memory that it takes by itself under the baseline, process and all, in bytes.
    pub(super) own: u64,
    /// The most that its heap finds live, in bytes.
    pub(super) live: u64,
}

impl<'a> Bench<'a> {
    /// `folder` is for files.
    pub(super) fn new(options: &'a Options, groups: &'a Groups, folder: &'a Path) -> Bench<'a> {
        Bench { options, groups, retries: Retries::default(), folder }
    }

    /// A heap under a rule, with a maximum in bytes if there is to be one.
    fn contestant(&self, rule: Rule, maximum: Option<u64>) -> anyhow::Result<Contestant> {
        let maximum = maximum.map(|bytes| format!("max={}K", bytes >> 10));
        let own = rule.heap.split(',').map(String::from).chain(maximum);
        Contestant::legato(&own.chain(self.options.heap.iter().cloned()).collect::<Vec<_>>())
    }

    /// Compiles a program, checks that it does what it should, and finds out what it takes by itself.
    ///
    /// # Errors
    /// If it does not compile, fails, or prints something else.
    pub(super) fn subject(&self, program: &Program) -> anyhow::Result<Subject> {
        let built = program.read(&self.options.examples, false)?;
        let arguments = if self.options.smallest { &[] } else { program.arguments };
        let arguments = program.command_line(arguments.iter().copied());
        self.subject_of(&program.title(), &built, program.name, arguments)
    }

    /// The same of any program: its module, its name on the command line, and a command line.
    ///
    /// # Errors
    /// As [`subject`](Self::subject).
    pub(super) fn subject_of(
        &self,
        title: &str,
        built: &Built,
        name: &str,
        arguments: Vec<String>,
    ) -> anyhow::Result<Subject> {
        let folder = self.files(title)?;
        let contestant = self.contestant(BASE, None)?;
        let prepared = contestant.prepare(&built.wasm, &folder)?;
        contestant.check(&prepared, built, &[name.to_string()])?;
        let mut subject = Subject { title: title.to_string(), prepared, arguments, own: 0, live: 0 };
        let outcome = self.run(&subject, BASE, None, Limit::None)?;
        outcome.seconds()?;
        let End::Finished(sample) = &outcome.end else { anyhow::bail!("takes too long: see --patience") };
        subject.own = outcome.peak.max(sample.peak_resident.unwrap_or(0));
        let full = sample.pauses.iter().filter(|pause| pause.kind != "nursery");
        subject.live = full.filter_map(|pause| pause.live).max().unwrap_or(0);
        Ok(subject)
    }

    /// Why a program cannot be squeezed, if so.
    pub(super) fn refusal(&self, subject: &Subject) -> Option<String> {
        let Subject { title, own, .. } = subject;
        let is_small = *own < LEAST && !self.options.smallest;
        is_small.then(|| format!("{title} is left out: it takes {} MB, process and all", own / 1_000_000))
    }

    /// The memory of a group in which a program is short of it: a share of what it takes where it is let.
    pub(super) fn squeezed(&self, subject: &Subject) -> Limit {
        Limit::Memory(self.left(subject))
    }

    /// That memory, in bytes.
    pub(super) fn left(&self, subject: &Subject) -> u64 {
        let takes = self.maximum(subject, self.options.maximum);
        (takes as f64 * self.options.share) as u64
    }

    /// So many times what a program takes by itself, in bytes, for a maximum.
    pub(super) fn maximum(&self, subject: &Subject, times: f64) -> u64 {
        // A heap of less cannot be made.
        ((subject.own as f64 * times) as u64).max(16 << 20)
    }

    /// Runs a program under a rule in a group of its own.
    ///
    /// # Errors
    /// If it cannot be started. That it fails is an outcome.
    pub(super) fn run(
        &self,
        subject: &Subject,
        rule: Rule,
        maximum: Option<u64>,
        limit: Limit,
    ) -> anyhow::Result<Outcome> {
        self.observe(&self.command(subject, rule, maximum)?, limit)
    }

    /// Runs a worker, of whichever engine, in a group of its own: twice if the kernel kills it although there is swap.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) fn observe(&self, command: &Command, limit: Limit) -> anyhow::Result<Outcome> {
        let once = || Outcome::of(command, &self.groups.make(limit)?, self.options.patience());
        let has_swap = matches!(limit, Limit::Memory(_));
        if has_swap { self.retries.run(|outcome| outcome.kills, once) } else { once() }
    }

    /// The process that runs a program under a rule.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn command(&self, subject: &Subject, rule: Rule, maximum: Option<u64>) -> anyhow::Result<Command> {
        self.contestant(rule, maximum)?.command(&subject.prepared, &subject.arguments, true, 1)
    }

    /// A folder for files that have to do with a program.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn files(&self, title: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(title);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(folder)
    }
}
