//! A heap's sources of memory pressure at work: the one that is asked, and those that stand in for it.

use crate::machine::PressureReading;
use crate::os::pressure;
use crate::pressure::{MissingSource, Moment, Pressure, PressureSource, Signal};
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// Asks the first source; where it cannot tell any more, the next one from then on.
pub(crate) struct Gauge {
    sources: VecDeque<Box<dyn PressureSource>>,
    missing: Vec<MissingSource>,
    /// What the answers of the collection under way have cost.
    cost: Duration,
    totals: PressureTotals,
}

/// Running totals of what was asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PressureTotals {
    /// Collections that a source has answered for.
    pub(crate) readings: u64,
    /// Of these, with a stall.
    pub(crate) stalls: u64,
    pub(crate) cost: Duration,
}

impl Gauge {
    /// The sources of this machine, with the preferred one first.
    pub(crate) fn new(preferred: Signal) -> Gauge {
        let (sources, missing) = pressure::sources(preferred);
        Gauge { sources: sources.into(), missing, ..Gauge::none() }
    }

    /// No source: there is always memory.
    pub(crate) fn none() -> Gauge {
        Gauge { sources: VecDeque::new(), missing: Vec::new(), cost: Duration::ZERO, totals: PressureTotals::default() }
    }

    /// Has this source asked, and no other, from now on.
    pub(crate) fn replace(&mut self, source: Box<dyn PressureSource>) {
        self.sources = VecDeque::from([source]);
        self.missing.clear();
    }

    /// Asks as a collection in one stop begins.
    pub(crate) fn before(&mut self) {
        let _ = self.ask(Moment::Before);
    }

    /// Asks when a collection has ended; `None` where nobody knows.
    pub(crate) fn after(&mut self) -> Option<PressureReading> {
        let answer = self.ask(Moment::After);
        let cost = std::mem::take(&mut self.cost);
        self.totals.cost += cost;
        let stalled = answer? == Pressure::Stall;
        self.totals.readings += 1;
        self.totals.stalls += u64::from(stalled);
        Some(PressureReading { stalled, cost })
    }

    /// The answer of the first source that has one.
    fn ask(&mut self, moment: Moment) -> Option<Pressure> {
        let start = Instant::now();
        let mut answer = None;
        while let Some(source) = self.sources.front_mut() {
            answer = Some(source.read(moment)).filter(|&answer| answer != Pressure::Unknown);
            if answer.is_some() {
                break;
            }
            self.sources.pop_front();
        }
        self.cost += start.elapsed();
        answer
    }

    /// What is asked, what would be asked next, and so on.
    pub(crate) fn names(&self) -> Vec<String> {
        self.sources.iter().map(|source| source.name()).collect()
    }

    /// The sources that there are not.
    pub(crate) fn missing(&self) -> &[MissingSource] {
        &self.missing
    }

    /// Running totals.
    pub(crate) fn totals(&self) -> PressureTotals {
        self.totals
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Gauge").field("sources", &self.names()).field("totals", &self.totals).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its answers one after the other, at both moments.
    struct Script(&'static str, Vec<Pressure>);

    impl PressureSource for Script {
        fn name(&self) -> String {
            self.0.to_string()
        }

        fn read(&mut self, _: Moment) -> Pressure {
            self.1.remove(0)
        }
    }

    #[test]
    fn a_source_that_cannot_tell_gives_way_to_the_next() {
        use Pressure::{Clear, Stall, Unknown};
        let mut gauge = Gauge::none();
        assert_eq!((gauge.after(), gauge.totals().readings), (None, 0));
        let first = Script("first", vec![Stall, Clear, Clear, Unknown]);
        let second = Script("second", vec![Stall, Unknown]);
        gauge.sources = VecDeque::from([Box::new(first) as Box<dyn PressureSource>, Box::new(second)]);
        assert_eq!(gauge.names(), ["first", "second"]);
        let stalled = |gauge: &mut Gauge| {
            gauge.before();
            gauge.after().map(|reading| reading.stalled)
        };
        assert_eq!(stalled(&mut gauge), Some(false), "what is said before a collection is no answer");
        assert_eq!(stalled(&mut gauge), Some(true), "the second");
        assert_eq!(gauge.names(), ["second"]);
        assert_eq!(stalled(&mut gauge), None);
        assert!(gauge.names().is_empty());
        assert_eq!((gauge.totals().readings, gauge.totals().stalls), (2, 1));
        gauge.replace(Box::new(Script("own", vec![Stall])));
        assert_eq!(gauge.after().map(|reading| reading.stalled), Some(true));
    }
}
