//! What a key sets: how its value is written, and what it must be.

use crate::collector::generational::params::Nursery;
use crate::values::Choice;
use std::fmt;

/// A place in a configuration.
pub(super) enum Field<'a> {
    /// One of some values.
    Choice(&'a mut dyn Choice),
    /// On or off.
    Switch(&'a mut bool),
    /// Bytes, less than 4 GiB.
    Bytes(&'a mut u32),
    /// Bytes.
    Size(&'a mut u64),
    /// Bytes, or `auto`.
    Maximum(&'a mut Option<u64>),
    /// Bytes, or `appel`.
    Nursery(&'a mut Nursery),
    Percent(&'a mut u32),
    /// Microseconds.
    Micros(&'a mut u32),
    Factor(&'a mut f64),
    /// A count, or `off`.
    Every(&'a mut Option<u32>),
}

impl Field<'_> {
    /// How values are written, for the help.
    pub(super) fn form(&self) -> String {
        match self {
            Field::Choice(choice) => choice.names().join("|"),
            Field::Switch(_) => "on|off".to_string(),
            Field::Bytes(_) | Field::Size(_) => "SIZE".to_string(),
            Field::Maximum(_) => "SIZE|auto".to_string(),
            Field::Nursery(_) => "SIZE|appel".to_string(),
            Field::Percent(_) => "PERCENT".to_string(),
            Field::Micros(_) => "TIME".to_string(),
            Field::Factor(_) => "FACTOR".to_string(),
            Field::Every(_) => "N|off".to_string(),
        }
    }

    /// The value, as [`parse`](Self::parse) takes it.
    pub(super) fn text(&self) -> String {
        match self {
            Field::Choice(choice) => choice.chosen().to_string(),
            Field::Switch(true) => "on".to_string(),
            Field::Switch(false) | Field::Every(None) => "off".to_string(),
            Field::Bytes(bytes) => size_text((**bytes).into()),
            Field::Size(bytes) => size_text(**bytes),
            Field::Maximum(Some(bytes)) => size_text(*bytes),
            Field::Maximum(None) => "auto".to_string(),
            Field::Nursery(Nursery::Fixed(bytes)) => size_text(*bytes),
            Field::Nursery(Nursery::Appel) => "appel".to_string(),
            Field::Percent(percent) => percent.to_string(),
            Field::Micros(micros) => time_text(**micros),
            Field::Every(Some(every)) => every.to_string(),
            Field::Factor(factor) => factor.to_string(),
        }
    }

    /// Sets the value.
    ///
    /// # Errors
    /// What it must be instead.
    pub(super) fn parse(&mut self, text: &str) -> Result<(), String> {
        let number = |wanted: &str| text.parse().map_err(|_| wanted.to_string());
        match self {
            Field::Choice(choice) => {
                if !choice.choose(text) {
                    return Err(choice.names().join(" or "));
                }
            }
            Field::Switch(switch) => match text {
                "on" => **switch = true,
                "off" => **switch = false,
                _ => return Err("on or off".to_string()),
            },
            Field::Bytes(bytes) => **bytes = size(text)?.try_into().map_err(|_| "less than 4G")?,
            Field::Size(bytes) => **bytes = size(text)?,
            Field::Maximum(bytes) if text == "auto" => **bytes = None,
            Field::Maximum(bytes) => **bytes = Some(size(text)?),
            Field::Nursery(nursery) if text == "appel" => **nursery = Nursery::Appel,
            Field::Nursery(nursery) => **nursery = Nursery::Fixed(size(text)?),
            Field::Percent(percent) => **percent = number("a number of percent such as 25")?,
            Field::Micros(micros) => **micros = time(text)?,
            Field::Factor(factor) => **factor = text.parse().map_err(|_| "a number such as 1.8")?,
            Field::Every(every) if text == "off" => **every = None,
            Field::Every(every) => **every = Some(number("a count, or off")?),
        }
        Ok(())
    }

    /// The value, where it is a number.
    fn number(&self) -> Option<f64> {
        match self {
            Field::Bytes(number) | Field::Percent(number) | Field::Micros(number) => Some((**number).into()),
            Field::Every(Some(every)) => Some((*every).into()),
            Field::Size(bytes) => Some(**bytes as f64),
            Field::Maximum(Some(bytes)) => Some(*bytes as f64),
            Field::Nursery(Nursery::Fixed(bytes)) => Some(*bytes as f64),
            Field::Factor(factor) => Some(**factor),
            Field::Choice(_)
            | Field::Switch(_)
            | Field::Nursery(Nursery::Appel)
            | Field::Every(None)
            | Field::Maximum(None) => None,
        }
    }
}

/// What a number must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Range {
    /// Anything: the field says it all.
    Any,
    /// At least this.
    AtLeast(u64),
    /// Between these, ends included.
    Between(f64, f64),
    /// Between these many microseconds, ends included.
    Micros(u32, u32),
    /// Zero, or between these many microseconds, ends included.
    ZeroOrMicros(u32, u32),
    /// Between these many bytes, ends included, and why no more.
    Sizes(u64, u64, &'static str),
    /// A power of two between these many bytes, ends included.
    PowerOfTwo(u64, u64),
    /// Zero, or such a power of two.
    ZeroOrPowerOfTwo(u64, u64),
}

impl Range {
    /// Whether a field's value is within it.
    pub(super) fn contains(self, field: &Field<'_>) -> bool {
        let Some(number) = field.number() else { return true };
        let is_power =
            |least: u64, most: u64| (least as f64..=most as f64).contains(&number) && (number as u64).is_power_of_two();
        match self {
            Range::Any => true,
            Range::AtLeast(least) => number >= least as f64,
            Range::Between(least, most) => (least..=most).contains(&number),
            Range::ZeroOrMicros(..) if number == 0.0 => true,
            Range::Micros(least, most) | Range::ZeroOrMicros(least, most) => {
                (f64::from(least)..=f64::from(most)).contains(&number)
            }
            Range::Sizes(least, most, _) => (least as f64..=most as f64).contains(&number),
            Range::PowerOfTwo(least, most) => is_power(least, most),
            Range::ZeroOrPowerOfTwo(least, most) => number == 0.0 || is_power(least, most),
        }
    }

    /// What a field's value must be that is not within it.
    pub(super) fn wanted(self, field: &Field<'_>) -> String {
        match (self, field.number()) {
            (Range::Sizes(least, ..), Some(number)) if number < least as f64 => Range::AtLeast(least).to_string(),
            (Range::Sizes(_, most, why), _) => format!("at most {}: {why}", size_text(most)),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = |least: &u64, most: &u64| format!("from {} to {}", size_text(*least), size_text(*most));
        match self {
            Range::Any => Ok(()),
            Range::AtLeast(least) => write!(formatter, "at least {}", size_text(*least)),
            Range::Between(least, most) => write!(formatter, "from {least} to {most}"),
            Range::Micros(least, most) => write!(formatter, "from {} to {}", time_text(*least), time_text(*most)),
            Range::ZeroOrMicros(least, most) => write!(formatter, "0 or {}", Range::Micros(*least, *most)),
            Range::Sizes(least, most, _) => formatter.write_str(&sizes(least, most)),
            Range::PowerOfTwo(least, most) => write!(formatter, "a power of two {}", sizes(least, most)),
            Range::ZeroOrPowerOfTwo(least, most) => write!(formatter, "0 or a power of two {}", sizes(least, most)),
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    let wrong = || "a size in bytes such as 65536, 512M or 1.5G".to_string();
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(wrong);
    }
    match digits.parse::<f64>() {
        Ok(number) if shift > 0 && (0.0..1e9).contains(&number) => Ok((number * (1u64 << shift) as f64) as u64),
        _ => Err(wrong()),
    }
}

fn time(text: &str) -> Result<u32, String> {
    let wrong = || "a time such as 300us or 10ms".to_string();
    let (digits, factor) = match (text.strip_suffix("us"), text.strip_suffix("ms")) {
        (Some(digits), _) => (digits, 1),
        (_, Some(digits)) => (digits, 1000),
        (None, None) if text == "0" => (text, 1),
        (None, None) => return Err(wrong()),
    };
    digits.parse::<u32>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

/// A time with the largest unit that leaves it whole.
pub(super) fn time_text(micros: u32) -> String {
    if micros == 0 {
        "0".to_string()
    } else if micros.is_multiple_of(1000) {
        format!("{}ms", micros / 1000)
    } else {
        format!("{micros}us")
    }
}

/// A size with the largest suffix that leaves it whole.
pub(super) fn size_text(bytes: u64) -> String {
    let suffixes = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    match suffixes.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, suffix)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}
