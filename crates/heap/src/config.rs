//! The configuration of a heap: one field for each axis, and the parameters.

use crate::blocks::{BLOCK_BYTES, MAX_HEAP_BYTES};
use crate::cage::NULL_GUARD_BYTES;
use crate::collector::Collector;
use crate::error::HeapError;
use crate::plan::{AccessPlan, AllocationPlan, ArrayPlan, BarrierPlan, MutatorContext, ReferencePlan};
use crate::references::References;
use crate::size_classes;

/// How a heap works. Fill the fields you care about over `HeapConfig::default()`.
#[derive(Clone, PartialEq, Debug)]
pub struct HeapConfig {
    /// Axis `collector`.
    pub collector: Collector,
    /// Axis `references`.
    pub references: References,
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
            collector: Collector::MarkSweep,
            references: References::Direct,
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
        if self.stress == Some(0) {
            return invalid("stress is 0, but it says at every how many allocations to collect".to_string());
        }
        if self.stress_polls && self.stress.is_none() {
            return invalid("stress-polls is on, but stress is not set".to_string());
        }
        Ok(())
    }

    /// Sets one parameter by name, as given on a command line: `collector`, `references`, `max`, `min` (bytes, with an optional
    /// suffix K, M or G), `growth`, `verify` (on, off), `stress` (a count, or off), `stress-polls` (on, off).
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] where the key or value is unknown. Combinations are left to [`validate`](Self::validate).
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), HeapError> {
        match key {
            "collector" => self.collector = choice(key, value, Collector::ALL, Collector::name)?,
            "references" => self.references = choice(key, value, References::ALL, References::name)?,
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
                let known = "collector, references, max, min, growth, verify, stress, stress-polls";
                return Err(HeapError::InvalidConfig(format!("unknown key '{key}'; known are {known}")));
            }
        }
        Ok(())
    }

    /// What a code generator must know. Depends on the axes alone, so that code compiled for one heap runs on every heap of
    /// an equal plan.
    pub fn access_plan(&self) -> AccessPlan {
        let references = match self.references {
            References::Direct => ReferencePlan::Direct,
            References::ThinHandles => ReferencePlan::ThinHandles,
        };
        AccessPlan {
            references,
            arrays: ArrayPlan::Contiguous,
            allocation: AllocationPlan {
                cell_bytes: size_classes::cell_bytes().to_vec(),
                runs_offset: MutatorContext::RUNS_OFFSET,
                cells_are_zero: true,
                handle_run_offset: match references {
                    ReferencePlan::Direct => None,
                    ReferencePlan::ThinHandles => Some(MutatorContext::HANDLE_RUN_OFFSET),
                },
            },
            store_barrier: BarrierPlan::None,
            references_change_at_safepoints: false,
            null_guard_bytes: NULL_GUARD_BYTES,
        }
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
            HeapConfig { growth: f64::NAN, ..config.clone() },
            HeapConfig { stress: Some(0), ..config.clone() },
            HeapConfig { stress_polls: true, ..config.clone() },
        ]
        .map(|config| config.validate().unwrap_err().to_string());
        assert!(sentences.iter().all(|sentence| sentence.starts_with("invalid heap configuration")), "{sentences:?}");
    }
}
