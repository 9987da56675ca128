//! The end of the command by a signal: what it has made on the system is removed first.

use super::group;
use super::swap::Place;
use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See [`making`].
static MAKING: Mutex<()> = Mutex::new(());

/// The signals that end the command in an orderly way.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// To be held while a group or swap is made or removed. Once the command is being ended, nobody gets it.
pub(super) fn making() -> MutexGuard<'static, ()> {
    MAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is to be removed.
#[derive(Debug)]
pub(super) struct Made {
    /// The folder in which groups are made.
    pub(super) groups: PathBuf,
    /// Where swap is, if there is to be some.
    pub(super) swap: Option<Place>,
    /// The folder for files.
    pub(super) folder: PathBuf,
}

/// From here on, a signal that ends the command removes all this first. Processes in the groups are killed: they would
/// be left without a parent. To be called before there are other threads: those would take the signal.
///
/// # Errors
/// If the system refuses.
pub(super) fn watch(made: Made) -> anyhow::Result<()> {
    let signals = block()?;
    let wait = move || {
        let mut signal = 0;
        // SAFETY: the pointers are to variables of ours.
        while unsafe { libc::sigwait(&signals, &mut signal) } != 0 {}
        let _making = making();
        group::end_all(&made.groups);
        made.swap.iter().for_each(Place::end);
        let _ = std::fs::remove_dir_all(&made.folder);
        std::process::exit(128 + signal);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).context("cannot start a thread")?;
    Ok(())
}

/// Leaves the signals to whoever waits for them. Processes that are started get them as usual: the standard library
/// blocks none in these.
fn block() -> anyhow::Result<libc::sigset_t> {
    // SAFETY: a set of signals is plain data, made valid by the next call.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a set of ours, and the signals exist.
    unsafe {
        libc::sigemptyset(&mut signals);
        for signal in SIGNALS {
            libc::sigaddset(&mut signals, signal);
        }
    }
    // SAFETY: the set is valid, and nobody wants the old one.
    let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut()) };
    ensure!(error == 0, "cannot block signals: {}", std::io::Error::from_raw_os_error(error));
    Ok(signals)
}
