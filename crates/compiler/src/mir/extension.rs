//! How narrow integers become wider ones.

/// How a packed field is extended to `i32`, or a lane of a vector to a wider one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extension {
    /// Not packed, or no integer.
    None,
    /// Sign-extended.
    Signed,
    /// Zero-extended.
    Unsigned,
}
