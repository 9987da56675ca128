//! The `legato` command. `legato --help` says what it does.

mod args;
mod backtrace;
mod compile;
mod exception;
mod exit;
mod gc;
mod imports;
mod inspect;
mod invoke;
mod limits;
mod load;
mod report;
mod run;

use clap::Parser;

use args::{Cli, Command};

fn main() {
    let status = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Compile(args) => report::status(compile::compile(&args)),
        Command::Inspect(args) => report::status(inspect::inspect(&args)),
    };
    std::process::exit(status);
}
