//! Recognises the vector instructions, which this engine does not execute.

use wasmparser::Operator;

use crate::CompileError;

macro_rules! name_of_simd {
    ($( @$proposal:ident $op:ident $({ $($arg:ident: $ty:ty),* })? => $visit:ident ($($rest:tt)*) )*) => {
        fn visitor_name(operator: &Operator<'_>) -> Option<&'static str> {
            match operator {
                $( Operator::$op { .. } => Some(stringify!($visit)), )*
                _ => None,
            }
        }
    };
}

wasmparser::for_each_visit_simd_operator!(name_of_simd);

/// Refuses a vector instruction, at this offset of the module file, by its name in the text format.
pub(crate) fn refuse_simd(operator: &Operator<'_>, offset: usize) -> Result<(), CompileError> {
    let Some(name) = visitor_name(operator) else { return Ok(()) };
    let what = name.trim_start_matches("visit_").replacen('_', ".", 1);
    Err(CompileError::Unsupported { what, offset })
}
