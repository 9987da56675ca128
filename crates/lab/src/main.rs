//! `legato-lab`: Legato measured and checked against other engines.

use clap::{Parser, Subcommand};
#[cfg(feature = "peers")]
use legato_lab::{allocation, fuzz, peers};
use legato_lab::{arrays, collections, contestants, handles, instances, pauses, pressure, startup, views, zeroing};
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
    #[cfg(feature = "peers")]
    Peers(peers::Options),
    /// Programs that allocate, against wasmtime's default collector and V8: run time, CPU time, memory.
    ///
    /// Exits with 1 if a target is missed or a program could not be measured. Needs a release build.
    #[cfg(feature = "peers")]
    Allocation(allocation::Options),
    /// How long nursery collections take beside a large live heap, and what wasmtime and V8 do there.
    ///
    /// Exits with 1 if a target is missed. Needs a release build.
    #[cfg(feature = "peers")]
    Nursery(allocation::nursery::Options),
    /// How long a program with a large live heap stands still, by its own word: in Legato and, with the feature
    /// `peers`, in wasmtime with either collector and in V8.
    ///
    /// Exits with 1 if a target is missed or something could not be measured. Needs a release build.
    Pauses(pauses::Options),
    /// How soon programs give results: whole commands, with an empty cache and with a full one, and, with the feature
    /// `peers`, in V8.
    ///
    /// Exits with 1 if a target is missed or something could not be measured. Needs a release build.
    Startup(startup::Options),
    /// What memory pressure costs under each rule for the heap's size, in real memory groups with swap.
    ///
    /// Needs Linux and root: it makes memory groups and a swap file of its own, and removes them. Exits with 1 if a
    /// target is missed or something could not be measured, with 2 where the machine does not let it. Needs a release
    /// build.
    Pressure(pressure::Options),
    /// Takes memory and gives it back, for `pressure`.
    #[command(hide = true)]
    Ballast(pressure::ballast::Options),
    /// One run of a compiled module, for the commands that compare.
    #[command(hide = true)]
    Worker(contestants::worker::Options),
    /// Run generated modules in Legato and in wasmtime, and compare what they do.
    ///
    /// Exits with 1 if there is a difference.
    #[cfg(feature = "peers")]
    Fuzz(fuzz::Options),
    /// Run generated programs that allocate under all heap configurations, and compare what they do with what they do
    /// where nothing is ever collected.
    ///
    /// Exits with 1 if there is a difference.
    FuzzCollections(collections::Options),
    /// What zeroing costs under each strategy: bandwidth, microbenchmarks, and every example.
    ///
    /// Exits with 1 if something could not be measured. Needs a release build.
    Zeroing(zeroing::Options),
    /// What the layouts of arrays cost and save, against contiguous arrays: programs, parameters, copies, single
    /// accesses.
    ///
    /// Exits with 1 if a target is missed or something could not be measured. Needs a release build.
    Arrays(arrays::Options),
    /// What reference models cost and save, over Brooks forwarding: programs, what the collector does, fragmentation.
    ///
    /// Exits with 1 if a target is missed or something could not be measured. Needs a release build.
    Handles(handles::Options),
    /// What host code pays for an array as one slice: leaves mapped a second time, against copies.
    ///
    /// Exits with 1 if a target is missed or something could not be measured. Needs a release build.
    Views(views::Options),
    /// What an instance of a compiled module costs, and a store for it.
    ///
    /// Exits with 1 if the target is missed. Needs a release build.
    Instances(instances::Options),
    /// `allocation`, `nursery` and `zeroing` one after the other: all that is said of the generational heap.
    ///
    /// Exits with 1 if a target is missed or something could not be measured. Needs a release build.
    #[cfg(feature = "peers")]
    Generational {
        /// Runs of each engine or strategy for each program.
        #[arg(long, default_value = "10")]
        pairs: String,
    },
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
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("legato-lab: {error:#}");
            ExitCode::from(legato_lab::FAILED as u8)
        }
    }
}

fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        #[cfg(feature = "peers")]
        Command::Peers(options) => {
            let report = peers::run(&options)?;
            print(&report, options.json)?;
            Ok(report.all_met())
        }
        #[cfg(feature = "peers")]
        Command::Allocation(options) => {
            let report = allocation::run(&options)?;
            print(&report, options.turns.json)?;
            Ok(report.all_met())
        }
        #[cfg(feature = "peers")]
        Command::Nursery(options) => {
            let report = allocation::nursery::run(&options)?;
            print(&report, options.json)?;
            Ok(report.all_met())
        }
        Command::Pauses(options) => {
            let report = pauses::run(&options)?;
            if options.markdown {
                print!("{}", report.markdown());
            } else {
                print(&report, options.json)?;
            }
            Ok(report.all_met())
        }
        Command::Startup(options) => {
            let report = startup::run(&options)?;
            if options.markdown {
                print!("{}", report.markdown());
            } else {
                print(&report, options.json)?;
            }
            Ok(report.all_met())
        }
        Command::Pressure(options) => {
            let report = pressure::run(&options)?;
            if options.markdown {
                print!("{}", report.markdown());
            } else {
                print(&report, options.json)?;
            }
            Ok(report.all_met())
        }
        Command::Ballast(options) => pressure::ballast::hold(&options).map(|()| true),
        Command::Worker(options) => contestants::worker::serve(&options).map(|()| true),
        #[cfg(feature = "peers")]
        Command::Fuzz(options) => fuzz::run(&options),
        Command::FuzzCollections(options) => collections::run(&options),
        Command::Zeroing(options) => {
            let report = zeroing::run(&options)?;
            print(&report, options.turns.json)?;
            Ok(report.is_complete())
        }
        Command::Arrays(options) => {
            let report = arrays::run(&options)?;
            print(&report, options.turns.json)?;
            Ok(report.all_met())
        }
        Command::Handles(options) => {
            let report = handles::run(&options)?;
            print(&report, options.turns.json)?;
            Ok(report.all_met())
        }
        Command::Instances(options) => {
            let report = instances::run(&options)?;
            print(&report, options.json)?;
            Ok(report.all_met())
        }
        Command::Views(options) => {
            let report = views::run(&options)?;
            print(&report, options.json)?;
            Ok(report.all_met())
        }
        #[cfg(feature = "peers")]
        Command::Generational { pairs } => {
            let parts: [&[&str]; 3] =
                [&["allocation", "--pairs", &pairs], &["nursery"], &["zeroing", "--pairs", &pairs]];
            let mut all_met = true;
            for part in parts {
                println!("== {}", part[0]);
                all_met &= run(Arguments::try_parse_from(["legato-lab"].iter().chain(part))?.command)?;
            }
            Ok(all_met)
        }
        Command::Generate { globals, file } => {
            std::fs::write(&file, legato_lab::generate::start_function(globals))?;
            Ok(true)
        }
    }
}

/// Prints a report as a table or as JSON.
fn print(report: &(impl std::fmt::Display + serde::Serialize), json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}
