//! The heap configurations under which every program must print the same.

use legato::HeapConfig;

/// A named heap configuration.
pub struct Row {
    /// Name for messages: its settings.
    pub name: String,
    settings: Vec<(&'static str, &'static str)>,
}

impl Row {
    fn new(settings: &[&[(&'static str, &'static str)]]) -> Row {
        let settings = settings.concat();
        let name: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Row { name: name.join(","), settings }
    }

    /// The configuration.
    pub fn heap(&self) -> HeapConfig {
        let mut heap = HeapConfig::default();
        for (key, value) in &self.settings {
            heap.set(key, value).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        }
        heap
    }
}

const MARK_SWEEP: &[(&str, &str)] = &[("collector", "mark-sweep"), ("min", "2M")];
const GENERATIONAL: &[(&str, &str)] = &[("collector", "generational"), ("min", "2M")];
const VERIFY: &[(&str, &str)] = &[("verify", "on")];
/// Collections at arbitrary allocations; a prime, so that they do not fall in step with a program's loops.
const STRESS: &[(&str, &str)] = &[("verify", "on"), ("stress", "20011")];
/// The same for the many rows of the zeroing strategies, less often: each collection is verified, which takes the time.
const SPARSE_STRESS: &[(&str, &str)] = &[("verify", "on"), ("stress", "60013")];
const ZEROING: [&str; 5] = ["hot-path", "bulk", "non-temporal", "concurrent", "adaptive"];
/// Verification walks the whole heap at each nursery collection: a smaller nursery would make the tests slow, not
/// sharper.
const NURSERIES: [&str; 2] = ["2M", "appel"];

const SMALL_ZRAYS: &[(&str, &str)] =
    &[("arrays", "zrays"), ("first-n", "64"), ("leaf", "256"), ("first-n-grows", "off")];
const SHARING: &[(&str, &str)] = &[("copy-on-write", "on")];
/// The first bytes of large arrays grow from nothing; smaller arrays lie in one piece.
const GROWING: &[(&str, &str)] = &[("arrays", "zrays"), ("first-n", "0"), ("leaf", "256")];
const ARRAYLETS: &[(&str, &str)] = &[("arrays", "arraylets"), ("leaf", "256")];

/// A large nursery: each collection walks the whole heap, and the rows are many.
const FEW_COLLECTIONS: &[(&str, &str)] = &[("nursery", "8M")];
const MAPPED: &[(&str, &str)] = &[("arrays", "mapped"), ("mapped-from", "32K")];

/// The layouts of arrays, with parts so small that every path is taken.
fn layouts(mode: &[(&'static str, &'static str)]) -> Vec<Row> {
    let generational = generational_layouts();
    let mut rows: Vec<Row> =
        generational.iter().map(|layout| Row::new(&[GENERATIONAL, FEW_COLLECTIONS, &layout.concat(), mode])).collect();
    rows.push(Row::new(&[MARK_SWEEP, SMALL_ZRAYS, SHARING, &[("references", "thin-handles")], mode]));
    rows
}

/// The layouts of arrays under the generational collector.
fn generational_layouts() -> [&'static [&'static [(&'static str, &'static str)]]; 4] {
    [&[SMALL_ZRAYS], &[GROWING, SHARING, &[("barrier", "cards")]], &[ARRAYLETS, &[("lazy", "on")]], &[MAPPED]]
}

/// Every layout of arrays with every zeroing strategy.
pub fn layouts_and_zeroing() -> Vec<Row> {
    let mut rows = Vec::new();
    for layout in generational_layouts() {
        for zeroing in ZEROING {
            rows.push(Row::new(&[
                GENERATIONAL,
                FEW_COLLECTIONS,
                &layout.concat(),
                &[("zeroing", zeroing)],
                SPARSE_STRESS,
            ]));
        }
    }
    rows
}

/// The collectors, reference models, barriers and promotion policies.
fn basic(mode: &[(&'static str, &'static str)]) -> Vec<Row> {
    vec![
        Row::new(&[MARK_SWEEP, &[("references", "direct")], mode]),
        Row::new(&[MARK_SWEEP, &[("references", "thin-handles")], mode]),
        Row::new(&[GENERATIONAL, &[("barrier", "cards"), ("aging", "25"), ("nursery", "1M")], mode]),
    ]
}

/// Heaps small enough that programs collect, verified after each collection.
pub fn verified() -> Vec<Row> {
    let mut rows = basic(VERIFY);
    rows.push(Row::new(&[GENERATIONAL, VERIFY]));
    rows.extend(layouts(VERIFY));
    rows.push(Row::new(&[MARK_SWEEP, ARRAYLETS, VERIFY]));
    rows
}

/// The same, and every zeroing strategy with each kind of nursery, with collections at arbitrary allocations besides.
pub fn stressed() -> Vec<Row> {
    let mut rows = basic(STRESS);
    rows.extend(layouts(SPARSE_STRESS));
    for nursery in NURSERIES {
        for zeroing in ZEROING {
            rows.push(Row::new(&[GENERATIONAL, &[("zeroing", zeroing), ("nursery", nursery)], SPARSE_STRESS]));
        }
    }
    rows
}
