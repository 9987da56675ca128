//! `teavmMath`: the functions of `java.lang.Math` that TeaVM leaves to its host, with Java's results to the last bit:
//! those of `StrictMath`, whatever the system's C library. (From some millions on, sine and cosine are at times one
//! unit in the last place off.) Java has no `acosh`, `asinh`, `atanh` and `log2`: these follow fdlibm's revision in the
//! crate `libm`.

mod instructions;
mod strict;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};

pub(crate) use instructions::instructions;

/// The function of one argument called `name`, unless Wasm has an instruction for it ([`instructions()`]).
pub(crate) fn unary(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "acos" => libm::acos,
        "acosh" => libm::acosh,
        "asin" => libm::asin,
        "asinh" => libm::asinh,
        "atan" => libm::atan,
        "atanh" => libm::atanh,
        "cbrt" => strict::cbrt,
        "cos" => strict::cos,
        "cosh" => strict::cosh,
        "exp" => libm::exp,
        "expm1" => libm::expm1,
        "log" => strict::log,
        "log10" => strict::log10,
        "log1p" => strict::log1p,
        "log2" => libm::log2,
        "sign" | "signum" => sign,
        "sin" => strict::sin,
        "sinh" => strict::sinh,
        "tan" => libm::tan,
        "tanh" => strict::tanh,
        _ => return None,
    })
}

/// As [`unary`], of two arguments.
pub(crate) fn binary(name: &str) -> Option<fn(f64, f64) -> f64> {
    Some(match name {
        "atan2" => strict::atan2,
        "hypot" => strict::hypot,
        "pow" => pow,
        _ => return None,
    })
}

/// Java and JavaScript, unlike C, have no power of one where the exponent is undetermined.
fn pow(base: f64, exponent: f64) -> f64 {
    if exponent.is_nan() || (exponent.is_infinite() && base.abs() == 1.0) {
        f64::NAN
    } else {
        libm::pow(base, exponent)
    }
}

/// Zeros keep their sign.
fn sign(value: f64) -> f64 {
    if value == 0.0 || value.is_nan() { value } else { value.signum() }
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
