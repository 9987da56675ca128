//! Parameters by name, as on a command line, and back.

use super::HeapConfig;
use super::text::size_text;
use crate::arrays::Arrays;
use crate::collector::Collector;
use crate::collector::generational::params::{Barrier, GenerationalParams, Nursery};
use crate::error::HeapError;
use crate::references::References;
use crate::sizing::Sizing;
use crate::views::{NativeViews, ViewCreation};
use crate::zeroing::{Zeroing, ZeroingParams};

impl HeapConfig {
    /// Sets one parameter by name, as given on a command line: `collector`, `references`, `arrays`, `native-views`,
    /// `zeroing`, `sizing`, `nursery` (bytes, or `appel`), `aging` (percent), `barrier`, `zeroing-unit`,
    /// `zeroing-width` (bytes), `leaf`, `first-n` (bytes), `first-n-grows`, `lazy`, `zero-compression`, `fast-copy`,
    /// `copy-on-write` (on, off), `mapped-from` (bytes), `mapped-sharing` (on, off), `view-creation`, `count-accesses`
    /// (on, off), `max`, `min` (bytes, with an optional suffix K, M or G), `growth`, `verify` (on, off), `stress` (a
    /// count, or off), `stress-polls` (on, off).
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] where the key or value is unknown. Combinations are left to
    /// [`validate`](Self::validate).
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), HeapError> {
        match key {
            "collector" => self.collector = choice(key, value, Collector::ALL, Collector::name)?,
            "references" => self.references = choice(key, value, References::ALL, References::name)?,
            "arrays" => self.arrays = choice(key, value, Arrays::ALL, Arrays::name)?,
            "native-views" => self.native_views = choice(key, value, NativeViews::ALL, NativeViews::name)?,
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
            "leaf" => self.array_params.leaf_bytes = small_size(key, value)?,
            "first-n" => self.array_params.first_n = small_size(key, value)?,
            "first-n-grows" => self.array_params.first_n_grows = Some(switch(key, value)?),
            "lazy" => self.array_params.lazy = Some(switch(key, value)?),
            "zero-compression" => self.array_params.zero_compression = switch(key, value)?,
            "fast-copy" => self.array_params.fast_copy = switch(key, value)?,
            "copy-on-write" => self.array_params.copy_on_write = switch(key, value)?,
            "mapped-from" => self.array_params.mapped_from = small_size(key, value)?,
            "mapped-sharing" => self.array_params.mapped_sharing = switch(key, value)?,
            "view-creation" => {
                self.array_params.view_creation = choice(key, value, ViewCreation::ALL, ViewCreation::name)?;
            }
            "count-accesses" => self.count_accesses = switch(key, value)?,
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
                let known = "collector, references, arrays, native-views, zeroing, sizing, nursery, aging, barrier, \
                             zeroing-unit, zeroing-width, leaf, first-n, first-n-grows, lazy, zero-compression, fast-copy, copy-on-write, \
                             mapped-from, mapped-sharing, view-creation, count-accesses, max, min, growth, verify, stress, \
                             stress-polls";
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
            arrays,
            native_views,
            zeroing: _,
            sizing,
            generational: GenerationalParams { nursery, aging, barrier },
            zeroing_params: ZeroingParams { unit_bytes, stream_bytes },
            array_params,
            count_accesses,
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
            ("arrays", arrays.name().to_string()),
            ("native-views", native_views.name().to_string()),
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
        settings.extend(array_params.settings(*arrays, *native_views, *references));
        settings.extend([
            ("count-accesses", on_off(count_accesses)),
            ("max", size_text(*max_bytes)),
            ("min", size_text(*min_bytes)),
            ("growth", growth.to_string()),
            ("verify", on_off(verify)),
            ("stress", stress.map_or("off".to_string(), |every| every.to_string())),
            ("stress-polls", on_off(stress_polls)),
        ]);
        settings
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::ArrayParams;

    #[test]
    fn parameters_are_set_by_name() {
        let mut config = HeapConfig::default();
        for (key, value) in [
            ("collector", "mark-sweep"),
            ("references", "thin-handles"),
            ("arrays", "zrays"),
            ("native-views", "copy"),
            ("leaf", "2K"),
            ("first-n", "256"),
            ("first-n-grows", "off"),
            ("lazy", "off"),
            ("zero-compression", "off"),
            ("fast-copy", "off"),
            ("copy-on-write", "on"),
            ("mapped-from", "1M"),
            ("mapped-sharing", "off"),
            ("view-creation", "allocation"),
            ("count-accesses", "on"),
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
            arrays: Arrays::ZRays,
            native_views: NativeViews::Copy,
            zeroing: Some(Zeroing::Bulk),
            sizing: Sizing::Fixed,
            generational: GenerationalParams {
                nursery: Nursery::Fixed(2 << 20),
                aging: 25,
                barrier: Barrier::StoreBuffer,
            },
            zeroing_params: ZeroingParams { unit_bytes: 8 << 10, stream_bytes: 32 },
            array_params: ArrayParams {
                leaf_bytes: 2 << 10,
                first_n: 256,
                first_n_grows: Some(false),
                lazy: Some(false),
                zero_compression: false,
                fast_copy: false,
                copy_on_write: true,
                mapped_from: 1 << 20,
                mapped_sharing: false,
                view_creation: ViewCreation::Allocation,
            },
            count_accesses: true,
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
            arrays: Arrays::ZRays,
            native_views: NativeViews::DoubleMap,
            zeroing: Some(Zeroing::Adaptive),
            sizing: Sizing::Fixed,
            generational: GenerationalParams {
                nursery: Nursery::Fixed(3 << 19),
                aging: 25,
                barrier: Barrier::StoreBuffer,
            },
            zeroing_params: ZeroingParams { unit_bytes: 8 << 10, stream_bytes: 32 },
            array_params: ArrayParams {
                leaf_bytes: 64 << 10,
                first_n: 0,
                first_n_grows: Some(false),
                lazy: Some(false),
                zero_compression: false,
                fast_copy: false,
                copy_on_write: true,
                view_creation: ViewCreation::Allocation,
                ..ArrayParams::default()
            },
            count_accesses: true,
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
        let mapped = HeapConfig {
            zeroing: Some(Zeroing::HotPath),
            arrays: Arrays::Mapped,
            array_params: ArrayParams { mapped_from: 1 << 20, mapped_sharing: false, ..ArrayParams::default() },
            ..HeapConfig::default()
        };
        for config in [unusual, appel, mapped, HeapConfig { zeroing: Some(Zeroing::Bulk), ..HeapConfig::default() }] {
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
            ("arrays", "tree", "contiguous or arraylets or zrays or mapped"),
            ("lazy", "maybe", "on or off"),
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
            HeapConfig { array_params: ArrayParams { leaf_bytes: 3000, ..ArrayParams::default() }, ..config.clone() },
            HeapConfig { array_params: ArrayParams { first_n: 32, ..ArrayParams::default() }, ..config.clone() },
            HeapConfig { array_params: ArrayParams { mapped_from: 1, ..ArrayParams::default() }, ..config.clone() },
            HeapConfig { arrays: Arrays::Arraylets, native_views: NativeViews::DoubleMap, ..config.clone() },
            HeapConfig {
                arrays: Arrays::Arraylets,
                array_params: ArrayParams { leaf_bytes: 1 << 20, ..ArrayParams::default() },
                max_bytes: 3 << 20,
                ..config.clone()
            },
            HeapConfig {
                arrays: Arrays::ZRays,
                native_views: NativeViews::DoubleMap,
                array_params: ArrayParams { leaf_bytes: 1 << 16, ..ArrayParams::default() },
                ..config.clone()
            },
            HeapConfig {
                arrays: Arrays::Arraylets,
                native_views: NativeViews::DoubleMap,
                array_params: ArrayParams {
                    leaf_bytes: 1 << 16,
                    lazy: Some(true),
                    view_creation: ViewCreation::Allocation,
                    ..ArrayParams::default()
                },
                ..config.clone()
            },
        ]
        .map(|config| config.validate().unwrap_err().to_string());
        assert!(sentences.iter().all(|sentence| sentence.starts_with("invalid heap configuration")), "{sentences:?}");
    }
}
