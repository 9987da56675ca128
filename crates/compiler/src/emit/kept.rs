//! The code of one function as bytes, to be kept and loaded again.

use cranelift_codegen::binemit::Reloc;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::code::FunctionCode;

/// The relocations that code has, by their numbers in kept code.
const RELOCATIONS: [Reloc; 3] = [Reloc::X86CallPCRel4, Reloc::X86PCRel4, Reloc::Arm64Call];

/// Of a relocation's kind, its number.
pub(super) fn serialize_kind<S: Serializer>(kind: &Reloc, serializer: S) -> Result<S::Ok, S::Error> {
    let number = RELOCATIONS.iter().position(|known| known == kind);
    let number = number.ok_or_else(|| serde::ser::Error::custom(format!("a relocation of kind {kind:?}")))?;
    (number as u8).serialize(serializer)
}

/// The kind of a relocation, from its number.
pub(super) fn deserialize_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reloc, D::Error> {
    let number = u8::deserialize(deserializer)?;
    RELOCATIONS.get(usize::from(number)).copied().ok_or_else(|| D::Error::custom("an unknown relocation"))
}

impl FunctionCode {
    /// The code as bytes, for [`from_bytes`](Self::from_bytes). `None` where it has something that cannot be kept.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        postcard::to_stdvec(self).ok()
    }

    /// Code from bytes that [`to_bytes`](Self::to_bytes) has made of it: they are trusted. `None` where they are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<FunctionCode> {
        postcard::from_bytes(bytes).ok()
    }
}
