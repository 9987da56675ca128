//! What the host functions of an in-process engine work on: the same for each of them.

use crate::wasi::Wasi;

/// Where the heap of a TeaVM program begins in its linear memory, in bytes: after the static data of every program that
/// the lab runs. The heap itself is hardly used, for objects live elsewhere.
pub(crate) const TEAVM_HEAP_OFFSET: i32 = 1 << 20;

/// The state behind a program's imports.
#[derive(Debug)]
pub(crate) struct Host {
    /// WASI's part.
    pub(crate) wasi: Wasi,
    /// What TeaVM's console or MoonBit's was given, as UTF-16.
    pub(crate) console: Vec<u16>,
}

impl Host {
    /// A fresh state. `arguments` starts with the program's name.
    pub(crate) fn new(arguments: &[String]) -> Host {
        Host { wasi: Wasi::new(arguments), console: Vec::new() }
    }

    /// All that the program has printed.
    pub(crate) fn into_output(self) -> Vec<u8> {
        let mut output = self.wasi.output;
        output.extend(String::from_utf16_lossy(&self.console).bytes());
        output
    }
}

/// Functions of `teavmMath` that Wasm has an instruction for, as a module: a program calls them without leaving
/// compiled code, in every engine alike.
pub(crate) const INSTRUCTIONS: &str = r#"(module
    (func (export "sqrt") (param f64) (result f64) (f64.sqrt (local.get 0)))
    (func (export "floor") (param f64) (result f64) (f64.floor (local.get 0)))
    (func (export "ceil") (param f64) (result f64) (f64.ceil (local.get 0))))"#;

/// A function of `teavmMath`.
#[derive(Clone, Copy)]
pub(crate) enum Math {
    Unary(fn(f64) -> f64),
    Binary(fn(f64, f64) -> f64),
}

/// Any other function of `teavmMath` by its name. They are the system's in every engine but V8, whose last bits may
/// differ.
pub(crate) fn math(name: &str) -> Option<Math> {
    use Math::{Binary, Unary};
    Some(match name {
        "exp" => Unary(f64::exp),
        "log" => Unary(f64::ln),
        "sin" => Unary(f64::sin),
        "cos" => Unary(f64::cos),
        "tan" => Unary(f64::tan),
        "asin" => Unary(f64::asin),
        "acos" => Unary(f64::acos),
        "atan" => Unary(f64::atan),
        "pow" => Binary(f64::powf),
        "atan2" => Binary(f64::atan2),
        _ => return None,
    })
}
