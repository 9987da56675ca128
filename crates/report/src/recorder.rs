//! The observer that remembers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use legato_heap::{GcEvent, GcObserver, GcSlice, GcStop};

use crate::over_time::OverTime;
use crate::process::{CpuTime, peak_resident_bytes};
use crate::record::{Record, Totals};

/// Remembers the collections of one heap. Clones are one recorder: give one to the heap, keep another, and ask it for a
/// [`Record`] whenever you like, from any thread.
///
/// A collection, a stop or a slice costs a lock that nobody else holds and some additions. Memory is bounded however
/// many there are: some megabytes, of which a run of few collections needs one.
#[derive(Clone, Debug)]
pub struct GcRecorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Times and rates count from here.
    started: Instant,
    cpu: CpuTime,
    totals: Mutex<Totals>,
}

impl GcRecorder {
    /// A recorder for [`Statistics`](crate::Statistics). Make it when you make the heap: its clock starts now.
    pub fn new() -> GcRecorder {
        GcRecorder::keeping(None)
    }

    /// A recorder that keeps events too, and what happened when: for the charts of a page, and for questions of your
    /// own. [`Record::events`] says which.
    pub fn with_events() -> GcRecorder {
        GcRecorder::keeping(Some(OverTime::new()))
    }

    fn keeping(over_time: Option<OverTime>) -> GcRecorder {
        let totals = Mutex::new(Totals::new(over_time));
        GcRecorder { shared: Arc::new(Shared { started: Instant::now(), cpu: CpuTime::now(), totals }) }
    }

    /// All that happened until now.
    pub fn record(&self) -> Record {
        let cpu = CpuTime::now().since(self.shared.cpu);
        // Before the copy below makes it larger.
        let peak = peak_resident_bytes();
        let totals = self.totals().clone();
        let wall = self.shared.started.elapsed();
        Record::new(totals, wall, cpu, peak)
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        // Whoever panicked while holding it has at worst lost an event.
        self.shared.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for GcRecorder {
    fn default() -> GcRecorder {
        GcRecorder::new()
    }
}

impl GcObserver for GcRecorder {
    fn event(&mut self, event: &GcEvent) {
        self.totals().add(event);
    }

    fn stop(&mut self, stop: &GcStop) {
        self.totals().add_stop(stop);
    }

    fn slice(&mut self, slice: &GcSlice) {
        self.totals().add_slice(slice);
    }
}
