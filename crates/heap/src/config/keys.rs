//! The table of keys: one row for each, with its name, what it sets, what its value must be, and what it is.
//!
//! Everything else comes from here: setting by name, the settings that reports print, the help, and the checks that
//! concern one key. A parameter belongs to those values of an axis under which there is a field to set.

use super::field::{Field, Range};
use super::{BLOCK_BYTES, HeapConfig, MAX_BYTES, MIN_MAX_BYTES, MIN_NURSERY_BYTES};
use crate::arrays::{Arrays, FIRST_N, LEAF_BYTES, LEAST_MAPPED, MappedParams, ZRayParams};
use crate::collector::Collector;
use crate::collector::generational::params::{Full, GenerationalParams};
use crate::collector::schedule::{CycleParams, Schedule, TimeParams};
use crate::error::HeapError;
use crate::references::handle_policies::HandleParams;
use crate::sizing::{IslaVistaParams, Sizing};
use crate::values::Choice;
use crate::views::NativeViews;
use crate::zeroing::Zeroing;
use std::collections::HashMap;
use std::sync::LazyLock;

/// One row.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// What it sets; `None` where the configuration has no such parameter. May fill in a default that is not said.
    field: for<'a> fn(&'a mut HeapConfig) -> Option<Field<'a>>,
    range: Range,
    /// What it is, for the help.
    pub(super) help: &'static str,
}

/// An axis, and the names of its values that have a parameter.
pub(super) type Owners = (&'static Key, Vec<&'static str>);

/// The owners of each parameter that has some.
static OWNERS: LazyLock<HashMap<&str, Owners>> =
    LazyLock::new(|| PARAMETERS.iter().filter_map(|key| Some((key.name, key.find_owners()?))).collect());

/// The axes.
pub(super) const AXES: &[Key] = &[
    key(
        "collector",
        |c| choice(&mut c.collector),
        Range::Any,
        "when memory is reclaimed, and how; snapshot is for tests",
    ),
    key("references", |c| choice(&mut c.references), Range::Any, "from a reference to its object"),
    key("arrays", |c| choice(&mut c.arrays), Range::Any, "where the elements of an array lie"),
    key(
        "native-views",
        |c| choice(&mut c.native_views),
        Range::Any,
        "how host code sees an array in leaves; double-map: what fills a leaf lies in whole ones",
    ),
    key("zeroing", zeroing, Range::Any, "who zeroes the nursery, when, and with which stores"),
    key("sizing", |c| choice(&mut c.sizing), Range::Any, "how large the heap grows before it is collected"),
];

/// The parameters.
pub(super) const PARAMETERS: &[Key] = &[
    key(
        "nursery",
        |c| Some(Field::Nursery(&mut generational(c)?.nursery)),
        Range::AtLeast(MIN_NURSERY_BYTES),
        "most size of the nursery, a quarter of max at most; appel: half of what is left",
    ),
    key(
        "nursery-pause",
        |c| Some(Field::Micros(&mut generational(c)?.nursery_pause)),
        Range::ZeroOrMicros(50, 1_000_000),
        "time that a collection of the nursery may take: it is smaller where much survives; 0: any time",
    ),
    key(
        "aging",
        |c| Some(Field::Percent(&mut generational(c)?.aging)),
        Range::Between(0.0, 90.0),
        "share of the nursery whose survivors stay young once",
    ),
    key("barrier", |c| choice(&mut generational(c)?.barrier), Range::Any, "how stores of young references are told"),
    key(
        "full",
        |c| choice(&mut generational(c)?.full),
        Range::Any,
        "how everything is collected: in slices, or at once",
    ),
    key(
        "schedule",
        |c| choice(&mut cycles(c)?.schedule),
        Range::Any,
        "when the slices of a cycle come: by time, or by what is allocated",
    ),
    key("quantum", |c| Some(Field::Micros(&mut time(c)?.quantum)), Range::Micros(50, 100_000), "length of a slice"),
    key(
        "utilisation",
        |c| Some(Field::Percent(&mut time(c)?.utilisation)),
        Range::Between(5.0, 95.0),
        "share of every window that is left to the program",
    ),
    key(
        "window",
        |c| Some(Field::Micros(&mut time(c)?.window)),
        Range::Micros(1000, 1_000_000),
        "window of time that utilisation is a share of",
    ),
    key("trigger", |c| choice(&mut cycles(c)?.trigger), Range::Any, "when a cycle begins"),
    key(
        "helpers",
        |c| choice(&mut cycles(c)?.helpers),
        Range::Any,
        "threads that mark beside the program; auto: where a processor is idle",
    ),
    key(
        "defragment",
        |c| if let Collector::Realtime(params) = &mut c.collector { choice(&mut params.defragment) } else { None },
        Range::Any,
        "what is moved so that blocks become empty, where references let objects move",
    ),
    key(
        "handle-release",
        |c| choice(&mut handles(c)?.release),
        Range::Any,
        "when handles of dead objects become free, and in which order they are taken",
    ),
    key("handle-order", |c| choice(&mut handles(c)?.order), Range::Any, "from which blocks handles are taken first"),
    key(
        "handle-cache",
        |c| choice(&mut handles(c)?.cache),
        Range::Any,
        "which blocks of handles are kept though all are free",
    ),
    key(
        "zeroing-unit",
        |c| match c.zeroing.as_mut()? {
            Zeroing::Concurrent(params) | Zeroing::Adaptive(params) => Some(Field::Bytes(&mut params.unit_bytes)),
            _ => None,
        },
        Range::PowerOfTwo(4 << 10, BLOCK_BYTES as u64),
        "bytes that the helper zeroes at a time",
    ),
    key(
        "zeroing-width",
        |c| match c.zeroing.as_mut()? {
            Zeroing::NonTemporal(params) => Some(Field::Bytes(&mut params.stream_bytes)),
            Zeroing::Concurrent(params) | Zeroing::Adaptive(params) => Some(Field::Bytes(&mut params.stream_bytes)),
            _ => None,
        },
        Range::PowerOfTwo(8, 32),
        "bytes of one streaming store",
    ),
    key(
        "leaf",
        |c| match &mut c.arrays {
            Arrays::Arraylets(params) => Some(Field::Bytes(&mut params.leaf_bytes)),
            Arrays::ZRays(params) => Some(Field::Bytes(&mut params.leaf_bytes)),
            _ => None,
        },
        Range::PowerOfTwo(*LEAF_BYTES.start(), *LEAF_BYTES.end()),
        "bytes of a leaf",
    ),
    key("lazy", lazy, Range::Any, "allocate a leaf when it is first stored to"),
    key(
        "first-n",
        |c| Some(Field::Bytes(&mut zrays(c)?.first_n)),
        Range::ZeroOrPowerOfTwo(*FIRST_N.start(), *FIRST_N.end()),
        "bytes of elements in the spine",
    ),
    key("first-n-grows", first_n_grows, Range::Any, "the first bytes of an array in use grow over its leaves"),
    key(
        "zero-compression",
        |c| Some(Field::Switch(&mut zrays(c)?.zero_compression)),
        Range::Any,
        "collections free leaves of zeros",
    ),
    key("fast-copy", |c| Some(Field::Switch(&mut zrays(c)?.fast_copy)), Range::Any, "copy by strips"),
    key("copy-on-write", |c| Some(Field::Switch(&mut zrays(c)?.copy_on_write)), Range::Any, "copies share leaves"),
    key(
        "mapped-from",
        |c| Some(Field::Bytes(&mut mapped(c)?.from)),
        Range::AtLeast(LEAST_MAPPED),
        "arrays of so many bytes own their address space",
    ),
    key("mapped-sharing", |c| Some(Field::Switch(&mut mapped(c)?.sharing)), Range::Any, "copies share whole pages"),
    key(
        "view-creation",
        |c| match &mut c.native_views {
            NativeViews::DoubleMap(params) => choice(&mut params.creation),
            _ => None,
        },
        Range::Any,
        "when the second mapping is made",
    ),
    key(
        "count-accesses",
        |c| Some(Field::Switch(&mut c.count_accesses)),
        Range::Any,
        "count the accesses of compiled code to array elements",
    ),
    key(
        "max",
        |c| Some(Field::Maximum(&mut c.max_bytes)),
        Range::Sizes(MIN_MAX_BYTES, MAX_BYTES, "32-bit references reach no further"),
        "most memory for objects, handles and immortal records; auto: what the machine allows, 2G at most; \
         arrays=mapped may exceed it between collections",
    ),
    key(
        "min",
        |c| Some(Field::Size(&mut c.min_bytes)),
        Range::Any,
        "below this size no collection starts by itself; max at most",
    ),
    key(
        "huge-pages",
        |c| Some(Field::Switch(&mut c.huge_pages)),
        Range::Any,
        "a heap beyond 8M grows in pages of 2M, which a thread touches ahead of the program",
    ),
    key(
        "growth",
        |c| match &mut c.sizing {
            Sizing::GcRatio(params) => Some(Field::Factor(&mut params.growth)),
            _ => None,
        },
        Range::Between(1.05, 100.0),
        "collect at the latest when the heap is FACTOR times what survived",
    ),
    key(
        "iv-grow",
        |c| Some(Field::Factor(&mut isla_vista(c)?.grow)),
        Range::Between(0.001, 1.0),
        "part of the base of steps that the limit grows by at a collection",
    ),
    key(
        "iv-shrink",
        |c| Some(Field::Factor(&mut isla_vista(c)?.shrink)),
        Range::Between(0.0, 0.99),
        "part of that base that a stall takes away",
    ),
    key(
        "iv-recover",
        |c| Some(Field::Switch(&mut isla_vista(c)?.recover)),
        Range::Any,
        "a quick start up to the first stall; later, steps grow again",
    ),
    key(
        "iv-memory",
        |c| Some(Field::Switch(&mut isla_vista(c)?.memory)),
        Range::Any,
        "the size at the last stall is approached slowly",
    ),
    key(
        "pressure",
        |c| choice(&mut isla_vista(c)?.pressure),
        Range::Any,
        "who is asked first whether memory is short; auto: whoever can tell best",
    ),
    key(
        "balance",
        |c| match &mut c.sizing {
            Sizing::Balanced(params) => Some(Field::Size(&mut params.balance)),
            _ => None,
        },
        Range::AtLeast(1),
        "what memory is worth: the inverse of its price",
    ),
    key("verify", |c| Some(Field::Switch(&mut c.verify)), Range::Any, "check the whole heap after each collection"),
    key(
        "verify-after",
        |c| Some(Field::Percent(&mut c.verify_after)),
        Range::Between(0.0, 1000.0),
        "under verify, check when so much of the heap's size has been allocated since the last check; 0: each time",
    ),
    key("stress", |c| Some(Field::Every(&mut c.stress)), Range::AtLeast(1), "collect at every N-th allocation"),
    key(
        "stress-polls",
        |c| Some(Field::Switch(&mut c.stress_polls)),
        Range::Any,
        "under stress, count loop iterations too",
    ),
    key(
        "stress-move",
        |c| Some(Field::Switch(&mut c.stress_move)),
        Range::Any,
        "move every object in each cycle, where references let objects move",
    ),
];

const fn key(
    name: &'static str,
    field: for<'a> fn(&'a mut HeapConfig) -> Option<Field<'a>>,
    range: Range,
    help: &'static str,
) -> Key {
    Key { name, field, range, help }
}

fn choice<T: Choice>(choice: &mut T) -> Option<Field<'_>> {
    Some(Field::Choice(choice))
}

fn zeroing(config: &mut HeapConfig) -> Option<Field<'_>> {
    let own = config.zeroing();
    choice(config.zeroing.get_or_insert(own))
}

fn generational(config: &mut HeapConfig) -> Option<&mut GenerationalParams> {
    if let Collector::Generational(params) = &mut config.collector { Some(params) } else { None }
}

/// The parameters of a collector that works in cycles.
fn cycles(config: &mut HeapConfig) -> Option<&mut CycleParams> {
    match &mut config.collector {
        Collector::Realtime(params) => Some(params),
        Collector::Generational(GenerationalParams { full: Full::Incremental(params), .. }) => Some(params),
        _ => None,
    }
}

fn handles(config: &mut HeapConfig) -> Option<&mut HandleParams> {
    config.references.plan().handles.map(|_| &mut config.handles)
}

pub(super) fn time(config: &mut HeapConfig) -> Option<&mut TimeParams> {
    if let Schedule::Time(params) = &mut cycles(config)?.schedule { Some(params) } else { None }
}

fn isla_vista(config: &mut HeapConfig) -> Option<&mut IslaVistaParams> {
    if let Sizing::IslaVista(params) = &mut config.sizing { Some(params) } else { None }
}

fn zrays(config: &mut HeapConfig) -> Option<&mut ZRayParams> {
    if let Arrays::ZRays(params) = &mut config.arrays { Some(params) } else { None }
}

fn mapped(config: &mut HeapConfig) -> Option<&mut MappedParams> {
    if let Arrays::Mapped(params) = &mut config.arrays { Some(params) } else { None }
}

fn lazy(config: &mut HeapConfig) -> Option<Field<'_>> {
    let lazy = config.spines()?.lazy;
    match &mut config.arrays {
        Arrays::Arraylets(params) => Some(Field::Switch(&mut params.lazy)),
        Arrays::ZRays(params) => Some(Field::Switch(params.lazy.get_or_insert(lazy))),
        _ => None,
    }
}

fn first_n_grows(config: &mut HeapConfig) -> Option<Field<'_>> {
    let grows = config.spines()?.layout.grows;
    Some(Field::Switch(zrays(config)?.first_n_grows.get_or_insert(grows)))
}

impl Key {
    /// The key's value in a configuration, as [`parse`](Self::parse) takes it; `None` where it has no such parameter.
    pub(super) fn text(&self, config: &HeapConfig) -> Option<String> {
        (self.field)(&mut config.bare()).map(|field| field.text())
    }

    /// Sets the key's value in a configuration; does nothing where it has no such parameter.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] where the value is written wrong.
    pub(super) fn parse(&self, config: &mut HeapConfig, value: &str) -> Result<(), HeapError> {
        let parsed = (self.field)(config).map_or(Ok(()), |mut field| field.parse(value));
        parsed.map_err(|wanted| HeapError::invalid(format!("{} is '{value}', but must be {wanted}", self.name)))
    }

    /// Checks the key's value in a configuration by itself.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] with one sentence.
    pub(super) fn validate(&self, config: &HeapConfig) -> Result<(), HeapError> {
        match (self.field)(&mut config.bare()) {
            Some(field) if !self.range.contains(&field) => {
                let wanted = self.range.wanted(&field);
                Err(HeapError::invalid(format!("{} is {}, but must be {wanted}", self.name, field.text())))
            }
            _ => Ok(()),
        }
    }

    /// The axis that the parameter belongs to, and the names of its values that have it; `None` where every heap has.
    pub(super) fn owners(&self) -> Option<&'static Owners> {
        OWNERS.get(self.name)
    }

    fn find_owners(&self) -> Option<Owners> {
        AXES.iter().find_map(|axis| {
            let names = axis.names();
            let owns = |name: &&str| self.text(&axis.with(name)).is_some();
            let owners: Vec<_> = names.iter().copied().filter(owns).collect();
            (!owners.is_empty() && owners.len() < names.len()).then_some((axis, owners))
        })
    }

    /// A default configuration for each value that the parameter belongs to.
    pub(super) fn samples(&self) -> Vec<(&'static str, HeapConfig)> {
        match self.owners() {
            Some((axis, owners)) => owners.iter().map(|owner| (*owner, axis.with(owner))).collect(),
            None => vec![("", HeapConfig::default())],
        }
    }

    /// How values are written, and what they must be.
    pub(super) fn form(&self) -> (String, String) {
        let form = self.samples().first_mut().and_then(|(_, config)| (self.field)(config).map(|field| field.form()));
        (form.unwrap_or_default(), self.range.to_string())
    }

    /// The names of an axis's values.
    pub(super) fn names(&self) -> Vec<&'static str> {
        match (self.field)(&mut HeapConfig::default()) {
            Some(Field::Choice(choice)) => choice.names(),
            _ => Vec::new(),
        }
    }

    /// The default configuration with one value of an axis.
    pub(super) fn with(&self, name: &str) -> HeapConfig {
        let mut config = HeapConfig::default();
        if let Some(Field::Choice(choice)) = (self.field)(&mut config) {
            choice.choose(name);
        }
        config
    }
}
