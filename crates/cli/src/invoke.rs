//! `--invoke`: arguments from text, results to text.

use anyhow::Result;
use legato::{AsContext, Instance, Store, Val, ValType};
use wast::parser::{self, Parse, ParseBuffer};
use wast::token::{F32, F64};

use crate::exit::UsageError;

/// Calls the exported function `name` with `args` and returns its results as text, one on each line. A reactor is
/// initialised first.
///
/// # Errors
///
/// A [`UsageError`] if there is no such function or the arguments do not fit it; and what ends the guest.
pub fn invoke<T: 'static>(store: &mut Store<T>, instance: &Instance, name: &str, args: &[&str]) -> Result<String> {
    let Some(function) = instance.get_func(&mut *store, name) else {
        let text = format!(
            "--invoke {name}: the module exports no function of this name (`legato inspect` lists its exports)"
        );
        return Err(UsageError(text).into());
    };
    let ty = function.ty(&*store);
    let params: Vec<ValType> = ty.params().collect();
    if params.len() != args.len() {
        let types: Vec<_> = params.iter().map(ToString::to_string).collect();
        let text = match types.len() {
            0 => format!("--invoke {name}: it takes no arguments, not {}", args.len()),
            1 => format!("--invoke {name}: it takes 1 argument ({}), not {}", types[0], args.len()),
            count => format!("--invoke {name}: it takes {count} arguments ({}), not {}", types.join(", "), args.len()),
        };
        return Err(UsageError(text).into());
    }
    let values = params
        .iter()
        .zip(args)
        .map(|(ty, text)| {
            parse(ty, text).ok_or_else(|| UsageError(format!("--invoke {name}: `{text}` is no value of type {ty}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    if name != "_initialize"
        && let Some(initialize) = instance.get_func(&mut *store, "_initialize")
        && initialize.ty(&*store).params().len() == 0
    {
        initialize.call(&mut *store, &[], &mut [])?;
    }
    let mut results = vec![Val::I32(0); ty.results().len()];
    function.call(&mut *store, &values, &mut results)?;
    Ok(results.iter().map(|result| show(&*store, result) + "\n").collect())
}

/// The value that `text` stands for: numbers in decimal or, after 0x, in hexadecimal, signed or not; `null` for
/// references.
fn parse(ty: &ValType, text: &str) -> Option<Val> {
    Some(match ty {
        ValType::I32 => {
            let value = integer(text)?;
            Val::I32(i32::try_from(value).ok().or_else(|| u32::try_from(value).ok().map(|value| value as i32))?)
        }
        ValType::I64 => {
            let value = integer(text)?;
            Val::I64(i64::try_from(value).ok().or_else(|| u64::try_from(value).ok().map(|value| value as i64))?)
        }
        ValType::F32 => Val::F32(match text.parse::<f32>() {
            Ok(value) => value.to_bits(),
            Err(_) => literal::<F32>(text)?.bits,
        }),
        ValType::F64 => Val::F64(match text.parse::<f64>() {
            Ok(value) => value.to_bits(),
            Err(_) => literal::<F64>(text)?.bits,
        }),
        ValType::V128 => {
            let digits = text.strip_prefix("0x")?;
            Val::V128(u128::from_str_radix(&digits.replace('_', ""), 16).ok()?.into())
        }
        ValType::Ref(ty) if ty.is_nullable() && text == "null" => Val::null_ref(ty.heap_type()),
        ValType::Ref(_) => return None,
    })
}

/// A number as the text format writes it: in hexadecimal, too, and `nan:0x...`.
fn literal<T: for<'a> Parse<'a>>(text: &str) -> Option<T> {
    let text = ParseBuffer::new(text).ok()?;
    parser::parse(&text).ok()
}

fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    // Another sign would pass the parsers below.
    if !digits.starts_with(|char: char| char.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace('_', "");
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => i128::from(u64::from_str_radix(digits, 16).ok()?),
        None => i128::from(digits.parse::<u64>().ok()?),
    };
    Some(if negative { -value } else { value })
}

/// A value as it is printed.
pub fn show(store: impl AsContext, value: &Val) -> String {
    match *value {
        Val::I32(value) => value.to_string(),
        Val::I64(value) => value.to_string(),
        Val::F32(bits) => f32::from_bits(bits).to_string(),
        Val::F64(bits) => f64::from_bits(bits).to_string(),
        Val::V128(value) => format!("{:#034x}", value.as_u128()),
        Val::FuncRef(None) | Val::ExternRef(None) | Val::AnyRef(None) | Val::ExnRef(None) => "null".into(),
        Val::AnyRef(Some(any)) => match any.as_i31(store.as_context()) {
            Ok(Some(small)) => format!("i31 {}", small.get_i32()),
            _ => reference(store, value),
        },
        _ => reference(store, value),
    }
}

/// A reference's type, which is all that can be said of it.
fn reference(store: impl AsContext, value: &Val) -> String {
    value.ty(store).map_or_else(|error| error.to_string(), |ty| ty.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_from_text() {
        let number = |text| parse(&ValType::I32, text).and_then(|value| value.i32());
        assert_eq!(number("-5"), Some(-5));
        assert_eq!(number("4294967295"), Some(-1));
        assert_eq!(number("0xff"), Some(255));
        assert_eq!(number("-2147483648"), Some(i32::MIN));
        for wrong in ["", "-", "x", "4294967296", "-2147483649", "--5", "+-5", "0x", "1.5"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
        assert_eq!(parse(&ValType::I64, "18446744073709551615").and_then(|value| value.i64()), Some(-1));
        assert_eq!(parse(&ValType::F64, "1e3").and_then(|value| value.f64()), Some(1000.0));
        let double = |text| parse(&ValType::F64, text).and_then(|value| value.f64());
        let single = |text| parse(&ValType::F32, text).and_then(|value| value.f32());
        assert_eq!(double("0x1.8p1"), Some(3.0));
        assert_eq!(double("-0x1p-1074"), Some(-f64::from_bits(1)));
        assert_eq!(double("0x1.fffffffffffffp1023"), Some(f64::MAX));
        assert_eq!(single("0x1.fffffep127"), Some(f32::MAX));
        assert_eq!(single("0x1.0000008p0"), Some(1.0), "halves are rounded to even");
        assert_eq!(double("-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(single("nan:0x200000").map(f32::to_bits), Some(0x7fa0_0000));
        for wrong in ["", "x", "0x", "0x1.8p", "1e", "0x1p99999 ", "(f64.const 1)", "1 2", "0x1p1024"] {
            assert_eq!(double(wrong), None, "{wrong}");
        }
        assert!(matches!(parse(&ValType::ANYREF, "null"), Some(Val::AnyRef(None))));
        assert!(parse(&ValType::ANYREF, "1").is_none());
    }
}
