//! The command line.

mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use legato::HeapConfig;

use crate::exit::UsageError;
pub use values::{DirMapping, heap_option};
use values::{dir, duration, env, preload, size};

/// The name of standard input, where a file is read, and of standard error, where a log is written.
pub const STANDARD: &str = "-";

/// Runs WebAssembly GC programs.
#[derive(Debug, Parser)]
#[command(
    name = "legato",
    version,
    about = "Runs WebAssembly GC programs: Kotlin, Java, MoonBit and whatever else compiles to Wasm GC",
    long_about = "Runs WebAssembly GC programs: Kotlin, Java, MoonBit and whatever else compiles to Wasm GC, on a memory \
                  manager whose pauses and footprint you choose.",
    override_usage = "legato [run] [OPTIONS] FILE [ARGS]...\n       legato COMMAND",
    after_help = "`legato FILE` is `legato run FILE`. Run `legato help COMMAND` for a command's options and examples.",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Say on standard error what is done beside running the program; twice says more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The command line of this process. Ends it where that is wrong, or asks for help.
    pub fn of_process() -> Cli {
        Cli::parse_command_line(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Parses a command line. One without a command is that of `run`, if it names a file.
    fn parse_command_line(args: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Cli, clap::Error> {
        let mut args: Vec<OsString> = args.into_iter().map(Into::into).collect();
        let error = match Cli::try_parse_from(&args) {
            Err(error) if matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) => error,
            result => return result,
        };
        args.insert(1, "run".into());
        match Cli::try_parse_from(&args) {
            Ok(Cli { verbose, command: Command::Run(run) }) if run.names_a_file() => {
                Ok(Cli { verbose, command: Command::Run(run) })
            }
            // An option of `run` with something wrong.
            Err(of_run) if args.get(2).is_some_and(|first| first.as_encoded_bytes().starts_with(b"-")) => Err(of_run),
            _ => Err(error),
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program
    Run(Box<RunArgs>),
    /// Compile a module to machine code ahead of time
    Compile(CompileArgs),
    /// Show what a module imports, exports and uses
    Inspect(InspectArgs),
    /// Show or clear the cache of compiled code
    Cache(CacheCommand),
    /// Run scripts of the WebAssembly specification's tests
    Wast(WastArgs),
    /// Print a script that completes command lines in a shell
    Completions(CompletionsArgs),
    /// Write the manual's pages
    Man(ManArgs),
}

const RUN_HELP: &str = "\
Options for legato stand before FILE; whatever follows it is the program's.

Entry:
  A command's `_start`, a reactor's `_initialize`, or the `run` of a Java program compiled by TeaVM: whichever the module
  has. `--invoke NAME` calls an exported function instead; ARGS are then its arguments, and its results are printed.

Host:
  Modules get WASI preview 1 and, when they ask for it, the host of TeaVM or MoonBit. They reach the directories given with
  --dir and nothing outside them. Other modules provide what else is imported: --preload.

Exit status:
  the program's own;  1 if it cannot be loaded or linked;  2 for a wrong command line;  124 after --timeout;
  134 after a trap or an uncaught exception;  128 + N if it raised signal N, or signal N stopped it
  (SIGINT or SIGTERM: what was asked about the collector is told all the same; a second signal ends legato at once)

Examples:
  legato run hello.wasm                               a Kotlin or Java program
  legato run --dir data::/data sort.wasm /data/words  with ./data visible to it as /data
  legato run --invoke fib fib.wat 30                  one function of a module in text form
  legato run --heap max=256M,zeroing=bulk --gc-log trees.wasm
  legato run --gc-stats=text --gc-report gc.html trees.wasm
  legato run --timeout 10s --max-memory 64M untrusted.wasm
  legato compile big.wasm -o big.legato && legato run --precompiled big.legato";

/// The documentation of `--heap`.
fn heap_help() -> String {
    format!(
        "\
Tune the garbage-collected heap: KEY=VALUE,... (may be repeated)

{}
Defaults stand in brackets. Sizes are bytes, or take K, M, G, T. The environment variable LEGATO_HEAP is read first, and
has the same form. Code is compiled for one kind of references and one layout
of arrays: run a precompiled file with those it was compiled for.",
        HeapConfig::help()
    )
}

/// Options that shape the engine.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// Tune the garbage-collected heap: KEY=VALUE,... (see --help)
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',', value_parser = heap_option, long_help = heap_help())]
    pub heap: Vec<(String, String)>,

    /// Address space for each linear memory; below 6G memories are checked and moved instead: for many memories
    /// [default: 6G and a little, all that 32-bit code can address; under `ulimit -v` what there is room for]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_reservation: Option<usize>,

    /// Have the compiler check its own work: its intermediate forms, and that generated code finds every reference
    /// where the collector has moved it. Slow
    #[arg(long)]
    pub verify_code: bool,
}

/// Where compiled code is kept.
#[derive(Debug, Args)]
pub struct CacheArgs {
    /// Keep compiled code in this directory for later runs, or with `off` nowhere; by default in $XDG_CACHE_HOME/legato
    /// or ~/.cache/legato. Nobody else may be able to write to it, or it is not used
    #[arg(long, value_name = "DIR|off", env = "LEGATO_CACHE", hide_env_values = true)]
    pub cache: Option<PathBuf>,

    /// The most that the cache may hold; what was used least recently goes first [default: 512M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub cache_size: Option<usize>,
}

/// Options for watching the collector.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// Print a line for each garbage collection, to standard error or to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STANDARD)]
    pub gc_log: Option<PathBuf>,

    /// Print what the collections cost to standard error at the end, however the program ends: json is the last line
    #[arg(long, value_name = "FORMAT")]
    pub gc_stats: Option<StatsFormat>,

    /// Write a page of charts (HTML) about the collections at the end, however the program ends
    #[arg(long, value_name = "FILE")]
    pub gc_report: Option<PathBuf>,
}

/// The values of `--compilation`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CompilationTime {
    /// Each function when it is first called
    Lazy,
    /// All functions before the program starts
    Eager,
}

/// The forms of `--gc-stats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StatsFormat {
    /// One object on one line
    Json,
    /// A table to read
    Text,
}

/// `legato run`.
#[derive(Debug, Args)]
#[command(override_usage = "legato run [OPTIONS] FILE [ARGS]...", after_help = RUN_HELP)]
pub struct RunArgs {
    /// Give the program a directory, which it knows as GUEST (by default as HOST)
    #[arg(long = "dir", value_name = "HOST[::GUEST]", value_parser = dir)]
    pub dirs: Vec<DirMapping>,

    /// The same, but it cannot change anything there
    #[arg(long = "dir-ro", value_name = "HOST[::GUEST]", value_parser = dir)]
    pub read_only_dirs: Vec<DirMapping>,

    /// Set an environment variable; without =VALUE take it over from this process
    #[arg(long = "env", value_name = "KEY[=VALUE]", value_parser = env)]
    pub env: Vec<(String, Option<String>)>,

    /// Let the module of FILE provide imports from NAME; may be repeated, and each may import from those before it
    #[arg(long = "preload", value_name = "NAME=FILE", value_parser = preload)]
    pub preloads: Vec<(String, PathBuf)>,

    /// Run although functions are imported that nobody provides: a call of one traps
    #[arg(long)]
    pub stub_unknown_imports: bool,

    /// Call this exported function with ARGS, and print its results
    #[arg(long, value_name = "NAME")]
    pub invoke: Option<String>,

    /// FILE is machine code made by `legato compile`, which runs unchecked: only for files that you trust
    #[arg(long)]
    pub precompiled: bool,

    #[command(flatten)]
    pub engine: EngineArgs,

    #[command(flatten)]
    pub cache: CacheArgs,

    /// When functions are compiled: each when it is first called, or all before the program starts
    #[arg(long, value_name = "WHEN", default_value = "lazy")]
    pub compilation: CompilationTime,

    /// Write a line for each function that is compiled, to FILE or else to standard error: when (since the start),
    /// which, in which tier, how long it took, how much code it has become, and why it was compiled
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub compile_log: Option<Option<PathBuf>>,

    /// Tell `perf` the names of compiled functions, by the file /tmp/perf-PID.map
    #[arg(long)]
    pub perf_map: bool,

    /// Stop the program after this time: 500ms, 10s, 2m, 1h
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub timeout: Option<Duration>,

    /// Stack for the program's calls
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = size)]
    pub stack: usize,

    /// The most memory that linear memories and tables may have together; --stack limits the stack, --heap max=SIZE
    /// objects
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_memory: Option<usize>,

    #[command(flatten)]
    pub gc: GcArgs,

    /// The module (.wasm, .wat, or with --precompiled made by `legato compile`; - for standard input), then the
    /// program's arguments
    // One list, so that what looks like an option after FILE is the program's.
    #[arg(value_names = ["FILE", "ARGS"], required = true, num_args = 1.., trailing_var_arg = true)]
    file_and_args: Vec<OsString>,
}

impl RunArgs {
    /// The module's file.
    pub fn file(&self) -> &Path {
        self.file_and_args.first().map_or(Path::new(""), Path::new)
    }

    /// Whether it is likely that a file is meant, and no command written wrong.
    fn names_a_file(&self) -> bool {
        self.file() == STANDARD || self.file().extension().is_some() || self.file().exists()
    }

    /// The program's arguments.
    ///
    /// # Errors
    ///
    /// If one is not UTF-8, which a program could not be told.
    pub fn args(&self) -> Result<Vec<&str>, UsageError> {
        let text = |arg: &'_ OsString| {
            let lossy = arg.to_string_lossy();
            UsageError(format!("the argument `{lossy}` is not UTF-8"))
        };
        self.file_and_args.iter().skip(1).map(|arg| arg.to_str().ok_or_else(|| text(arg))).collect()
    }
}

/// `legato compile`.
#[derive(Debug, Args)]
#[command(after_help = "\
The file runs on machines with the same kind of processor, by the same version of legato. Its machine code is not checked
when it is run, and can do whatever you can: run only files that you trust, and say so with --precompiled.

Example:
  legato compile big.wasm -o big.legato && legato run --precompiled big.legato")]
pub struct CompileArgs {
    #[command(flatten)]
    pub engine: EngineArgs,

    /// The module: .wasm or .wat, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Where to write the machine code
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
}

/// `legato inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The module: .wasm, .wat, or a file made by `legato compile`; or - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `legato cache`.
#[derive(Debug, Args)]
#[command(after_help = "\
`legato run` keeps the code that it has compiled, and finds it there when it runs the same module with the same options
again. A new version of legato compiles anew; what nobody uses any more goes when there is no room.")]
pub struct CacheCommand {
    /// What to do with the cache.
    #[arg(value_name = "size|clear")]
    pub action: CacheAction,

    #[command(flatten)]
    pub cache: CacheArgs,
}

/// What `legato cache` can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CacheAction {
    /// Say where it is and how large
    Size,
    /// Remove all that it holds
    Clear,
}

/// `legato wast`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints a line for each directive that does not do what the script expects; exit status 1 if there is one.")]
pub struct WastArgs {
    #[command(flatten)]
    pub engine: EngineArgs,

    /// The scripts: .wast, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

/// `legato completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  legato completions bash >~/.local/share/bash-completion/completions/legato")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `legato man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  legato man ~/.local/share/man/man1 && man legato")]
pub struct ManArgs {
    /// The directory to write them to: a page for legato, and one for each command
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_lists_the_keys_of_the_heap() {
        let mut cli = Cli::command();
        let run = cli.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        // Indented as a whole.
        for line in HeapConfig::help().lines() {
            assert!(run.contains(line), "{line} is not in\n{run}");
        }
    }

    #[test]
    fn the_run_may_be_left_out() {
        for args in [
            &["legato", "x.wasm", "-x"][..],
            &["legato", "--invoke", "f", "x.wasm", "-x"],
            &["legato", "-v", "-", "-x"],
        ] {
            let cli = Cli::parse_command_line(args).unwrap();
            let Command::Run(run) = cli.command else { panic!("{args:?} was parsed as something else") };
            assert_eq!(run.args().unwrap(), ["-x"], "{args:?}");
            assert_eq!(cli.verbose > 0, args[1] == "-v");
        }
        let kind = |args: &[&str]| Cli::parse_command_line(args).unwrap_err().kind();
        assert_eq!(kind(&["legato", "rum", "x.wasm"]), ErrorKind::InvalidSubcommand);
        assert_eq!(kind(&["legato", "--frobnicate", "x.wasm"]), ErrorKind::UnknownArgument);
        assert_eq!(kind(&["legato", "run", "--frobnicate"]), ErrorKind::UnknownArgument);
        assert_eq!(kind(&["legato"]), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
    }

    #[test]
    fn options_stop_at_the_file() {
        let cli = Cli::try_parse_from(["legato", "run", "--dir", "a::/b", "x.wasm", "--dir", "-v", "--", "z"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("run was parsed as something else") };
        assert_eq!(run.dirs, [DirMapping { host: "a".into(), guest: "/b".into() }]);
        assert_eq!(run.file(), Path::new("x.wasm"));
        assert_eq!(run.args().unwrap(), ["--dir", "-v", "--", "z"]);
    }
}
