//! One heap configuration.

use legato_heap::HeapConfig;
use std::fmt;
use std::sync::LazyLock;

/// How a row without settings prints.
const DEFAULT: &str = "default";

/// A heap configuration, and the settings that make it.
#[derive(Clone, Debug)]
pub struct Row {
    settings: Vec<(&'static str, &'static str)>,
    heap: HeapConfig,
}

impl Row {
    /// The default configuration.
    pub(crate) fn default() -> Row {
        Row { settings: Vec::new(), heap: HeapConfig::default() }
    }

    /// The row that prints so.
    ///
    /// # Panics
    /// If there is no such heap.
    pub(crate) fn named(name: &'static str) -> Row {
        Row::default().with(if name == DEFAULT { "" } else { name })
    }

    /// This row with further settings, `KEY=VALUE,...`; `None` if there is no such heap, or a setting has no say in it.
    pub fn and(&self, settings: &'static str) -> Option<Row> {
        let mut row = self.clone();
        let settings = || settings.split(',').filter_map(|setting| setting.split_once('='));
        for (key, value) in settings() {
            row.heap.set(key, value).ok()?;
            row.settings.retain(|(earlier, _)| *earlier != key);
            row.settings.push((key, value));
        }
        row.heap.validate().ok()?;
        let having_a_say = row.heap.settings();
        settings().all(|(key, _)| having_a_say.iter().any(|(known, _)| *known == key)).then_some(row)
    }

    /// This row with further settings, `KEY=VALUE,...`; a later one takes the place of an earlier one.
    ///
    /// # Panics
    /// If there is no such heap, or a setting has no say in it.
    pub fn with(&self, settings: &'static str) -> Row {
        self.and(settings).unwrap_or_else(|| panic!("`{self}` cannot be had with `{settings}`"))
    }

    /// The configuration.
    pub fn heap(&self) -> HeapConfig {
        self.heap.clone()
    }

    /// The settings, without those that are the default.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        static ALL: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| HeapConfig::default().settings());
        let differs = |key: &str, value: &str| !ALL.iter().any(|(known, is)| *known == key && is == value);
        self.settings.iter().copied().filter(move |(key, value)| differs(key, value))
    }
}

/// The settings, as `--heap` takes them; `default` if there are none.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings: Vec<String> = self.settings().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(if settings.is_empty() { DEFAULT } else { "" })?;
        f.write_str(&settings.join(","))
    }
}
