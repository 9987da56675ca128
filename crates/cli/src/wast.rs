//! `legato wast`: scripts of the specification's tests.

use anyhow::{Context, Result, bail};
use legato::Config;
use legato_wast::Counts;

use crate::args::WastArgs;
use crate::{compile, load, report};

/// Runs scripts, each in a store of its own.
///
/// # Errors
///
/// If one cannot be read, or does what it does not expect; what that was has been printed by then.
pub fn run(args: &WastArgs) -> Result<()> {
    let engine = compile::engine(&mut Config::new(), &args.engine)?;
    let mut all = Counts::default();
    for path in &args.files {
        let file = path.display();
        let text = String::from_utf8(load::bytes(path)?).with_context(|| format!("{file} is no text"))?;
        let said = |line: usize, error: anyhow::Error| report::complain(format_args!("{file}:{line}: {error:#}"));
        let counts = legato_wast::run(&engine, &text, said).with_context(|| format!("{file} is no script"))?;
        report::print(&format!("{file}: {} directives passed, {} failed\n", counts.passed, counts.failed))?;
        all += counts;
    }
    if all.failed > 0 {
        bail!("{} of {} directives failed", all.failed, all.passed + all.failed);
    }
    Ok(())
}
