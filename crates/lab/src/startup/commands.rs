//! The commands that are compared, as processes.

use super::Options;
use super::examples::Example;
use crate::contestants::shortened;
#[cfg(feature = "peers")]
use crate::engines::Node;
use crate::measure::{self, Ended};
use anyhow::{Context, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the commands are, and where their files go.
pub(super) struct Commands {
    legato: PathBuf,
    #[cfg(feature = "peers")]
    node: Option<(Node, PathBuf)>,
    folder: PathBuf,
}

impl Commands {
    /// # Errors
    /// If one is not there.
    pub(super) fn new(options: &Options, folder: &Path) -> anyhow::Result<Commands> {
        let legato = match &options.legato {
            Some(path) => path.clone(),
            None => measure::beside("legato").context("build it with: cargo build --release -p legato-cli")?,
        };
        #[cfg(feature = "peers")]
        let node = if options.legato_only || options.warm {
            None
        } else {
            Some((Node::find(options.node.as_deref())?, Node::write_runner(folder)?))
        };
        Ok(Commands {
            legato,
            #[cfg(feature = "peers")]
            node,
            folder: folder.to_path_buf(),
        })
    }

    /// Where files may be put.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Name and version of the other engine, if that takes part.
    #[cfg(feature = "peers")]
    pub(super) fn peer(&self) -> Option<String> {
        self.node.as_ref().map(|(node, _)| node.name())
    }

    #[cfg(not(feature = "peers"))]
    pub(super) fn peer(&self) -> Option<String> {
        None
    }

    fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// Empties the cache of [`cached`](Self::cached).
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(super) fn forget(&self) -> anyhow::Result<()> {
        let cache = self.cache();
        if cache.exists() {
            std::fs::remove_dir_all(&cache).with_context(|| format!("cannot remove {}", cache.display()))?;
        }
        Ok(())
    }

    /// `legato run` as it is by default, with a cache of its own.
    ///
    /// # Errors
    /// If it fails, or prints what it should not.
    pub(super) fn cached(&self, example: &Example) -> anyhow::Result<Ended> {
        self.checked(Command::new(&self.legato).args(["run", "--cache"]).arg(self.cache()).arg(&example.file), example)
    }

    /// `legato run` with everything compiled before, and nothing kept.
    ///
    /// # Errors
    /// As [`cached`](Self::cached).
    pub(super) fn eager(&self, example: &Example) -> anyhow::Result<Ended> {
        self.checked(self.uncached("eager").arg(&example.file), example)
    }

    /// `legato run` that compiles so, and keeps nothing.
    fn uncached(&self, compilation: &str) -> Command {
        let mut command = Command::new(&self.legato);
        command.args(["run", "--cache", "off", "--compilation", compilation]);
        command
    }

    /// A program with arguments in `legato run` that compiles so, and keeps nothing. `export`: what is called in place
    /// of the program's entry.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn long(
        &self,
        compilation: &str,
        module: &Path,
        export: Option<&str>,
        arguments: &[String],
    ) -> anyhow::Result<Ended> {
        let mut command = self.uncached(compilation);
        if let Some(export) = export {
            command.arg("--invoke").arg(export);
        }
        Ok(self.ended(command.arg(module).args(arguments))?.0)
    }

    /// The program in Node.js, if that takes part.
    ///
    /// # Errors
    /// As [`cached`](Self::cached).
    #[cfg(feature = "peers")]
    pub(super) fn node(&self, example: &Example) -> anyhow::Result<Option<Ended>> {
        let Some((node, runner)) = &self.node else { return Ok(None) };
        let (ended, output) = self.ended(&mut node.command(runner, false, 1, &example.file, &[]))?;
        let sample: crate::contestants::worker::Sample =
            serde_json::from_str(&output).context("the script for Node.js printed no result")?;
        agree(&node.name(), &sample.output, example)?;
        Ok(Some(ended))
    }

    #[cfg(not(feature = "peers"))]
    pub(super) fn node(&self, _: &Example) -> anyhow::Result<Option<Ended>> {
        Ok(None)
    }

    fn checked(&self, command: &mut Command, example: &Example) -> anyhow::Result<Ended> {
        let (ended, output) = self.ended(command)?;
        agree("legato", &output, example)?;
        Ok(ended)
    }

    /// Runs a command to its end, with its output.
    fn ended(&self, command: &mut Command) -> anyhow::Result<(Ended, String)> {
        let path = self.folder.join("output");
        let output = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let ended = measure::ended(command, output.into())?;
        Ok((ended, String::from_utf8_lossy(&std::fs::read(&path)?).into_owned()))
    }
}

/// A fast wrong answer is not a result.
fn agree(who: &str, output: &str, example: &Example) -> anyhow::Result<()> {
    let (found, expected) = (shortened(output), shortened(&example.expected));
    ensure!(output == example.expected, "{who} prints {found:?}, not {expected:?}");
    Ok(())
}
