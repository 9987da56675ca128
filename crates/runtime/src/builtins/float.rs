//! Rounding, for processors without the instructions.

macro_rules! rounding {
    ($($name:ident $ty:ty, $value:ident => $result:expr;)*) => { $(
        /// The builtin of this name.
        pub(super) extern "C" fn $name(_context: *mut u8, $value: $ty) -> $ty {
            $result
        }
    )* };
}

rounding! {
    ceil_f64 f64, value => quiet_f64(value, f64::ceil);
    floor_f64 f64, value => quiet_f64(value, f64::floor);
    trunc_f64 f64, value => quiet_f64(value, f64::trunc);
    nearest_f64 f64, value => quiet_f64(value, f64::round_ties_even);
    ceil_f32 f32, value => quiet_f32(value, f32::ceil);
    floor_f32 f32, value => quiet_f32(value, f32::floor);
    trunc_f32 f32, value => quiet_f32(value, f32::trunc);
    nearest_f32 f32, value => quiet_f32(value, f32::round_ties_even);
}

/// A signalling NaN becomes quiet, as an instruction would make it.
fn quiet_f64(value: f64, round: fn(f64) -> f64) -> f64 {
    if value.is_nan() { f64::from_bits(value.to_bits() | 1 << 51) } else { round(value) }
}

fn quiet_f32(value: f32, round: fn(f32) -> f32) -> f32 {
    if value.is_nan() { f32::from_bits(value.to_bits() | 1 << 22) } else { round(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_signs_and_ties() {
        let none = std::ptr::null_mut();
        assert_eq!(nearest_f64(none, 2.5), 2.0);
        assert_eq!(nearest_f32(none, -0.4).to_bits(), (-0.0f32).to_bits());
        assert_eq!(ceil_f64(none, -0.5).to_bits(), (-0.0f64).to_bits());
        assert_eq!(trunc_f32(none, f32::from_bits(0x7f80_0001)).to_bits(), 0x7fc0_0001);
    }
}
