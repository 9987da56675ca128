//! Axis `collector`: when memory is reclaimed, and how.

pub(crate) mod chunked_stack;
pub(crate) mod delay;
pub mod generational;
pub(crate) mod mark_sweep;
pub(crate) mod marking;
mod sweeping;
#[cfg(test)]
mod tests;

/// The values of the axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Collector {
    /// Stops the mutator, marks everything reachable, sweeps lazily, moves nothing.
    MarkSweep,
    /// Allocates in a nursery, whose survivors are copied into a mature space that is marked and swept.
    Generational,
}

impl Collector {
    /// Every value.
    pub const ALL: &[Collector] = &[Collector::MarkSweep, Collector::Generational];

    /// The value's name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Collector::MarkSweep => "mark-sweep",
            Collector::Generational => "generational",
        }
    }
}
