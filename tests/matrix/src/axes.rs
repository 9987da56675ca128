//! The axes, their values, and the parameters that exercise each value.

use std::borrow::Cow;

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its name: for most, the key that [`HeapConfig::set`](legato_heap::HeapConfig::set) knows it by.
    pub name: &'static str,
    /// Its values.
    pub values: Cow<'static, [Value]>,
    /// Whether it tunes a value of another axis, and so is paired with collectors and other parameters alone.
    pub is_parameter: bool,
}

/// A value of an axis.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// What a test sets, `KEY=VALUE,...`: the value itself, and parameters such that small programs take every path.
    pub settings: &'static str,
    /// What is measured of it.
    pub measured: &'static [Measured],
}

/// A configuration for measurements: parameters as users or papers have them, not as tests do.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Its name in tables.
    pub name: &'static str,
    /// What is set, `KEY=VALUE,...`.
    pub settings: &'static str,
}

/// A value of which nothing is measured.
pub(crate) const fn value(settings: &'static str) -> Value {
    Value { settings, measured: &[] }
}

const fn measured_as(settings: &'static str, measured: &'static [Measured]) -> Value {
    Value { settings, measured }
}

const fn measure(name: &'static str, settings: &'static str) -> Measured {
    Measured { name, settings }
}

const fn axis(name: &'static str, values: &'static [Value]) -> Axis {
    Axis { name, values: Cow::Borrowed(values), is_parameter: false }
}

const fn parameter(name: &'static str, values: &'static [Value]) -> Axis {
    Axis { name, values: Cow::Borrowed(values), is_parameter: true }
}

/// Every axis. Whatever decides whether a value can be had stands before it: what is refused so far is not saved by an
/// axis further down. So parameters of a value (first-n of zrays) are axes behind it, and native views come last among
/// what concerns arrays.
pub static AXES: &[Axis] = &[
    axis(
        "collector",
        &[
            value("collector=generational"),
            value("collector=mark-sweep"),
            value("collector=realtime"),
            value("collector=snapshot"),
        ],
    ),
    parameter("full", &[value("full=incremental"), value("full=stop")]),
    parameter(
        "schedule",
        &[
            value("schedule=time,quantum=100us,utilisation=50,window=2ms,trigger=predicted"),
            value("schedule=work,trigger=half"),
        ],
    ),
    parameter("helpers", &[value("helpers=0"), value("helpers=1")]),
    axis(
        "references",
        &[
            value("references=direct"),
            value("references=brooks"),
            value("references=replicating"),
            value("references=thin-handles"),
            value("references=fat-handles"),
            value("references=uni-handles"),
        ],
    ),
    parameter(
        "handle-policies",
        &[
            value("handle-release=independent,handle-order=released,handle-cache=none"),
            value("handle-release=with-cells,handle-order=fullest,handle-cache=some"),
            value("handle-release=with-cells,handle-order=emptiest,handle-cache=all"),
            value("handle-release=naive"),
        ],
    ),
    parameter("moving", &[value("stress-move=off"), value("defragment=eager"), value("stress-move=on")]),
    axis(
        "arrays",
        &[
            measured_as("arrays=contiguous", &[measure("contiguous", "arrays=contiguous")]),
            measured_as(
                "arrays=zrays,leaf=256,first-n-grows=on",
                &[
                    measure("zrays", "arrays=zrays,first-n=4K,leaf=1K,copy-on-write=off"),
                    measure("zrays, copy-on-write", "arrays=zrays,first-n=4K,leaf=1K,copy-on-write=on"),
                ],
            ),
            // The paper's Perf Z-ray (Z-Rays, section 7.1.1), and its Z-ray.
            measured_as(
                "arrays=zrays,leaf=256,first-n-grows=off",
                &[
                    measure(
                        "zrays, fixed first-n",
                        "arrays=zrays,first-n=4K,leaf=1K,copy-on-write=off,first-n-grows=off",
                    ),
                    measure(
                        "the same, copy-on-write",
                        "arrays=zrays,first-n=4K,leaf=1K,copy-on-write=on,first-n-grows=off",
                    ),
                ],
            ),
            measured_as("arrays=mapped,mapped-from=32K", &[measure("mapped", "arrays=mapped")]),
            measured_as(
                "arrays=arraylets,leaf=256",
                &[
                    measure("arraylets (Naive)", "arrays=arraylets,lazy=off,leaf=1K"),
                    measure("arraylets, lazy (Naive A)", "arrays=arraylets,lazy=on,leaf=1K"),
                    measure("arraylets, leaf=4K (Naive B)", "arrays=arraylets,lazy=off,leaf=4K"),
                ],
            ),
        ],
    ),
    parameter("first-n", &[value("first-n=64"), value("first-n=0")]),
    parameter("lazy", &[value("lazy=on"), value("lazy=off")]),
    parameter(
        "leaf-savings",
        &[
            value("copy-on-write=on"),
            value("copy-on-write=off"),
            value("copy-on-write=off,fast-copy=off,zero-compression=off"),
        ],
    ),
    parameter("mapped-sharing", &[value("mapped-sharing=on"), value("mapped-sharing=off")]),
    // Leaves of 64 KiB are pages anywhere.
    axis("native-views", &[value("native-views=copy"), value("native-views=double-map,leaf=64K")]),
    parameter("view-creation", &[value("view-creation=request"), value("view-creation=allocation")]),
    axis(
        "zeroing",
        &[
            measured_as("zeroing=hot-path", &[measure("hot-path", "zeroing=hot-path")]),
            measured_as("zeroing=bulk", &[measure("bulk", "zeroing=bulk")]),
            measured_as("zeroing=non-temporal,zeroing-width=32", &[measure("non-temporal", "zeroing=non-temporal")]),
            measured_as(
                "zeroing=concurrent,zeroing-unit=4K,zeroing-width=8",
                &[measure("concurrent", "zeroing=concurrent")],
            ),
            measured_as("zeroing=adaptive", &[measure("adaptive", "zeroing=adaptive")]),
        ],
    ),
    axis(
        "sizing",
        &[
            value("sizing=gc-ratio"),
            value("sizing=fixed"),
            value("sizing=isla-vista,pressure=psi,iv-grow=0.001,iv-shrink=0.5,iv-recover=on,iv-memory=on"),
            value("sizing=balanced,balance=64M"),
        ],
    ),
    axis("nursery", &[value("nursery=64K"), value("nursery=appel")]),
    axis("barrier", &[value("barrier=store-buffer"), value("barrier=cards")]),
    axis("aging", &[value("aging=0"), value("aging=25,nursery-pause=50us")]),
    axis("count-accesses", &[value("count-accesses=off"), value("count-accesses=on")]),
    parameter("huge-pages", &[value("huge-pages=on"), value("huge-pages=off")]),
];

/// What is measured of an axis, in the order of its values.
///
/// # Panics
/// If there is no axis of that name.
pub fn measured(axis: &str) -> impl Iterator<Item = &'static Measured> {
    find(axis).values.iter().flat_map(|value| value.measured)
}

/// The axis of a name.
pub(crate) fn find(name: &str) -> &'static Axis {
    AXES.iter().find(|axis| axis.name == name).unwrap_or_else(|| panic!("no axis is called '{name}'"))
}
