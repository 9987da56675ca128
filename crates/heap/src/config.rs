//! The configuration of a heap: one field for each axis, and the parameters.

use crate::blocks::{BLOCK_BYTES, MAX_HEAP_BYTES};
use crate::cage::NULL_GUARD_BYTES;
use crate::cards::{CARD_LOG2, CARD_TABLE_BELOW};
use crate::collector::Collector;
use crate::collector::generational::{AGE_TABLE_BELOW, Barrier, GenerationalParams, Nursery};
use crate::error::HeapError;
use crate::plan::{AccessPlan, AllocationPlan, ArrayPlan, BarrierPlan, MutatorContext, ReferencePlan, RememberedPlan};
use crate::references::References;
use crate::size_classes::{self, MAX_SMALL_BYTES};
use crate::sizing::Sizing;
use crate::zeroing::{Zeroing, ZeroingParams};

/// How a heap works. Fill the fields you care about over `HeapConfig::default()`.
#[derive(Clone, PartialEq, Debug)]
pub struct HeapConfig {
    /// Axis `collector`.
    pub collector: Collector,
    /// Axis `references`.
    pub references: References,
    /// Axis `zeroing`. `None` is the collector's own: `bulk` for mark-sweep, which takes no other.
    pub zeroing: Option<Zeroing>,
    /// Axis `sizing`.
    pub sizing: Sizing,
    /// Parameters of `generational`.
    pub generational: GenerationalParams,
    /// Parameters of `zeroing`.
    pub zeroing_params: ZeroingParams,
    /// The most memory that objects, handles and immortal records may take, in bytes. Exhaustion is an
    /// [`AllocationError`](crate::AllocationError).
    pub max_bytes: u64,
    /// No collection starts by itself below this size, in bytes; a smaller `max_bytes` takes its place.
    pub min_bytes: u64,
    /// After a collection, the next one starts when the heap is this many times the size of what survived.
    pub growth: f64,
    /// Walk and check the whole heap after each collection (before it, too, under `stress`). Panics where an
    /// invariant is broken. Cells of dead objects are cleared at once, so that a reference that the roots missed
    /// shows soon.
    pub verify: bool,
    /// Collect at every n-th allocation or poll. Allocation then always takes the slow path.
    pub stress: Option<u32>,
    /// Under `stress`: keep the poll word raised, so that loop back-edges count too.
    pub stress_polls: bool,
}

impl Default for HeapConfig {
    fn default() -> HeapConfig {
        HeapConfig {
            collector: Collector::Generational,
            references: References::Direct,
            zeroing: None,
            sizing: Sizing::GcRatio,
            generational: GenerationalParams::default(),
            zeroing_params: ZeroingParams::default(),
            max_bytes: 2 << 30,
            min_bytes: 16 << 20,
            growth: 2.0,
            verify: false,
            stress: None,
            stress_polls: false,
        }
    }
}

/// The smallest maximum: some blocks for different sizes, handles and records.
const MIN_MAX_BYTES: u64 = 8 * BLOCK_BYTES as u64;
/// The smallest nursery: a block to allocate in, and one to go on in.
const MIN_NURSERY_BYTES: u64 = 2 * BLOCK_BYTES as u64;

impl HeapConfig {
    /// Checks the combination.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] with one sentence.
    pub fn validate(&self) -> Result<(), HeapError> {
        let invalid = |sentence: String| Err(HeapError::InvalidConfig(sentence));
        if self.max_bytes < MIN_MAX_BYTES {
            return invalid(format!("max is {} bytes, but a heap needs at least {MIN_MAX_BYTES}", self.max_bytes));
        }
        if self.max_bytes > 4 << 30 {
            return invalid(format!("max is {} bytes, but 32-bit references reach 4G alone", self.max_bytes));
        }
        if !(1.05..=100.0).contains(&self.growth) {
            return invalid(format!("growth is {}, but it must lie between 1.05 and 100", self.growth));
        }
        if self.collector == Collector::Generational && self.references != References::Direct {
            return invalid(format!(
                "collector=generational moves objects and takes references=direct alone: for {} add collector=mark-sweep",
                self.references.name()
            ));
        }
        if let (Collector::MarkSweep, Some(zeroing)) = (self.collector, self.zeroing)
            && zeroing != Zeroing::Bulk
        {
            let name = zeroing.name();
            return invalid(format!(
                "collector=mark-sweep zeroes what it sweeps and takes zeroing=bulk alone, not {name}"
            ));
        }
        if let Nursery::Fixed(bytes) = self.generational.nursery
            && bytes < MIN_NURSERY_BYTES
        {
            return invalid(format!("nursery is {bytes} bytes, but needs at least {MIN_NURSERY_BYTES}"));
        }
        if self.generational.aging > 90 {
            return invalid(format!("aging is {} percent, but must be at most 90", self.generational.aging));
        }
        self.zeroing_params.validate()?;
        if self.stress == Some(0) {
            return invalid("stress is 0, but it says at every how many allocations to collect".to_string());
        }
        if self.stress_polls && self.stress.is_none() {
            return invalid("stress-polls is on, but stress is not set".to_string());
        }
        Ok(())
    }

    /// Sets one parameter by name, as given on a command line: `collector`, `references`, `zeroing`, `sizing`, `nursery` (bytes, or
    /// `appel`), `aging` (percent), `barrier`, `zeroing-unit`, `zeroing-width` (bytes), `max`, `min` (bytes, with an optional suffix K,
    /// M or G), `growth`, `verify` (on, off), `stress` (a count, or off), `stress-polls` (on, off).
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] where the key or value is unknown. Combinations are left to [`validate`](Self::validate).
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), HeapError> {
        match key {
            "collector" => self.collector = choice(key, value, Collector::ALL, Collector::name)?,
            "references" => self.references = choice(key, value, References::ALL, References::name)?,
            "zeroing" => self.zeroing = Some(choice(key, value, Zeroing::ALL, Zeroing::name)?),
            "sizing" => self.sizing = choice(key, value, Sizing::ALL, Sizing::name)?,
            "nursery" if value == "appel" => self.generational.nursery = Nursery::Appel,
            "nursery" => self.generational.nursery = Nursery::Fixed(size(key, value)?),
            "aging" => match value.parse() {
                Ok(percent) => self.generational.aging = percent,
                Err(_) => return Err(bad(key, value, "a number of percent such as 25")),
            },
            "barrier" => self.generational.barrier = choice(key, value, Barrier::ALL, Barrier::name)?,
            "zeroing-unit" => self.zeroing_params.unit_bytes = small_size(key, value)?,
            "zeroing-width" => self.zeroing_params.stream_bytes = small_size(key, value)?,
            "max" => self.max_bytes = size(key, value)?,
            "min" => self.min_bytes = size(key, value)?,
            "growth" => match value.parse() {
                Ok(growth) => self.growth = growth,
                Err(_) => return Err(bad(key, value, "a number such as 1.8")),
            },
            "verify" => self.verify = switch(key, value)?,
            "stress" if value == "off" => self.stress = None,
            "stress" => match value.parse() {
                Ok(every) => self.stress = Some(every),
                Err(_) => return Err(bad(key, value, "a count, or off")),
            },
            "stress-polls" => self.stress_polls = switch(key, value)?,
            _ => {
                let known = "collector, references, zeroing, sizing, nursery, aging, barrier, zeroing-unit, zeroing-width, \
                             max, min, growth, verify, stress, stress-polls";
                return Err(HeapError::InvalidConfig(format!("unknown key '{key}'; known are {known}")));
            }
        }
        Ok(())
    }

    /// Every parameter that has a say in this configuration, by name and as [`set`](Self::set) takes it.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        // Named one by one, so that no new field is forgotten.
        let HeapConfig {
            collector,
            references,
            zeroing: _,
            sizing,
            generational: GenerationalParams { nursery, aging, barrier },
            zeroing_params: ZeroingParams { unit_bytes, stream_bytes },
            max_bytes,
            min_bytes,
            growth,
            verify,
            stress,
            stress_polls,
        } = self;
        let on_off = |on: &bool| if *on { "on" } else { "off" }.to_string();
        let mut settings = vec![
            ("collector", collector.name().to_string()),
            ("references", references.name().to_string()),
            ("zeroing", self.zeroing().name().to_string()),
            ("sizing", sizing.name().to_string()),
        ];
        if *collector == Collector::Generational {
            let nursery = match nursery {
                Nursery::Fixed(bytes) => size_text(*bytes),
                Nursery::Appel => "appel".to_string(),
            };
            settings.extend([
                ("nursery", nursery),
                ("aging", aging.to_string()),
                ("barrier", barrier.name().to_string()),
                ("zeroing-unit", size_text((*unit_bytes).into())),
                ("zeroing-width", size_text((*stream_bytes).into())),
            ]);
        }
        settings.extend([
            ("max", size_text(*max_bytes)),
            ("min", size_text(*min_bytes)),
            ("growth", growth.to_string()),
            ("verify", on_off(verify)),
            ("stress", stress.map_or("off".to_string(), |every| every.to_string())),
            ("stress-polls", on_off(stress_polls)),
        ]);
        settings
    }

    /// What a code generator must know. Depends on the axes alone, so that code compiled for one heap runs on every heap of
    /// an equal plan.
    pub fn access_plan(&self) -> AccessPlan {
        let references = match self.references {
            References::Direct => ReferencePlan::Direct,
            References::ThinHandles => ReferencePlan::ThinHandles,
        };
        let allocation = match self.collector {
            Collector::MarkSweep => AllocationPlan::SizeClasses {
                cell_bytes: size_classes::cell_bytes().to_vec(),
                runs_offset: MutatorContext::RUNS_OFFSET,
                handle_run_offset: match references {
                    ReferencePlan::Direct => None,
                    ReferencePlan::ThinHandles => Some(MutatorContext::HANDLE_RUN_OFFSET),
                },
            },
            Collector::Generational => {
                AllocationPlan::Bump { run_offset: MutatorContext::RUNS_OFFSET, max_bytes: MAX_SMALL_BYTES }
            }
        };
        let remembered = RememberedPlan {
            ages_below: AGE_TABLE_BELOW,
            block_log2: BLOCK_BYTES.trailing_zeros() as u8,
            cards_below: CARD_TABLE_BELOW,
            card_log2: CARD_LOG2,
        };
        let store_barrier = match (self.collector, self.generational.barrier) {
            (Collector::MarkSweep, _) => BarrierPlan::None,
            (Collector::Generational, Barrier::Cards) => BarrierPlan::Cards(remembered),
            (Collector::Generational, Barrier::StoreBuffer) => {
                BarrierPlan::StoreBuffer(remembered, MutatorContext::STORE_BUFFER_OFFSET)
            }
        };
        AccessPlan {
            references,
            arrays: ArrayPlan::Contiguous,
            allocation,
            fresh_memory_is_zero: self.zeroing() != Zeroing::HotPath,
            store_barrier,
            references_change_at_safepoints: self.collector == Collector::Generational,
            null_guard_bytes: NULL_GUARD_BYTES,
        }
    }

    /// The zeroing strategy: the one asked for, or the collector's own.
    pub fn zeroing(&self) -> Zeroing {
        self.zeroing.unwrap_or(match self.collector {
            Collector::MarkSweep => Zeroing::Bulk,
            Collector::Generational => Zeroing::HotPath,
        })
    }

    /// The usable maximum: `max_bytes`, or what the cage holds.
    pub(crate) fn maximum(&self) -> u64 {
        self.max_bytes.min(MAX_HEAP_BYTES)
    }
}

fn bad(key: &str, value: &str, wanted: &str) -> HeapError {
    HeapError::InvalidConfig(format!("{key} is '{value}', but must be {wanted}"))
}

fn choice<T: Copy>(key: &str, value: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, HeapError> {
    let found = all.iter().copied().find(|&one| name(one) == value);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&one| name(one)).collect();
        bad(key, value, &names.join(" or "))
    })
}

fn small_size(key: &str, value: &str) -> Result<u32, HeapError> {
    let bytes = size(key, value)?;
    u32::try_from(bytes).map_err(|_| bad(key, value, "less than 4G"))
}

fn switch(key: &str, value: &str) -> Result<bool, HeapError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(bad(key, value, "on or off")),
    }
}

fn size(key: &str, value: &str) -> Result<u64, HeapError> {
    let wanted = "a size in bytes such as 65536, 512M or 1.5G";
    let (digits, shift) = match value.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&value[..at], 10),
        Some((at, 'm' | 'M')) => (&value[..at], 20),
        Some((at, 'g' | 'G')) => (&value[..at], 30),
        _ => (value, 0),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(|| bad(key, value, wanted));
    }
    match digits.parse::<f64>() {
        Ok(number) if shift > 0 && (0.0..1e9).contains(&number) => Ok((number * (1u64 << shift) as f64) as u64),
        _ => Err(bad(key, value, wanted)),
    }
}

/// A size with the largest suffix that leaves it whole.
fn size_text(bytes: u64) -> String {
    let suffixes = [(30, "G"), (20, "M"), (10, "K")];
    match suffixes.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, suffix)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_by_name() {
        let mut config = HeapConfig::default();
        for (key, value) in [
            ("collector", "mark-sweep"),
            ("references", "thin-handles"),
            ("max", "512M"),
            ("min", "1.5m"),
            ("zeroing", "bulk"),
            ("sizing", "fixed"),
            ("nursery", "2M"),
            ("aging", "25"),
            ("barrier", "store-buffer"),
            ("zeroing-unit", "8K"),
            ("zeroing-width", "32"),
            ("growth", "1.8"),
            ("verify", "on"),
            ("stress", "7"),
            ("stress-polls", "on"),
        ] {
            config.set(key, value).unwrap();
        }
        let expected = HeapConfig {
            collector: Collector::MarkSweep,
            references: References::ThinHandles,
            zeroing: Some(Zeroing::Bulk),
            sizing: Sizing::Fixed,
            generational: GenerationalParams {
                nursery: Nursery::Fixed(2 << 20),
                aging: 25,
                barrier: Barrier::StoreBuffer,
            },
            zeroing_params: ZeroingParams { unit_bytes: 8 << 10, stream_bytes: 32 },
            max_bytes: 512 << 20,
            min_bytes: 3 << 19,
            growth: 1.8,
            verify: true,
            stress: Some(7),
            stress_polls: true,
        };
        assert_eq!(config, expected);
        config.validate().unwrap();
    }

    #[test]
    fn settings_say_all_that_matters() {
        let unusual = HeapConfig {
            collector: Collector::Generational,
            references: References::Direct,
            zeroing: Some(Zeroing::Adaptive),
            sizing: Sizing::Fixed,
            generational: GenerationalParams {
                nursery: Nursery::Fixed(3 << 19),
                aging: 25,
                barrier: Barrier::StoreBuffer,
            },
            zeroing_params: ZeroingParams { unit_bytes: 8 << 10, stream_bytes: 32 },
            max_bytes: 3 << 30,
            min_bytes: 1_000_001,
            growth: 1.8,
            verify: true,
            stress: Some(7),
            stress_polls: true,
        };
        let appel = HeapConfig {
            generational: GenerationalParams { nursery: Nursery::Appel, ..unusual.generational },
            ..unusual.clone()
        };
        for config in [unusual, appel, HeapConfig { zeroing: Some(Zeroing::Bulk), ..HeapConfig::default() }] {
            let mut again = HeapConfig::default();
            for (key, value) in config.settings() {
                again.set(key, &value).unwrap();
            }
            assert_eq!(again, config);
        }
    }

    #[test]
    fn a_small_maximum_needs_no_other_parameter() {
        let mut config = HeapConfig::default();
        config.set("max", "1M").unwrap();
        config.validate().unwrap();
        assert!(config.min_bytes > config.max_bytes);
    }

    #[test]
    fn wrong_parameters_are_explained() {
        let mut config = HeapConfig::default();
        for (key, value, says) in [
            ("colector", "x", "unknown key"),
            ("collector", "x", "mark-sweep"),
            ("references", "brooks", "direct or thin-handles"),
            ("max", "12Q", "a size"),
            ("max", "99999999999999G", "a size"),
            ("max", "", "a size"),
            ("growth", "fast", "a number"),
            ("verify", "yes", "on or off"),
        ] {
            let error = config.set(key, value).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let sentences = [
            HeapConfig { max_bytes: 1, ..config.clone() },
            HeapConfig { max_bytes: 5 << 30, ..config.clone() },
            HeapConfig {
                collector: Collector::Generational,
                references: References::ThinHandles,
                ..HeapConfig::default()
            },
            HeapConfig { collector: Collector::MarkSweep, zeroing: Some(Zeroing::Concurrent), ..HeapConfig::default() },
            HeapConfig { growth: f64::NAN, ..config.clone() },
            HeapConfig { stress: Some(0), ..config.clone() },
            HeapConfig { stress_polls: true, ..config.clone() },
        ]
        .map(|config| config.validate().unwrap_err().to_string());
        assert!(sentences.iter().all(|sentence| sentence.starts_with("invalid heap configuration")), "{sentences:?}");
    }
}
