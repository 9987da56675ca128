//! The 32-bit reference.

/// A reference as compiled code holds it: null, an immediate (Wasm `i31`), or an offset into the heap's cage (of the
/// object itself, or of its handle, depending on the reference model).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Reference(pub u32);

impl Reference {
    /// The null reference.
    pub const NULL: Reference = Reference(0);

    /// The immediate that holds the low 31 bits of `value`.
    pub const fn from_i31(value: i32) -> Reference {
        Reference((value as u32) << 1 | 1)
    }

    /// Whether this is null.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Whether this is an immediate.
    pub const fn is_i31(self) -> bool {
        self.0 & 1 == 1
    }

    /// The immediate's value, sign-extended; `None` for null and for objects.
    pub const fn i31(self) -> Option<i32> {
        if self.is_i31() { Some(self.0 as i32 >> 1) } else { None }
    }

    /// Whether this names an object.
    pub const fn is_object(self) -> bool {
        !self.is_null() && !self.is_i31()
    }
}
