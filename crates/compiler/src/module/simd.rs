//! Recognises the vector instructions, which this engine does not execute.

use wasmparser::Operator;

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

/// The instruction's name in the text format if it is a vector instruction.
pub(crate) fn simd_name(operator: &Operator<'_>) -> Option<String> {
    visitor_name(operator).map(|name| name.trim_start_matches("visit_").replacen('_', ".", 1))
}
