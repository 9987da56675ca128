//! What the values of options look like. Errors say what they must look like.

use std::path::PathBuf;
use std::time::Duration;

/// A directory of the host and the guest's name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirMapping {
    /// The host's path.
    pub host: PathBuf,
    /// The guest's name.
    pub guest: String,
}

/// `HOST[::GUEST]`.
pub(super) fn dir(text: &str) -> Result<DirMapping, String> {
    let (host, guest) = text.split_once("::").unwrap_or((text, text));
    if host.is_empty() || guest.is_empty() {
        return Err("expected HOST or HOST::GUEST".into());
    }
    Ok(DirMapping { host: host.into(), guest: guest.into() })
}

/// `NAME=FILE`.
pub(super) fn preload(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !file.is_empty() => Ok((name.into(), file.into())),
        _ => Err("expected NAME=FILE".into()),
    }
}

/// `KEY[=VALUE]`.
pub(super) fn env(text: &str) -> Result<(String, Option<String>), String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_string())),
        None => (text, None),
    };
    if key.is_empty() {
        return Err("expected KEY or KEY=VALUE".into());
    }
    Ok((key.into(), value))
}

/// An option of the heap, as `--heap` takes it.
///
/// # Errors
///
/// What it must look like.
pub fn heap_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected KEY=VALUE".into()),
    }
}

/// A number and what follows it.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let value = text[..end].parse().ok()?;
    Some((value, &text[end..]))
}

/// A time with its unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number with a unit, such as 500ms, 10s, 2m or 1h".to_string();
    let (value, unit) = number(text).ok_or_else(wrong)?;
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let duration = Duration::try_from_secs_f64(value * seconds).map_err(|_| wrong())?;
    if duration.is_zero() { Err("expected a time above zero".to_string()) } else { Ok(duration) }
}

/// Bytes, with a suffix or without.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let wrong = || "expected a size in bytes, such as 65536, 512K, 8M or 1.5G".to_string();
    let (value, unit) = number(text).ok_or_else(wrong)?;
    let unit = match unit {
        "" | "B" => 1.0,
        "K" | "k" | "KiB" => 1024.0,
        "M" | "m" | "MiB" => 1024.0 * 1024.0,
        "G" | "g" | "GiB" => 1024.0 * 1024.0 * 1024.0,
        "T" | "t" | "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = value * unit;
    // Up to here every whole number is exact.
    if bytes > (1u64 << 53) as f64 {
        return Err("too large".into());
    }
    Ok(bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "10", "s", "-1s", "1d", "1.2.3s", "99999999999999999999999h", "0s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(size("8M"), Ok(8 << 20));
        assert_eq!(size("1.5k"), Ok(1536));
        assert_eq!(size("77"), Ok(77));
        for wrong in ["", "M", "-1", "8X", "9999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
