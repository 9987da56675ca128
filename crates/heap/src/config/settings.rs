//! Parameters by name, as on a command line, and back.

use super::HeapConfig;
use super::field::{size_text, time_text};
use super::keys::{AXES, Key, Owners, PARAMETERS, time};
use crate::collector::schedule::TimeParams;
use crate::error::HeapError;
use crate::sizing::ceiling;

/// The key of the minimum, which waits for no value, but matters as given.
const MINIMUM: &str = "min";

/// Every key.
fn keys() -> impl Iterator<Item = &'static Key> {
    AXES.iter().chain(PARAMETERS)
}

/// The key of this name.
fn key(name: &str) -> Option<&'static Key> {
    keys().find(|known| known.name == name)
}

impl HeapConfig {
    /// Sets one parameter by name, as given on a command line; [`help`](Self::help) lists them. Sizes take the suffixes
    /// K, M, G and T. The order does not matter: a parameter of a value that is not chosen waits until it is.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] where the key or value is unknown. Ranges and combinations are left to
    /// [`validate`](Self::validate), parameters of values that are never chosen too.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), HeapError> {
        let Some(found) = key(name) else {
            let known: Vec<_> = keys().map(|known| known.name).collect();
            return Err(HeapError::invalid(format!("unknown key '{name}'; known are {}", known.join(", "))));
        };
        for (_, mut sample) in found.samples() {
            found.parse(&mut sample, value)?;
        }
        found.parse(self, value)?;
        if found.owners().is_some() || found.name == MINIMUM {
            self.given.0.retain(|(given, _)| *given != name);
            self.given.0.push((found.name, value.to_string()));
        }
        // A value that has just been chosen takes what waits for it.
        let given = std::mem::take(&mut self.given);
        let waiting = given.0.iter().filter_map(|(name, value)| Some((key(name)?, value)));
        let mut own = waiting.filter(|(key, _)| key.owners().is_some_and(|(axis, _)| axis.name == name));
        let taken = own.try_for_each(|(key, value)| key.parse(self, value));
        self.given = given;
        taken
    }

    /// Every parameter that has a say in this configuration, by name and as [`set`](Self::set) takes it.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        // The default minimum gives way to a small maximum; a minimum that was set does not.
        let minimum = match self.is_given(MINIMUM) {
            true => self.min_bytes,
            false => self.min_bytes.min(self.max_bytes.unwrap_or(ceiling::MOST_BYTES)),
        };
        let shown = HeapConfig { min_bytes: minimum, ..self.clone() };
        keys().filter_map(|key| Some((key.name, key.text(&shown)?))).collect()
    }

    /// What [`set`](Self::set) takes, a line or more for each key: how its value is written, the axis values that it
    /// belongs to, what it is and must be, and the default in brackets.
    pub fn help() -> String {
        keys().map(help_on).collect()
    }

    /// Checks each key's value by itself, and that every parameter given has found its value.
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`] with one sentence.
    pub(super) fn validate_keys(&self) -> Result<(), HeapError> {
        for (key, value) in self.given.0.iter().filter_map(|(name, value)| Some((key(name)?, value))) {
            if key.text(self).is_none()
                && let Some((axis, owners)) = key.owners().map(|owners| self.missing(key, owners))
            {
                let owners: Vec<_> = owners.iter().map(|owner| format!("{}={owner}", axis.name)).collect();
                let (name, owners, chosen) = (key.name, owners.join(" or "), axis.text(self).unwrap_or_default());
                return Err(HeapError::invalid(format!(
                    "{name}={value} is a parameter of {owners}, but {} is {chosen}",
                    axis.name
                )));
            }
        }
        keys().try_for_each(|key| key.validate(self))?;
        self.validate_schedule()?;
        self.validate_minimum()
    }

    /// What keeps a parameter from having a say, with the values under which it had one: its axis, or another parameter
    /// where the axis has one of those values.
    fn missing(&self, key: &Key, (axis, owners): &Owners) -> (&'static Key, Vec<&'static str>) {
        if axis.text(self).is_some_and(|chosen| owners.contains(&chosen.as_str())) {
            for other in PARAMETERS {
                let has_say = |name: &&str| {
                    let mut config = self.bare();
                    other.text(self).is_some() && other.parse(&mut config, name).is_ok() && key.text(&config).is_some()
                };
                let names: Vec<_> = other.names().into_iter().filter(has_say).collect();
                if !names.is_empty() {
                    return (other, names);
                }
            }
        }
        (axis, owners.clone())
    }

    /// Whether a slice leaves the program its share of a window.
    fn validate_schedule(&self) -> Result<(), HeapError> {
        let mut config = self.bare();
        let Some(&mut TimeParams { quantum, utilisation, window }) = time(&mut config) else { return Ok(()) };
        let rest = (u64::from(window) * u64::from(100 - utilisation) / 100) as u32;
        if quantum <= rest {
            return Ok(());
        }
        let [quantum, window, rest] = [quantum, window, rest].map(time_text);
        Err(HeapError::invalid(format!(
            "quantum is {quantum}, but must be at most {rest}, which is what utilisation={utilisation} leaves of \
             window={window}: set a shorter quantum, a smaller utilisation or a longer window"
        )))
    }

    fn is_given(&self, name: &str) -> bool {
        self.given.0.iter().any(|(given, _)| *given == name)
    }

    /// Whether a minimum that was asked for can be reached. The default gives way to a small maximum.
    fn validate_minimum(&self) -> Result<(), HeapError> {
        let (minimum, maximum) = (self.min_bytes, self.max_bytes.unwrap_or(ceiling::MOST_BYTES));
        if minimum <= maximum || !self.is_given(MINIMUM) {
            return Ok(());
        }
        let (minimum, maximum) = (size_text(minimum), size_text(maximum));
        Err(HeapError::invalid(format!("min is {minimum}, but must be at most max, which is {maximum}")))
    }
}

/// The column in which the help's text begins, and the one where it ends.
const HELP_COLUMNS: (usize, usize) = (25, 100);

fn help_on(key: &Key) -> String {
    let (form, range) = key.form();
    let mut words = String::new();
    if let Some((_, owners)) = key.owners() {
        words += &format!("{}: ", owners.join(", "));
    }
    words += key.help;
    if !range.is_empty() {
        words += &format!(", {range}");
    }
    let mut defaults: Vec<_> =
        key.samples().iter().map(|(owner, sample)| (*owner, key.text(sample).unwrap_or_default())).collect();
    if defaults.iter().all(|(_, default)| *default == defaults[0].1) {
        defaults = vec![("", defaults.swap_remove(0).1)];
    }
    let defaults: Vec<_> = defaults.iter().map(|(owner, default)| format!("{owner} {default}")).collect();
    words += &format!(" [{}]", defaults.join(", ").trim_start());
    for name in key.names() {
        words += &elsewhere(key, name);
    }
    let (start, end) = HELP_COLUMNS;
    let mut lines = format!("  {}={form}", key.name);
    let mut column = lines.len();
    for (index, word) in words.split(' ').enumerate() {
        if index == 0 && column < start {
            lines += &" ".repeat(start - column);
            column = start;
        } else if index == 0 || column + 1 + word.len() > end {
            lines += &format!("\n{}", " ".repeat(start));
            column = start;
        } else {
            lines.push(' ');
            column += 1;
        }
        lines += word;
        column += word.len();
    }
    lines.push('\n');
    lines
}

/// Where an axis value that the default collector does not take is to be had.
fn elsewhere(axis: &Key, name: &str) -> String {
    let Some(collector) = AXES.first().filter(|_| axis.with(name).validate().is_err()) else { return String::new() };
    let takes = |other: &&str| {
        let mut config = axis.with(name);
        collector.parse(&mut config, other).is_ok() && !config.collector.is_for_tests() && config.validate().is_ok()
    };
    let others: Vec<_> = collector.names().into_iter().filter(takes).collect();
    format!(", {name} with {}", others.join(" or "))
}
