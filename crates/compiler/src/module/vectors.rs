//! Which processors execute the vector instructions.

use wasmparser::Operator;

use crate::CompileError;

macro_rules! vector_instructions {
    ($( @$proposal:ident $op:ident $({ $($arg:ident: $ty:ty),* })? => $visit:ident ($($rest:tt)*) )*) => {
        fn visitor_name(operator: &Operator<'_>) -> Option<&'static str> {
            match operator {
                $( Operator::$op { .. } => Some(stringify!($visit)), )*
                _ => None,
            }
        }
    };
}

wasmparser::for_each_visit_simd_operator!(vector_instructions);

/// Refuses a vector instruction, at this offset of the module file, by its name in the text format, on processors that
/// lack what code for it is made of.
pub(crate) fn check_vectors(operator: &Operator<'_>, offset: usize) -> Result<(), CompileError> {
    if has_vectors() { Ok(()) } else { refuse(operator, offset) }
}

/// Whether this processor has vectors. On x86-64 Intel's have since 2008, AMD's since 2011 or 2013.
fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sse4.1");
    #[cfg(not(target_arch = "x86_64"))]
    true
}

fn refuse(operator: &Operator<'_>, offset: usize) -> Result<(), CompileError> {
    let Some(name) = visitor_name(operator) else { return Ok(()) };
    let name = name.trim_start_matches("visit_").replacen('_', ".", 1);
    Err(CompileError::Unsupported { what: format!("{name} on a processor without SSE4.1"), offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_instructions_are_refused_by_name() {
        let error = refuse(&Operator::I8x16Splat, 7).unwrap_err().to_string();
        assert!(error.contains("i8x16.splat on a processor without SSE4.1") && error.contains("0x7"), "{error}");
        assert!(refuse(&Operator::I32Add, 7).is_ok());
    }
}
