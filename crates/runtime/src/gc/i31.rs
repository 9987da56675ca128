//! 31-bit integers.

/// A 31-bit integer, the value of an `i31ref`.
///
/// ```
/// use legato::I31;
///
/// assert_eq!(I31::new_i32(-5).map(|value| value.get_i32()), Some(-5));
/// assert_eq!(I31::new_i32(1 << 30), None);
/// assert_eq!(I31::wrapping_i32(-1).get_u32(), 0x7fff_ffff);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct I31(u32);

impl I31 {
    /// The value, if it fits 31 bits unsigned.
    pub fn new_u32(value: u32) -> Option<I31> {
        (value < 1 << 31).then_some(I31(value))
    }

    /// The value, if it fits 31 bits signed.
    pub fn new_i32(value: i32) -> Option<I31> {
        (-(1 << 30)..1 << 30).contains(&value).then_some(I31::wrapping_i32(value))
    }

    /// The low 31 bits of a value.
    pub fn wrapping_u32(value: u32) -> I31 {
        I31(value & 0x7fff_ffff)
    }

    /// The low 31 bits of a value.
    pub fn wrapping_i32(value: i32) -> I31 {
        I31::wrapping_u32(value as u32)
    }

    /// Zero-extended.
    pub fn get_u32(&self) -> u32 {
        self.0
    }

    /// Sign-extended.
    pub fn get_i32(&self) -> i32 {
        (self.0 << 1) as i32 >> 1
    }
}
