//! `legato completions` and `legato man`: what other programs know of the command line.

use std::fs;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::report;

/// Prints the script for a shell.
///
/// # Errors
///
/// If it cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "legato", &mut script);
    report::print(&String::from_utf8_lossy(&script))
}

/// Writes the manual's pages.
///
/// # Errors
///
/// If they cannot be written.
pub fn pages(args: &ManArgs) -> Result<()> {
    let directory = args.directory.display();
    fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.directory))
        .with_context(|| format!("cannot write the manual to {directory}"))
}
