//! What Wasm has an instruction for: compiled code calls these functions without leaving compiled code.

use std::fmt::Write;

use anyhow::Result;
use legato::{Engine, Module};

/// A function's name, and the instruction that does the same: zeros keep their sign, a negative zero is less than a
/// positive one, and an operand that is no number makes the result none.
const INSTRUCTIONS: [(&str, &str); 8] = [
    ("abs", "f64.abs"),
    ("ceil", "f64.ceil"),
    ("floor", "f64.floor"),
    ("max", "f64.max"),
    ("min", "f64.min"),
    ("rint", "f64.nearest"),
    ("sqrt", "f64.sqrt"),
    ("trunc", "f64.trunc"),
];

/// A module that exports, by their names, those functions of `teavmMath` that `program` imports and Wasm has an
/// instruction for. No others, so that none is compiled in vain. `None` where there are none. The engine keeps it for
/// all programs that import the same.
///
/// # Errors
///
/// If the engine cannot compile it.
pub(crate) fn instructions(engine: &Engine, program: &Module) -> Result<Option<Module>> {
    let mut imported = [false; INSTRUCTIONS.len()];
    for import in program.imports().filter(|import| import.module() == "teavmMath") {
        if let Ok(index) = INSTRUCTIONS.binary_search_by_key(&import.name(), |&(name, _)| name) {
            imported[index] = true;
        }
    }
    if !imported.contains(&true) {
        return Ok(None);
    }
    let mut text = String::from("(module $teavmMath");
    for ((name, instruction), _) in INSTRUCTIONS.into_iter().zip(imported).filter(|&(_, imported)| imported) {
        let (parameters, operands) = match name {
            "max" | "min" => ("f64 f64", "(local.get 0) (local.get 1)"),
            _ => ("f64", "(local.get 0)"),
        };
        // The function's name is for profilers.
        write!(
            text,
            " (func $teavmMath.{name} (export \"{name}\") (param {parameters}) (result f64) ({instruction} {operands}))"
        )?;
    }
    text.push(')');
    Module::shared(engine, text).map(Some)
}
