//! SIGINT and SIGTERM while a program runs: the first asks for its end, the second ends the process.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// Calls `told` with the number of the first signal that asks this process to end, on a thread of its own. From then on
/// signals end the process at once, whatever it is doing. Those that whoever started us wants ignored stay so.
///
/// # Errors
///
/// If the system refuses.
pub fn listen(told: impl FnOnce(i32) + Send + 'static) -> io::Result<()> {
    let ignored = ignored();
    let wanted: Vec<_> = [SIGINT, SIGTERM].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect();
    let asked = Arc::new(AtomicBool::new(false));
    for &signal in &wanted {
        // In this order, so that the first finds it unset.
        flag::register_conditional_default(signal, asked.clone())?;
        flag::register(signal, asked.clone())?;
    }
    let mut signals = Signals::new(wanted)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            told(signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

/// The name of a signal that [`listen`] tells of.
pub fn name(signal: i32) -> &'static str {
    if signal == SIGINT { "SIGINT" } else { "SIGTERM" }
}

/// The signals that this process ignores, bit N - 1 for signal N: a shell starts jobs in the background so, and `nohup`
/// its command. None where the system does not say.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
