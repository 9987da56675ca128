//! Keys and combinations.

use super::keys::{AXES, PARAMETERS};
use super::*;
use crate::arrays::{ArrayletParams, MappedParams, ZRayParams};
use crate::collector::generational::{Barrier, Full, Nursery};
use crate::collector::schedule::{CycleParams, Defragment, Helpers, Schedule, TimeParams, Trigger};
use crate::pressure::Signal;
use crate::references::handle_policies::{HandleCache, HandleOrder, HandleRelease};
use crate::sizing::{BalancedParams, IslaVistaParams};
use crate::views::{DoubleMapParams, ViewCreation};
use crate::zeroing::{ConcurrentParams, NonTemporalParams};

fn set(settings: &[(&str, &str)]) -> HeapConfig {
    let mut config = HeapConfig::default();
    settings.iter().for_each(|(key, value)| config.set(key, value).unwrap());
    config
}

/// A valid configuration besides the default, for each value of an axis at least one, and other values for every
/// parameter than the defaults.
fn unusual() -> [HeapConfig; 6] {
    let generational = HeapConfig {
        collector: Collector::Generational(GenerationalParams {
            nursery: Nursery::Fixed(3 << 19),
            nursery_pause: 0,
            aging: 25,
            barrier: Barrier::Cards,
            full: Full::Incremental(CycleParams { schedule: Schedule::Work, ..CycleParams::DEFAULT }),
        }),
        references: References::Direct,
        handles: HandleParams::DEFAULT,
        arrays: Arrays::ZRays(ZRayParams {
            leaf_bytes: 64 << 10,
            first_n: 0,
            first_n_grows: Some(false),
            lazy: Some(false),
            zero_compression: false,
            fast_copy: false,
            copy_on_write: true,
        }),
        native_views: NativeViews::DoubleMap(DoubleMapParams { creation: ViewCreation::Allocation }),
        zeroing: Some(Zeroing::Adaptive(ConcurrentParams { unit_bytes: 8 << 10, stream_bytes: 32 })),
        sizing: Sizing::GcRatio(GcRatioParams { growth: 1.8 }),
        count_accesses: true,
        huge_pages: false,
        max_bytes: Some(3 << 30),
        min_bytes: 1_000_001,
        verify: true,
        verify_after: 30,
        stress: Some(7),
        stress_polls: true,
        stress_move: false,
        given: Given::default(),
    };
    let appel = GenerationalParams { nursery: Nursery::Appel, nursery_pause: 1500, ..GenerationalParams::DEFAULT };
    let appel = HeapConfig {
        collector: Collector::Generational(appel),
        arrays: Arrays::Mapped(MappedParams { from: 1 << 20, sharing: false }),
        zeroing: Some(Zeroing::Concurrent(ConcurrentParams { unit_bytes: 4 << 10, stream_bytes: 8 })),
        sizing: Sizing::Fixed,
        ..HeapConfig::default()
    };
    let time = TimeParams { quantum: 2500, utilisation: 55, window: 20_000 };
    let in_time = CycleParams {
        schedule: Schedule::Time(time),
        trigger: Trigger::Half,
        helpers: Helpers::One,
        defragment: Defragment::Eager,
    };
    let realtime = HeapConfig {
        collector: Collector::Realtime(in_time),
        references: References::UniHandles,
        handles: HandleParams {
            release: HandleRelease::WithCells,
            order: HandleOrder::Fullest,
            cache: HandleCache::Some,
        },
        zeroing: Some(Zeroing::Bulk),
        stress_move: true,
        ..HeapConfig::default()
    };
    let streaming = HeapConfig {
        collector: Collector::Generational(GenerationalParams { full: Full::Stop, ..GenerationalParams::DEFAULT }),
        arrays: Arrays::Arraylets(ArrayletParams { leaf_bytes: 2 << 10, lazy: true }),
        zeroing: Some(Zeroing::NonTemporal(NonTemporalParams { stream_bytes: 8 })),
        ..HeapConfig::default()
    };
    let mark_sweep = HeapConfig {
        collector: Collector::MarkSweep,
        references: References::ThinHandles,
        zeroing: Some(Zeroing::Bulk),
        sizing: Sizing::Balanced(BalancedParams { balance: 64 << 20 }),
        ..HeapConfig::default()
    };
    let feedback = IslaVistaParams { grow: 0.05, shrink: 0.5, recover: true, memory: true, pressure: Signal::Reclaim };
    let isla_vista =
        HeapConfig { sizing: Sizing::IslaVista(feedback), zeroing: Some(Zeroing::Bulk), ..HeapConfig::default() };
    [generational, appel, streaming, realtime, mark_sweep, isla_vista]
}

#[test]
fn every_key_says_what_it_sets() {
    let mut seen = Vec::new();
    for config in unusual() {
        config.validate().unwrap();
        for settings in [config.settings(), config.settings().into_iter().rev().collect()] {
            let mut again = HeapConfig::default();
            settings.iter().for_each(|(key, value)| again.set(key, value).unwrap());
            assert_eq!(again, config, "{settings:?}");
            again.validate().unwrap();
        }
        seen.extend(config.settings());
    }
    for key in AXES.iter().chain(PARAMETERS) {
        for (_, sample) in key.samples() {
            let (value, mut again) = (key.text(&sample).unwrap(), sample.clone());
            key.parse(&mut again, &value).unwrap();
            assert_eq!(key.text(&again), Some(value.clone()), "{}", key.name);
            key.validate(&sample).unwrap();
            let differs = |(seen, other): &(_, String)| *seen == key.name && *other != value;
            assert!(seen.iter().any(differs), "{} is never anything but {value}", key.name);
        }
    }
}

#[test]
fn the_help_has_every_key_and_value() {
    let help = HeapConfig::help();
    for key in AXES.iter().chain(PARAMETERS) {
        let line = help.lines().find(|line| line.starts_with(&format!("  {}=", key.name)));
        let line = line.unwrap_or_else(|| panic!("{} is not in the help", key.name));
        key.names().iter().for_each(|name| assert!(line.contains(name), "{name} is not in {line}"));
    }
    assert!(help.lines().all(|line| line.len() <= 100), "{help}");
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = |line: &str| assert!(words.contains(line), "{line} is not in\n{help}");
    says("leaf=SIZE arraylets, zrays: bytes of a leaf, a power of two from 256 to 1M [1K]");
    says("lazy=on|off arraylets, zrays: allocate a leaf when it is first stored to [arraylets off, zrays on]");
    says("max=SIZE|auto most memory for objects, handles and immortal records; auto: what the machine allows");
    says("[direct], brooks with realtime, replicating with realtime, thin-handles with mark-sweep or realtime");
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let config = set(&[("leaf", "2K"), ("arrays", "arraylets"), ("lazy", "on")]);
    assert_eq!(config.arrays, Arrays::Arraylets(ArrayletParams { leaf_bytes: 2 << 10, lazy: true }));
    let again =
        set(&[("lazy", "on"), ("arrays", "contiguous"), ("leaf", "4K"), ("arrays", "arraylets"), ("leaf", "2K")]);
    assert_eq!(config, again);
    let zrays = set(&[("arrays", "arraylets"), ("leaf", "2K"), ("arrays", "zrays")]);
    assert_eq!(zrays.arrays, Arrays::ZRays(ZRayParams { leaf_bytes: 2 << 10, ..ZRayParams::DEFAULT }));
    let mut filled = HeapConfig { arrays: zrays.arrays, ..HeapConfig::default() };
    filled.set("arrays", "zrays").unwrap();
    filled.set("sizing", "fixed").unwrap();
    assert_eq!(filled.arrays, zrays.arrays, "what was filled in stays");
}

#[test]
fn a_parameter_needs_its_value() {
    for settings in [
        [("nursery", "2M"), ("collector", "mark-sweep")],
        [("collector", "mark-sweep"), ("nursery", "2M")],
        [("leaf", "2K"), ("arrays", "contiguous")],
        [("arrays", "mapped"), ("leaf", "2K")],
        [("arrays", "arraylets"), ("first-n", "64")],
        [("zeroing", "bulk"), ("zeroing-unit", "8K")],
        [("zeroing-width", "8"), ("zeroing", "hot-path")],
        [("growth", "3"), ("sizing", "fixed")],
        [("iv-grow", "0.1"), ("sizing", "gc-ratio")],
        [("balance", "1G"), ("sizing", "isla-vista")],
        [("view-creation", "request"), ("native-views", "copy")],
    ] {
        let sentence = set(&settings).validate().unwrap_err().to_string();
        assert!(sentence.contains(" is a parameter of "), "{sentence}");
    }
    assert_eq!(
        set(&[("leaf", "2K")]).validate().unwrap_err().to_string(),
        "invalid heap configuration: leaf=2K is a parameter of arrays=arraylets or arrays=zrays, but arrays is \
         contiguous"
    );
}

#[test]
fn a_small_maximum_needs_no_other_parameter() {
    let config = set(&[("max", "1M")]);
    config.validate().unwrap();
    assert!(Some(config.min_bytes) > config.max_bytes);
    // Nor does one that is set from what it says of itself.
    let settings = config.settings();
    assert!(settings.contains(&("min", "1M".to_owned())), "{settings:?}");
    let mut again = HeapConfig::default();
    for (key, value) in &settings {
        again.set(key, value).unwrap();
    }
    again.validate().unwrap();
    assert_eq!(again.settings(), settings);
}

#[test]
fn wrong_values_are_explained() {
    let mut config = HeapConfig::default();
    for (key, value, says) in [
        ("colector", "x", "unknown key"),
        ("collector", "x", "mark-sweep"),
        ("references", "handles", "direct or brooks or replicating or thin-handles"),
        ("max", "12Q", "a size"),
        ("max", "99999999999999G", "a size"),
        ("max", "", "a size"),
        ("pressure", "much", "auto or swap or reclaim or psi or events or vmstat"),
        ("leaf", "4G", "less than 4G"),
        ("nursery", "plenty", "a size"),
        ("aging", "1K", "a number of percent"),
        ("nursery-pause", "700", "a time such as"),
        ("stress", "often", "a count, or off"),
        ("growth", "fast", "a number"),
        ("verify", "yes", "on or off"),
        ("arrays", "tree", "contiguous or arraylets or zrays or mapped"),
        ("lazy", "maybe", "on or off"),
    ] {
        let error = config.set(key, value).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(config.settings(), HeapConfig::default().settings(), "{key}={value} has changed something");
    }
}

#[test]
fn a_slice_may_take_all_that_the_program_leaves_of_a_window() {
    for settings in [
        "quantum=300us,window=1ms",
        "quantum=500us,utilisation=70,window=10ms",
        "quantum=100us,utilisation=50,window=2ms",
        "quantum=100ms,utilisation=5,window=1000ms",
        "quantum=50us,utilisation=95,window=1ms",
    ] {
        let mut config = HeapConfig::default();
        settings.split(',').filter_map(|setting| setting.split_once('=')).for_each(|(k, v)| config.set(k, v).unwrap());
        config.validate().unwrap();
    }
}

#[test]
fn wrong_configurations_are_explained() {
    for (settings, says) in [
        ("max=1", "max is 1, but must be at least 256K"),
        ("max=5G", "max is 5G, but must be at most 4G: 32-bit references"),
        ("max=100T", "max is 100T, but must be at most 4G: 32-bit references"),
        ("min=2M,max=1M", "min is 2M, but must be at most max, which is 1M"),
        ("max=1M,min=16M", "min is 16M, but must be at most max, which is 1M"),
        ("min=3G", "min is 3G, but must be at most max, which is 2G"),
        ("quantum=1ms,full=stop", "quantum=1ms is a parameter of full=incremental, but full is stop"),
        ("window=10ms,schedule=work", "window=10ms is a parameter of schedule=time, but schedule is work"),
        (
            "quantum=5ms",
            "quantum is 5ms, but must be at most 3ms, which is what utilisation=70 leaves of window=10ms: set a shorter",
        ),
        ("collector=realtime,window=1ms,utilisation=95", "quantum is 300us, but must be at most 50us, which is what"),
        ("trigger=half,collector=mark-sweep", "a parameter of collector=generational or collector=realtime, but"),
        (
            "references=thin-handles",
            "takes references=direct alone: for thin-handles add collector=mark-sweep or realtime",
        ),
        ("references=brooks,collector=mark-sweep", "uni-handles alone: for brooks add collector=realtime"),
        (
            "stress-move=on",
            "stress-move=on moves objects that are not young, but collector=generational with references=direct does not",
        ),
        (
            "collector=realtime,defragment=eager",
            "set collector=realtime and references=brooks, replicating, thin-handles",
        ),
        ("collector=mark-sweep,zeroing=concurrent", "takes zeroing=bulk alone, not concurrent"),
        ("sizing=isla-vista,iv-grow=2", "iv-grow is 2, but must be from 0.001 to 1"),
        ("sizing=isla-vista,iv-shrink=1", "iv-shrink is 1, but must be from 0 to 0.99"),
        ("growth=nan", "growth is NaN, but must be from 1.05 to 100"),
        ("aging=91", "aging is 91, but must be from 0 to 90"),
        ("nursery=32K", "nursery is 32K, but must be at least 64K"),
        ("nursery-pause=20us", "nursery-pause is 20us, but must be 0 or from 50us to 1000ms"),
        ("zeroing=adaptive,zeroing-unit=5K", "zeroing-unit is 5K, but must be a power of two from 4K to 32K"),
        ("zeroing=concurrent,zeroing-unit=64K", "zeroing-unit is 64K"),
        ("zeroing=non-temporal,zeroing-width=12", "zeroing-width is 12, but must be a power of two from 8 to 32"),
        ("stress=0", "stress is 0, but must be at least 1"),
        ("stress-polls=on", "stress is not set"),
        ("arrays=zrays,leaf=3000", "leaf is 3000, but must be a power of two from 256 to 1M"),
        ("arrays=zrays,first-n=32", "first-n is 32, but must be 0 or a power of two from 64 to 256K"),
        ("arrays=mapped,mapped-from=1", "mapped-from is 1, but must be at least 32K"),
        ("arrays=arraylets,native-views=double-map", "maps whole pages"),
        ("arrays=arraylets,leaf=1M,max=3M", "set a smaller leaf or a larger max"),
        ("arrays=zrays,leaf=64K,native-views=double-map", "set first-n=0"),
        ("arrays=zrays,first-n-grows=on,native-views=double-map", "set native-views=copy"),
        ("arrays=zrays,first-n-grows=on,collector=mark-sweep,references=thin-handles", "set references=direct"),
        (
            "arrays=zrays,first-n-grows=on,collector=realtime,references=replicating",
            "that references=replicating takes",
        ),
        ("arrays=arraylets,leaf=64K,lazy=on,native-views=double-map,view-creation=allocation", "set lazy=off"),
    ] {
        let settings: Vec<_> = settings.split(',').map(|setting| setting.split_once('=').unwrap()).collect();
        let sentence = set(&settings).validate().unwrap_err().to_string();
        assert!(sentence.starts_with("invalid heap configuration: ") && sentence.contains(says), "{sentence}");
    }
}

#[test]
fn a_maximum_that_nobody_has_set_fits_the_address_space() {
    const GIB: u64 = 1 << 30;
    let memory = |bytes| Some(MachineLimit { bytes, source: "memory".to_string() });
    let space = |left| Some(AddressSpace { limit_bytes: left + GIB, used_bytes: GIB });
    let layouts: [&[(&str, &str)]; 6] = [
        &[],
        &[("collector", "realtime"), ("references", "brooks")],
        &[("arrays", "zrays")],
        &[("arrays", "arraylets")],
        &[("arrays", "mapped")],
        &[("arrays", "arraylets"), ("leaf", "64K"), ("native-views", "double-map")],
    ];
    for layout in layouts {
        let config = set(layout);
        let found = |bytes, left| {
            let (config, limit) = config.with_maximum_of(memory(bytes), 0, space(left));
            (config, limit.unwrap().source)
        };
        for left in [GIB / 8, GIB / 2, 2 * GIB, 9 * GIB, 40 * GIB, 95 * GIB] {
            let (config, source) = found(16 * GIB, left);
            config.validate().unwrap();
            assert_eq!(source, "address space", "{layout:?} {left}");
            assert!(config.maximum() >= left.min(2 * GIB) / 16 && config.maximum() <= GIB, "{layout:?} {left}");
            assert!(config.extent(space(left)).total() <= left / 2, "{layout:?} {left}");
        }
        let (free, source) = found(16 * GIB, 96 * GIB);
        assert_eq!((free.maximum(), source.as_str()), (2 * GIB, "memory"));
        assert_eq!((free.extent(space(96 * GIB)), free.extent(None)), (Extent::WHOLE, Extent::WHOLE));
        // Memory is scarcer than addresses.
        let (scarce, source) = found(GIB / 8, 40 * GIB);
        assert_eq!((scarce.maximum(), source.as_str()), (7 * GIB / 64, "memory"));
        assert!(scarce.extent(space(40 * GIB)).total() <= 20 * GIB);
        // What somebody has set stays.
        let set = HeapConfig { max_bytes: Some(3 * GIB), ..config.clone() };
        assert_eq!(set.with_maximum().0.max_bytes, Some(3 * GIB));
        assert_eq!(set.extent(space(2 * GIB)), Extent::WHOLE);
    }
    let (_, limit) = HeapConfig::default().with_maximum_of(memory(16 * GIB), 0, space(GIB));
    assert_eq!(limit.unwrap().to_string(), "address space 2097152K");
}
