//! Several observers as one.

use legato_heap::{GcEvent, GcObserver, GcSlice, GcStop, MachineNotes};

/// Passes what is known of the machine, and each event, stop and slice to all of its observers, in the order in which
/// they were added.
#[derive(Default)]
pub struct Fanout {
    observers: Vec<Box<dyn GcObserver>>,
}

impl Fanout {
    /// No observers.
    pub fn new() -> Fanout {
        Fanout::default()
    }

    /// These and one more.
    pub fn with(mut self, observer: impl GcObserver + 'static) -> Fanout {
        self.observers.push(Box::new(observer));
        self
    }

    /// Whether nobody listens: then a heap does better without.
    pub fn is_empty(&self) -> bool {
        self.observers.is_empty()
    }
}

impl GcObserver for Fanout {
    fn machine(&mut self, notes: &MachineNotes) {
        for observer in &mut self.observers {
            observer.machine(notes);
        }
    }

    fn event(&mut self, event: &GcEvent) {
        for observer in &mut self.observers {
            observer.event(event);
        }
    }

    fn stop(&mut self, stop: &GcStop) {
        for observer in &mut self.observers {
            observer.stop(stop);
        }
    }

    fn slice(&mut self, slice: &GcSlice) {
        for observer in &mut self.observers {
            observer.slice(slice);
        }
    }
}
