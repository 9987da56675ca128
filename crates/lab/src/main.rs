//! `legato-lab`: Legato measured and checked against other engines.

use clap::{Parser, Subcommand};
use legato_lab::{fuzz, peers};
use std::process::ExitCode;

/// Legato measured and checked against other engines.
#[derive(Parser)]
#[command(name = "legato-lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run time, compile time and start-up against wasmtime, in alternating runs.
    ///
    /// Exits with 1 if a target is missed or something could not be measured. Needs a release build.
    Peers(peers::Options),
    /// Run generated modules in Legato and in wasmtime, and compare what they do.
    ///
    /// Exits with 1 if there is a difference.
    Fuzz(fuzz::Options),
    /// Write the module with the long start function that the linearity experiment compiles.
    Generate {
        /// How many globals it initialises.
        #[arg(long, default_value_t = 3000)]
        globals: u32,
        /// The file to write.
        file: std::path::PathBuf,
    },
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("legato-lab: {error:#}");
            ExitCode::from(legato_lab::FAILED as u8)
        }
    }
}

fn run() -> anyhow::Result<bool> {
    match Arguments::parse().command {
        Command::Peers(options) => {
            let report = peers::run(&options)?;
            if options.json {
                println!("{}", serde_json::to_string_pretty(&report)?);
            } else {
                print!("{report}");
            }
            Ok(report.all_met())
        }
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Generate { globals, file } => {
            std::fs::write(&file, legato_lab::generate::start_function(globals))?;
            Ok(true)
        }
    }
}
