//! The heap configurations under which every program must print the same.

use legato::HeapConfig;

/// A named heap configuration.
pub struct Row {
    /// Name for messages.
    pub name: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

impl Row {
    /// The configuration.
    pub fn heap(&self) -> HeapConfig {
        let mut heap = HeapConfig::default();
        for (key, value) in self.settings {
            heap.set(key, value).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        }
        heap
    }
}

/// Every reference model with a heap small enough that programs collect, verified after each collection.
pub const VERIFIED: [Row; 2] = [
    Row { name: "direct, verify", settings: &[("references", "direct"), ("min", "2M"), ("verify", "on")] },
    Row { name: "thin-handles, verify", settings: &[("references", "thin-handles"), ("min", "2M"), ("verify", "on")] },
];

/// Every reference model with collections at arbitrary allocations, verified after each.
pub const STRESSED: [Row; 2] = [
    Row { name: "direct, stress", settings: &[("references", "direct"), ("verify", "on"), ("stress", "20011")] },
    Row {
        name: "thin-handles, stress",
        settings: &[("references", "thin-handles"), ("verify", "on"), ("stress", "20011")],
    },
];
