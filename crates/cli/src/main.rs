//! The `legato` command. `legato --help` says what it does.

mod args;
mod backtrace;
mod cache;
mod compile;
mod compile_log;
mod exception;
mod exit;
mod gc;
mod host;
mod imports;
mod inspect;
mod invoke;
mod limits;
mod load;
mod logging;
mod manual;
mod report;
mod run;
mod signals;
mod wast;

use args::{Cli, Command};

fn main() {
    let cli = Cli::of_process();
    logging::start(cli.verbose);
    let status = match cli.command {
        Command::Run(args) => run::run(*args),
        Command::Compile(args) => report::status(compile::compile(&args)),
        Command::Inspect(args) => report::status(inspect::inspect(&args)),
        Command::Cache(args) => report::status(cache::command(&args)),
        Command::Wast(args) => report::status(wast::run(&args)),
        Command::Completions(args) => report::status(manual::completions(&args)),
        Command::Man(args) => report::status(manual::pages(&args)),
    };
    std::process::exit(status);
}
