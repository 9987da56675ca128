//! Functions of `java.lang.StrictMath` where the crate `libm` rounds otherwise in the last place: fdlibm 5.3 as it is.
//!
//! `libm` follows FreeBSD's revision of fdlibm, whose `exp`, `expm1`, `pow`, `tan`, `asin`, `acos` and `atan` give the
//! same bits.
//!
//! The algorithms and constants are those of fdlibm, which asks for its notice to be kept:
//!
//! Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved. Developed at SunSoft, a Sun Microsystems, Inc.
//! business. Permission to use, copy, modify, and distribute this software is freely granted, provided that this notice
//! is preserved.
#![allow(clippy::excessive_precision, reason = "constants as the source writes them")]
#![allow(clippy::match_overlapping_arm, reason = "the first arm that is reached takes the number")]

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, LOG10_E, PI};

const TWO_54: f64 = 18014398509481984.0;
const LN2_HIGH: f64 = 6.93147180369123816490e-01;
const LN2_LOW: f64 = 1.90821492927058770002e-10;
/// What pi has beyond its 53 bits.
const PI_LOW: f64 = 1.2246467991473531772e-16;
/// The high word of the infinities and of whatever is no number begins here.
const NOT_FINITE: u32 = 0x7ff0_0000;
/// The high words of the least numbers whose exponential, and half of it, is infinite; and the latter's low word.
const EXP_OVERFLOWS: u32 = 0x4086_2e42;
const HALF_EXP_OVERFLOWS: u64 = 0x4086_33ce_8fb9_f87d;

/// Sign, exponent, and the first 20 bits.
fn high(x: f64) -> u32 {
    (x.to_bits() >> 32) as u32
}

fn with_high(x: f64, high: u32) -> f64 {
    f64::from_bits(u64::from(high) << 32 | x.to_bits() & 0xffff_ffff)
}

/// The number with this high word and no low one.
fn from_high(high: u32) -> f64 {
    f64::from_bits(u64::from(high) << 32)
}

/// The sum of the products of `coefficients` and the powers of `x`, the highest first to be computed.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().rev().copied().reduce(|sum, coefficient| coefficient + x * sum).unwrap_or(0.0)
}

/// The sine of a number within a quarter of pi, `tail` being what it lacks, if anything.
fn sin_kernel(x: f64, tail: Option<f64>) -> f64 {
    const FIRST: f64 = -1.66666666666666324348e-01;
    const OTHERS: [f64; 5] = [
        8.33333333332248946124e-03,
        -1.98412698298579493134e-04,
        2.75573137070700676789e-06,
        -2.50507602534068634195e-08,
        1.58969099521155010221e-10,
    ];
    if high(x) & !(1 << 31) < 0x3e40_0000 {
        return x;
    }
    let z = x * x;
    let v = z * x;
    let r = polynomial(z, &OTHERS);
    match tail {
        None => x + v * (FIRST + z * r),
        Some(y) => x - ((z * (0.5 * y - v * r) - y) - v * FIRST),
    }
}

/// The cosine of a number within a quarter of pi, `y` being what it lacks.
fn cos_kernel(x: f64, y: f64) -> f64 {
    const C: [f64; 6] = [
        4.16666666666666019037e-02,
        -1.38888888888741095749e-03,
        2.48015872894767294178e-05,
        -2.75573143513906633035e-07,
        2.08757232129817482790e-09,
        -1.13596475577881948265e-11,
    ];
    let word = high(x) & !(1 << 31);
    if word < 0x3e40_0000 {
        return 1.0;
    }
    let z = x * x;
    let r = z * polynomial(z, &C);
    if word < 0x3fd3_3333 {
        return 1.0 - (0.5 * z - (z * r - x * y));
    }
    let quarter = if word > 0x3fe9_0000 { 0.28125 } else { from_high(word - 0x0020_0000) };
    (1.0 - quarter) - ((0.5 * z - quarter) - (z * r - x * y))
}

/// The multiple of half of pi next to `x`, and `x` less that multiple, in two parts. `None` from some millions on.
fn less_half_pis(x: f64) -> Option<(i32, f64, f64)> {
    // Half of pi less what has gone before, to 33 bits, and all that remains.
    const PARTS: [(f64, f64); 3] = [
        (1.57079632673412561417e+00, 6.07710050650619224932e-11),
        (6.07710050630396597660e-11, 2.02226624879595063154e-21),
        (2.02226624871116645580e-21, 8.47842766036889956997e-32),
    ];
    let word = high(x) & !(1 << 31);
    let magnitude = x.abs();
    let (n, y0, y1) = if word < 0x4002_d97c {
        let mut z = magnitude - PARTS[0].0;
        let mut rest = PARTS[0].1;
        if word == 0x3ff9_21fb {
            // So near to half of pi that more bits are needed.
            z -= PARTS[1].0;
            rest = PARTS[1].1;
        }
        let y0 = z - rest;
        (1, y0, (z - y0) - rest)
    } else if word <= 0x4139_21fb {
        let n = (magnitude * FRAC_2_PI + 0.5) as i32;
        let count = f64::from(n);
        let (mut r, mut w) = (magnitude - count * PARTS[0].0, count * PARTS[0].1);
        let mut y0 = r - w;
        if n >= 32 || word == high(count * FRAC_PI_2) {
            // Where many bits have cancelled each other, more of pi are needed.
            for (part, least) in [(1, 16), (2, 49)] {
                if (word >> 20) as i32 - (high(y0) >> 20 & 0x7ff) as i32 <= least {
                    break;
                }
                let t = r;
                w = count * PARTS[part].0;
                r = t - w;
                w = count * PARTS[part].1 - ((t - r) - w);
                y0 = r - w;
            }
        }
        (n, y0, (r - y0) - w)
    } else {
        return None;
    };
    Some(if x.is_sign_negative() { (-n, -y0, -y1) } else { (n, y0, y1) })
}

/// From some millions on, now and then one unit in the last place off.
pub(super) fn sin(x: f64) -> f64 {
    if high(x) & !(1 << 31) <= 0x3fe9_21fb {
        return sin_kernel(x, None);
    }
    match less_half_pis(x) {
        None => libm::sin(x),
        Some((n, x, y)) => match n & 3 {
            0 => sin_kernel(x, Some(y)),
            1 => cos_kernel(x, y),
            2 => -sin_kernel(x, Some(y)),
            _ => -cos_kernel(x, y),
        },
    }
}

/// As for [`sin`].
pub(super) fn cos(x: f64) -> f64 {
    if high(x) & !(1 << 31) <= 0x3fe9_21fb {
        return cos_kernel(x, 0.0);
    }
    match less_half_pis(x) {
        None => libm::cos(x),
        Some((n, x, y)) => match n & 3 {
            0 => cos_kernel(x, y),
            1 => -sin_kernel(x, Some(y)),
            2 => -cos_kernel(x, y),
            _ => sin_kernel(x, Some(y)),
        },
    }
}

/// A positive number as `2^k * x`, with `x` normal; the logarithm where that is known at once.
fn scaled(x: f64) -> Result<(i32, f64), f64> {
    if x == 0.0 {
        Err(f64::NEG_INFINITY)
    } else if x < 0.0 {
        Err(f64::NAN)
    } else if high(x) >= NOT_FINITE {
        Err(x + x)
    } else if high(x) < 0x0010_0000 {
        Ok((-54, x * TWO_54))
    } else {
        Ok((0, x))
    }
}

pub(super) fn log(x: f64) -> f64 {
    const EVEN: [f64; 3] = [3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01];
    const ODD: [f64; 4] =
        [6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01, 1.479819860511658591e-01];
    let (mut k, x) = match scaled(x) {
        Ok(scaled) => scaled,
        Err(known) => return known,
    };
    k += (high(x) >> 20) as i32 - 1023;
    let word = high(x) & 0xf_ffff;
    let carry = (word + 0x9_5f64) & 0x10_0000;
    let f = with_high(x, word | (carry ^ 0x3ff0_0000)) - 1.0;
    k += (carry >> 20) as i32;
    let dk = f64::from(k);
    if 0xf_ffff & (2 + word) < 3 {
        if f == 0.0 {
            return if k == 0 { 0.0 } else { dk * LN2_HIGH + dk * LN2_LOW };
        }
        let r = f * f * (0.5 - 0.33333333333333333 * f);
        return if k == 0 { f - r } else { dk * LN2_HIGH - ((r - dk * LN2_LOW) - f) };
    }
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let r = z * polynomial(w, &ODD) + w * polynomial(w, &EVEN);
    let is_middle = (word as i32 - 0x6_147a) | (0x6_b851 - word as i32) > 0;
    match (is_middle, k) {
        (true, 0) => {
            let half = 0.5 * f * f;
            f - (half - s * (half + r))
        }
        (true, _) => {
            let half = 0.5 * f * f;
            dk * LN2_HIGH - ((half - (s * (half + r) + dk * LN2_LOW)) - f)
        }
        (false, 0) => f - s * (f - r),
        (false, _) => dk * LN2_HIGH - ((s * (f - r) - dk * LN2_LOW) - f),
    }
}

pub(super) fn log10(x: f64) -> f64 {
    const LOG10_2_HIGH: f64 = 3.01029995663611771306e-01;
    const LOG10_2_LOW: f64 = 3.69423907715893078616e-13;
    let (mut k, x) = match scaled(x) {
        Ok(scaled) => scaled,
        Err(known) => return known,
    };
    k += (high(x) >> 20) as i32 - 1023;
    let below_one = u32::from(k < 0);
    let x = with_high(x, high(x) & 0xf_ffff | (0x3ff - below_one) << 20);
    let y = f64::from(k + below_one as i32);
    (y * LOG10_2_LOW + LOG10_E * log(x)) + y * LOG10_2_HIGH
}

pub(super) fn log1p(x: f64) -> f64 {
    const LP: [f64; 7] = [
        6.666666666666735130e-01,
        3.999999999940941908e-01,
        2.857142874366239149e-01,
        2.222219843214978396e-01,
        1.818357216161805012e-01,
        1.531383769920937332e-01,
        1.479819860511658591e-01,
    ];
    let word = high(x) as i32;
    let magnitude = word & 0x7fff_ffff;
    if x <= -1.0 {
        return if x == -1.0 { f64::NEG_INFINITY } else { f64::NAN };
    }
    if word >= NOT_FINITE as i32 || x.is_nan() {
        return x + x;
    }
    if magnitude < 0x3e20_0000 {
        return if magnitude < 0x3c90_0000 { x } else { x - x * x * 0.5 };
    }
    // 1 + x = 2^k * (1 + f), but for c; `rest` is zero where f is small.
    let (mut k, mut f, mut rest, mut c) = (0, x, 1, 0.0);
    if !(word < 0x3fda_827a && (word > 0 || word <= 0xbfd2_bec3_u32 as i32)) {
        let mut u = x;
        if word < 0x4340_0000 {
            u = 1.0 + x;
            k = (high(u) >> 20) as i32 - 1023;
            c = (if k > 0 { 1.0 - (u - x) } else { x - (u - 1.0) }) / u;
        } else {
            k = (high(u) >> 20) as i32 - 1023;
        }
        rest = high(u) & 0xf_ffff;
        if rest < 0x6_a09e {
            u = with_high(u, rest | 0x3ff0_0000);
        } else {
            k += 1;
            u = with_high(u, rest | 0x3fe0_0000);
            rest = (0x0010_0000 - rest) >> 2;
        }
        f = u - 1.0;
    }
    let dk = f64::from(k);
    let half = 0.5 * f * f;
    if rest == 0 {
        if f == 0.0 {
            return if k == 0 { 0.0 } else { dk * LN2_HIGH + (c + dk * LN2_LOW) };
        }
        let r = half * (1.0 - 0.66666666666666666 * f);
        return if k == 0 { f - r } else { dk * LN2_HIGH - ((r - (dk * LN2_LOW + c)) - f) };
    }
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * polynomial(z, &LP);
    if k == 0 {
        f - (half - s * (half + r))
    } else {
        dk * LN2_HIGH - ((half - (s * (half + r) + (dk * LN2_LOW + c))) - f)
    }
}

/// Half of the exponential of a number of at least 22, times `sign`.
fn half_exp(magnitude: f64, sign: f64) -> f64 {
    if high(magnitude) < EXP_OVERFLOWS {
        return 0.5 * sign * libm::exp(magnitude);
    }
    if magnitude.to_bits() <= HALF_EXP_OVERFLOWS {
        let root = libm::exp(0.5 * magnitude);
        return 0.5 * sign * root * root;
    }
    sign * magnitude * f64::INFINITY
}

pub(super) fn cosh(x: f64) -> f64 {
    let magnitude = x.abs();
    match high(magnitude) {
        NOT_FINITE.. => x * x,
        ..0x3fd6_2e43 => {
            let t = libm::expm1(magnitude);
            let w = 1.0 + t;
            if high(magnitude) < 0x3c80_0000 { w } else { 1.0 + (t * t) / (w + w) }
        }
        ..0x4036_0000 => {
            let t = libm::exp(magnitude);
            0.5 * t + 0.5 / t
        }
        _ => half_exp(magnitude, 1.0),
    }
}

pub(super) fn sinh(x: f64) -> f64 {
    let (magnitude, sign) = (x.abs(), 1f64.copysign(x));
    match high(magnitude) {
        NOT_FINITE.. => x + x,
        ..0x3e30_0000 => x,
        word @ ..0x4036_0000 => {
            let t = libm::expm1(magnitude);
            let half = 0.5 * sign;
            if word < 0x3ff0_0000 { half * (2.0 * t - t * t / (t + 1.0)) } else { half * (t + t / (t + 1.0)) }
        }
        _ => half_exp(magnitude, sign),
    }
}

pub(super) fn tanh(x: f64) -> f64 {
    let magnitude = x.abs();
    let z = match high(magnitude) {
        _ if x.is_nan() => return x,
        ..0x3c80_0000 => return x * (1.0 + x),
        ..0x3ff0_0000 => {
            let t = libm::expm1(-2.0 * magnitude);
            -t / (t + 2.0)
        }
        ..0x4036_0000 => 1.0 - 2.0 / (libm::expm1(2.0 * magnitude) + 2.0),
        _ => 1.0,
    };
    z.copysign(x)
}

pub(super) fn cbrt(x: f64) -> f64 {
    // (682 - 0.03306235651) * 2^20 and (664 - 0.03306235651) * 2^20.
    const NORMAL: u32 = 715_094_163;
    const SUBNORMAL: u32 = 696_219_795;
    let magnitude = x.abs();
    let word = high(magnitude);
    if word >= NOT_FINITE || x == 0.0 {
        return x + x;
    }
    let guess = if word < 0x0010_0000 { high(TWO_54 * magnitude) / 3 + SUBNORMAL } else { word / 3 + NORMAL };
    let low = if word < 0x0010_0000 { TWO_54 * magnitude } else { 0.0 };
    let mut t = with_high(low, guess);
    let r = t * t / magnitude;
    let s = 5.42857142857142815906e-01 + r * t;
    t *= 3.57142857142857150787e-01
        + 1.60714285714285720630e+00 / (s + 1.41428571428571436819e+00 + -7.05306122448979611050e-01 / s);
    // Cut to 20 bits, larger than the root: its square is exact then.
    t = from_high(high(t) + 1);
    let r = magnitude / (t * t);
    let t = t + t * ((r - t) / (t + t + r));
    t.copysign(x)
}

pub(super) fn hypot(x: f64, y: f64) -> f64 {
    let (mut a, mut b) = if x.abs() >= y.abs() || x.is_nan() { (x.abs(), y.abs()) } else { (y.abs(), x.abs()) };
    if a.is_infinite() || b.is_infinite() {
        return f64::INFINITY;
    }
    if a.is_nan() || b.is_nan() || high(a) - high(b).min(high(a)) > 0x03c0_0000 {
        return a + b;
    }
    let mut scale = 1.0;
    if high(a) > 0x5f30_0000 {
        scale = from_high((1023 + 600) << 20);
        (a, b) = (a / scale, b / scale);
    }
    let (mut a_word, mut b_word) = (high(a), high(b));
    if b_word < 0x20b0_0000 {
        if b == 0.0 {
            return a * scale;
        }
        let up = if b_word < 0x0010_0000 { 1022 } else { 600 };
        let factor = from_high((1023 + up) << 20);
        (a, b, scale) = (a * factor, b * factor, scale / factor);
        if up == 600 {
            (a_word, b_word) = (high(a), high(b));
        }
    }
    let w = a - b;
    let root = if w > b {
        let t1 = from_high(a_word);
        let t2 = a - t1;
        (t1 * t1 - (b * -b - t2 * (a + t1))).sqrt()
    } else {
        let a = a + a;
        let y1 = from_high(b_word);
        let y2 = b - y1;
        let t1 = from_high(a_word + 0x0010_0000);
        let t2 = a - t1;
        (t1 * y1 - (w * -w - (t1 * y2 + t2 * b))).sqrt()
    };
    root * scale
}

/// As [`libm::atan2`], but where `x` is negative and nothing beside `y`.
pub(super) fn atan2(y: f64, x: f64) -> f64 {
    let exponent = |value: f64| (high(value) & !(1 << 31)) as i32;
    let is_ordinary = x.is_finite() && y.is_finite() && x < 0.0 && y != 0.0;
    if is_ordinary && (exponent(y) - exponent(x)) >> 20 > 60 {
        return (PI - (FRAC_PI_2 - PI_LOW)).copysign(y);
    }
    libm::atan2(y, x)
}
