//! Memory pressure: what a heap asks the machine, and who answers.

crate::values::values! {
    /// Where a heap learns of memory pressure from, on Linux.
    #[derive(Eq, Hash)]
    pub enum Signal {
        /// The first of the others that this machine has, in their order.
        Auto = "auto",
        /// What of the process has been swapped out.
        Swap = "swap",
        /// Reclaiming of memory by the heap's own thread: the allocation stalls of Isla Vista, section 3.1.
        Reclaim = "reclaim",
        /// How long tasks have waited for memory: those of the process's own memory group, where it has one.
        Psi = "psi",
        /// How often the process's memory group has come to its limit.
        Events = "events",
        /// Allocation stalls anywhere on the machine.
        Vmstat = "vmstat",
    }
}

/// A moment at which a heap asks. A collection in slices has the second alone: all that has happened since the last
/// answer is the program's as well as the collector's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// A collection in one stop begins.
    Before,
    /// A collection has ended.
    After,
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// There is memory.
    Clear,
    /// The process has had to wait for memory since the last answer at [`Moment::After`].
    Stall,
    /// The source cannot tell any more: another one is to be asked from now on.
    Unknown,
}

/// Tells a heap whether memory is short. Embedders that know better than the system have their own
/// ([`Heap::set_pressure_source`](crate::Heap::set_pressure_source)).
///
/// Asked on the mutator's thread, while the mutator stands: an answer may cost microseconds, and is part of the pause.
pub trait PressureSource: Send {
    /// What it is, in a few words, for logs.
    fn name(&self) -> String;

    /// Answers at a moment. [`Moment::Before`] is there to set the collector's share of what happens apart from the
    /// program's: its answer is not used, unless it is [`Pressure::Unknown`].
    fn read(&mut self, moment: Moment) -> Pressure;
}

/// A source that this machine does not have, or does not let the process have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingSource {
    /// What it is.
    pub name: &'static str,
    /// Why not, in a few words.
    pub because: String,
}
