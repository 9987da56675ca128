//! The linear memory, which a TeaVM program uses for little: buffers of `malloc` and static data.

use anyhow::{Context, Result};
use serde::Deserialize;

/// The custom section in which TeaVM says what it needs.
pub(crate) const SECTION: &str = "teavm.memoryRequirements";

/// What the section says.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Requirements {
    /// Bytes of static data at the beginning of the memory.
    data_size: u32,
}

impl Requirements {
    /// Reads the section; a module without one has no static data.
    pub fn parse(section: Option<&[u8]>) -> Result<Self> {
        section.map_or(Ok(Requirements::default()), |json| {
            serde_json::from_slice(json).with_context(|| format!("the custom section `{SECTION}` is broken"))
        })
    }

    /// Where the program's own heap in linear memory begins: after the static data, aligned for every type.
    pub fn heap_offset(&self) -> i32 {
        let aligned = u64::from(self.data_size).next_multiple_of(16);
        i32::try_from(aligned).unwrap_or(i32::MAX)
    }
}

/// The size that a memory of at most `maximum` pages can reach, as the program is told: an `i32`.
pub(crate) fn max_size(maximum: Option<u64>) -> i32 {
    let bytes = maximum.unwrap_or(u64::MAX).saturating_mul(64 * 1024);
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements() {
        let parse = |json: &str| Requirements::parse(Some(json.as_bytes()));
        let given = parse(r#"{"min":33, "dataSize":52710, "shared": false}"#).unwrap();
        assert_eq!(given.heap_offset(), 52720);
        assert_eq!(Requirements::parse(None).unwrap().heap_offset(), 0);
        assert!(parse("{").is_err());
        assert!(parse(r#"{"dataSize":-1}"#).is_err());
        assert_eq!(max_size(Some(32768)), i32::MAX);
        assert_eq!(max_size(Some(100)), 6_553_600);
        assert_eq!(max_size(None), i32::MAX);
    }
}
