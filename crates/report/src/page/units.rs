//! Figures as people read them.

use std::time::Duration;

use humansize::{BINARY, FormatSizeOptions, format_size};

/// A size: `1.5 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    format_size(bytes, BINARY)
}

/// A rate of bytes per second: `1.5 GiB/s`.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    format_size(bytes_per_second as u64, FormatSizeOptions::from(BINARY).suffix("/s"))
}

/// A time to three digits: `1.23 ms`.
pub(crate) fn time(duration: Duration) -> String {
    let ns = duration.as_nanos() as f64;
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    match value {
        0.0 => "0".to_string(),
        _ if unit == "ns" => format!("{value} ns"),
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

/// A share: `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A number in groups of three digits: `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> =
        digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(rate(3.5 * 1024.0 * 1024.0), "3.50 MiB/s");
        assert_eq!(percent(0.1234), "12.3 %");
        let shown = [0, 17, 1_234_567].map(count);
        assert_eq!(shown, ["0", "17", "1,234,567"]);
        let shown = [0, 999, 1_000, 12_345, 123_456_789, 2_000_000_000].map(|ns| time(Duration::from_nanos(ns)));
        assert_eq!(shown, ["0", "999 ns", "1.00 µs", "12.3 µs", "123 ms", "2.00 s"]);
    }
}
