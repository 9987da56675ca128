//! A record with what it belongs to.

use std::fmt;

use legato_heap::HeapStats;
use serde::Serialize;
use serde::ser::SerializeMap;

use crate::page;
use crate::{Machine, Record, Statistics};

/// What a heap did in one run of a program: [`json`](Self::json), [`html`](Self::html), or text by `Display`.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the program.
    pub program: String,
    /// How it ended.
    pub outcome: String,
    /// The heap's parameters: [`HeapConfig::settings`](legato_heap::HeapConfig::settings).
    pub configuration: Vec<(&'static str, String)>,
    /// Where it ran.
    pub machine: Machine,
    /// The figures.
    pub statistics: Statistics,
    /// What they were made from.
    pub record: Record,
}

impl Report {
    /// A report on this machine. `heap` are the heap's totals at the end, if it could be asked.
    pub fn new(
        program: impl Into<String>,
        outcome: impl Into<String>,
        configuration: Vec<(&'static str, String)>,
        record: Record,
        heap: Option<HeapStats>,
    ) -> Report {
        let statistics = record.statistics(heap);
        let (program, outcome) = (program.into(), outcome.into());
        Report { program, outcome, configuration, machine: Machine::this(), statistics, record }
    }

    /// One JSON object on one line: `program`, `outcome`, `configuration` (an object of strings), `machine`
    /// ([`Machine`]), and the fields of [`Statistics`].
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers alone, with string keys")
    }

    /// A page of HTML that stands by itself: nothing is loaded from elsewhere. The charts over time need a record
    /// [with events](crate::GcRecorder::with_events).
    pub fn html(&self) -> String {
        page::render(self)
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Pairs as an object.
        struct Settings<'a>(&'a [(&'static str, String)]);
        impl Serialize for Settings<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(self.0.len()))?;
                for (key, value) in self.0 {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
        #[derive(Serialize)]
        struct Fields<'a> {
            program: &'a str,
            outcome: &'a str,
            configuration: Settings<'a>,
            machine: &'a Machine,
            #[serde(flatten)]
            statistics: &'a Statistics,
        }
        let Report { program, outcome, configuration, machine, statistics, record: _ } = self;
        Fields { program, outcome, configuration: Settings(configuration), machine, statistics }.serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.program, self.outcome)?;
        write!(f, "{}", self.statistics)
    }
}
