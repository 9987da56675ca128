//! Memory that a growing heap is about to take gets there ahead of it: a thread touches the next huge page while the
//! program runs, so that it neither faults for each page nor waits until the system has cleared 2 MiB.
//!
//! A heap that grows faster than the thread goes on behind the page that this is at work on, in ordinary pages: it
//! never waits, but at its end.

use crate::os::touch_huge_page;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, available_parallelism};

/// One huge page of a cage.
struct HugePage(*mut u8);

// SAFETY: an address alone; what is done there is said at `Ahead::touch`.
unsafe impl Send for HugePage {}

/// The thread of one cage.
#[derive(Debug)]
pub(super) struct Ahead {
    /// `None` at the end, and where there is no thread.
    requests: Option<Sender<HugePage>>,
    thread: Option<JoinHandle<()>>,
    /// Whether a request has been made that is not done.
    is_busy: Arc<AtomicBool>,
}

impl Ahead {
    /// Starts the thread. There is none where the machine has one processor, or the system has none to give: nothing is
    /// touched ahead then.
    pub(super) fn start() -> Ahead {
        let (requests, received) = channel::<HugePage>();
        let is_busy = Arc::<AtomicBool>::default();
        let done = is_busy.clone();
        let run = move || {
            for HugePage(address) in received {
                // SAFETY: by the contract of `Ahead::touch`.
                unsafe { touch_huge_page(address) };
                done.store(false, Ordering::Release);
            }
        };
        let thread = available_parallelism()
            .is_ok_and(|processors| processors.get() > 1)
            .then(|| std::thread::Builder::new().name("legato-memory".to_string()).spawn(run).ok());
        let thread = thread.flatten();
        Ahead { requests: thread.is_some().then_some(requests), thread, is_busy }
    }

    /// Whether the thread is at work.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Whether there is a thread with nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_some() && !self.is_busy()
    }

    /// Has the thread, which is idle, touch a huge page.
    ///
    /// # Safety
    /// The page is accessible private memory of a mapping that outlives this. What it holds stays as it is, so anybody
    /// may use it meanwhile.
    pub(super) unsafe fn touch(&self, address: *mut u8) {
        debug_assert!(self.is_idle());
        self.is_busy.store(true, Ordering::Relaxed);
        if let Some(requests) = &self.requests {
            // The thread ends after this alone.
            let _ = requests.send(HugePage(address));
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic, and there would be nothing left to do about it.
            let _ = thread.join();
        }
    }
}
