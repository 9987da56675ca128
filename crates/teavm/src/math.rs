//! `teavmMath`: the functions of `java.lang.Math` that TeaVM leaves to its host, with Java's results for special values.

use std::hash::{BuildHasher, RandomState};

/// The function of one argument called `name`.
pub(crate) fn unary(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "acos" => f64::acos,
        "acosh" => f64::acosh,
        "asin" => f64::asin,
        "asinh" => f64::asinh,
        "atan" => f64::atan,
        "atanh" => f64::atanh,
        "cbrt" => f64::cbrt,
        "ceil" => f64::ceil,
        "cos" => f64::cos,
        "cosh" => f64::cosh,
        "exp" => f64::exp,
        "expm1" => f64::exp_m1,
        "floor" => f64::floor,
        "log" => f64::ln,
        "log10" => f64::log10,
        "log1p" => f64::ln_1p,
        "log2" => f64::log2,
        "rint" => f64::round_ties_even,
        "sign" | "signum" => sign,
        "sin" => f64::sin,
        "sinh" => f64::sinh,
        "sqrt" => f64::sqrt,
        "tan" => f64::tan,
        "tanh" => f64::tanh,
        "trunc" => f64::trunc,
        _ => return None,
    })
}

/// The function of two arguments called `name`.
pub(crate) fn binary(name: &str) -> Option<fn(f64, f64) -> f64> {
    Some(match name {
        "atan2" => f64::atan2,
        "hypot" => f64::hypot,
        "max" => max,
        "min" => min,
        "pow" => pow,
        _ => return None,
    })
}

/// Java and JavaScript, unlike C, have no power of one where the exponent is undetermined.
fn pow(base: f64, exponent: f64) -> f64 {
    if exponent.is_nan() || (exponent.is_infinite() && base.abs() == 1.0) { f64::NAN } else { base.powf(exponent) }
}

/// Zeros keep their sign.
fn sign(value: f64) -> f64 {
    if value == 0.0 || value.is_nan() { value } else { value.signum() }
}

/// An operand that is no number makes the result none; a negative zero is less than a positive one.
fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { a } else { b }
    } else {
        a.min(b)
    }
}

fn max(a: f64, b: f64) -> f64 {
    -min(-a, -b)
}

/// A seed that differs from run to run; never zero.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one(0) | 1
}

/// The next number from 0 (inclusive) to 1 (exclusive): xorshift64* (Vigna 2016), 53 bits.
pub(crate) fn random(state: &mut u64) -> f64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    let bits = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_values_are_javas() {
        assert!(pow(1.0, f64::NAN).is_nan());
        assert!(pow(-1.0, f64::INFINITY).is_nan());
        assert_eq!(pow(f64::NAN, 0.0), 1.0);
        assert_eq!(pow(2.0, 10.0), 1024.0);
        assert!(max(1.0, f64::NAN).is_nan());
        assert!(min(0.0, -0.0).is_sign_negative());
        assert!(max(-0.0, 0.0).is_sign_positive());
        assert!(sign(-0.0).is_sign_negative());
    }

    #[test]
    fn random_numbers_fill_the_unit_interval() {
        let mut state = seed();
        let numbers: Vec<f64> = (0..10_000).map(|_| random(&mut state)).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 10_000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
