//! The cache of compiled code: `--cache` and `legato cache`.

use anyhow::{Context, Result};
use legato::{Cache, CacheSize};

use crate::args::{CacheAction, CacheArgs, CacheCommand};
use crate::exit::UsageError;
use crate::report;

/// The cache that the command line asks for; none if it says so.
///
/// # Errors
///
/// If its directory cannot be used, or there is no telling where it is.
fn open(args: &CacheArgs) -> Result<Option<Cache>> {
    let directory = match &args.cache {
        Some(off) if off == "off" => return Ok(None),
        Some(directory) => directory.clone(),
        None => Cache::default_directory()
            .context("there is no default directory for it: neither XDG_CACHE_HOME nor HOME is an absolute path")?,
    };
    Cache::open(directory, args.cache_size as u64).map(Some)
}

/// The cache for a run. A program runs without one, too.
pub fn for_run(args: &CacheArgs) -> Option<Cache> {
    open(args).unwrap_or_else(|error| {
        log::info!("no code is cached: {error:#}");
        None
    })
}

/// `legato cache`.
///
/// # Errors
///
/// If there is no cache, or it cannot be read or cleared.
pub fn command(args: &CacheCommand) -> Result<()> {
    let cache =
        open(&args.cache)?.ok_or_else(|| UsageError("`legato cache` needs a cache: --cache is `off`".into()))?;
    let directory = cache.directory().display();
    report::print(&match args.action {
        CacheAction::Size => format!("{directory}: {}\n", shown(cache.size()?)),
        CacheAction::Clear => format!("{directory}: removed {}\n", shown(cache.clear()?)),
    })
}

fn shown(size: CacheSize) -> String {
    let plural = if size.modules == 1 { "" } else { "s" };
    format!("{} module{plural}, {:.1} MB", size.modules, size.bytes as f64 / 1e6)
}
