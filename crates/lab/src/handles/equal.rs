//! One heap size for all, as in the paper (sections 5.1 and 6.1): then the number of cycles tells what a model needs.

use super::Options;
use crate::engines::{Engine, Legato};
use crate::programs::Program;
use anyhow::ensure;
use legato::{GcEvent, GcObserver};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The heap over the most that lives after a collection; a cycle begins when half of it is in use.
const OVER_LIVE: u64 = 3;

/// The least heap, in bytes.
const LEAST: u64 = 4 << 20;

/// A heap that collects so often that the most that lives is not missed.
const OFTEN: [&str; 3] = ["collector=mark-sweep", "min=1M", "growth=1.25"];

/// The most that a heap has held after a collection, in bytes.
#[derive(Clone, Default)]
struct MostLive(Arc<AtomicU64>);

impl GcObserver for MostLive {
    fn event(&mut self, event: &GcEvent) {
        self.0.fetch_max(event.after_bytes, Ordering::Relaxed);
    }
}

/// The options that fix a program's heap at three times what lives in it, by one run of the program.
///
/// # Errors
/// If the program does not run, or never collects.
pub(super) fn heap(program: &Program, options: &Options) -> anyhow::Result<[String; 2]> {
    let built = program.read(&options.turns.examples, false)?;
    let engine = Legato::new(&OFTEN.map(String::from))?;
    let module = engine.compile(&built.wasm)?;
    let most = MostLive::default();
    engine.start_observed(&module, &options.runs().command_line(program), Box::new(most.clone()))?;
    let live = most.0.load(Ordering::Relaxed);
    ensure!(live > 0, "it allocates too little to collect");
    Ok(["sizing=fixed".to_string(), format!("max={}", size(live))])
}

/// The heap for what lives, in whole megabytes.
fn size(live: u64) -> String {
    format!("{}M", (OVER_LIVE * live).max(LEAST).div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_are_three_times_what_lives_but_not_tiny() {
        assert_eq!(size(10), "4M");
        assert_eq!(size(100 << 20), "300M");
        assert_eq!(size((2 << 20) + 1), "7M");
    }

    #[test]
    fn what_lives_is_found_with_a_heap_that_there_is() {
        assert!(Legato::new(&OFTEN.map(String::from)).is_ok());
    }
}
