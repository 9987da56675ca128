//! The `legato` command. `legato --help` says what it does.

mod args;
mod cache;
mod compile;
mod compile_log;
mod exit;
mod gc;
mod imports;
mod inspect;
mod invoke;
mod limits;
mod load;
mod logging;
mod report;
mod run;

use clap::Parser;

use args::{Cli, Command};

fn main() {
    let cli = Cli::parse();
    logging::start(cli.verbose);
    let status = match cli.command {
        Command::Run(args) => run::run(args),
        Command::Compile(args) => report::status(compile::compile(&args)),
        Command::Inspect(args) => report::status(inspect::inspect(&args)),
        Command::Cache(args) => report::status(cache::command(&args)),
    };
    std::process::exit(status);
}
