//! Which of the language's features a module uses.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{HeapType, Operator, RefType, ValType};

/// Features by name, each with what of it was seen.
#[derive(Debug, Default)]
pub struct Features {
    used: BTreeMap<&'static str, BTreeSet<String>>,
}

/// How many examples of a feature are shown.
const EXAMPLES: usize = 4;

impl Features {
    /// Notes that `what` was seen, which belongs to `feature`.
    pub fn note(&mut self, feature: &'static str, what: &str) {
        let seen = self.used.entry(feature).or_default();
        if !seen.contains(what) {
            seen.insert(what.to_string());
        }
    }

    /// Notes what a type tells.
    pub fn value_type(&mut self, ty: ValType) {
        match ty {
            ValType::V128 => self.note("simd", "v128"),
            ValType::Ref(ty) => self.reference_type(ty),
            _ => {}
        }
    }

    /// Notes what a reference type tells.
    pub fn reference_type(&mut self, ty: RefType) {
        if ty == RefType::EXTERNREF {
            return self.note("reference-types", "externref");
        }
        if ty == RefType::FUNCREF {
            return;
        }
        match ty.heap_type() {
            HeapType::Abstract {
                ty: wasmparser::AbstractHeapType::Exn | wasmparser::AbstractHeapType::NoExn, ..
            } => {
                self.note("exception-handling", "exnref");
            }
            HeapType::Abstract {
                ty: wasmparser::AbstractHeapType::Func | wasmparser::AbstractHeapType::Extern,
                ..
            } => {
                self.note("function-references", "non-null references");
            }
            HeapType::Abstract { .. } => self.note("gc", "abstract reference types"),
            // A reference to a struct or array belongs to gc, which the type itself shows.
            HeapType::Concrete(_) | HeapType::Exact(_) => self.note("function-references", "typed references"),
        }
    }

    /// Notes what an instruction tells.
    pub fn operator(&mut self, operator: &Operator<'_>) {
        let (proposal, visitor) = classify(operator);
        let feature = match proposal {
            "mvp" => return,
            "bulk_memory" => "bulk-memory",
            "exceptions" => "exception-handling",
            "function_references" => "function-references",
            "legacy_exceptions" => "legacy-exceptions",
            "reference_types" => "reference-types",
            "relaxed_simd" => "relaxed-simd",
            "saturating_float_to_int" => "saturating-conversions",
            "sign_extension" => "sign-extension",
            "tail_call" => "tail-call",
            other => other,
        };
        self.note(feature, &instruction_name(visitor));
    }

    /// One line for each feature: its name, whether Legato runs it, and what was seen of it.
    pub fn lines(&self) -> Vec<String> {
        self.used
            .iter()
            .map(|(feature, seen)| {
                let shown: Vec<_> = seen.iter().map(String::as_str).take(EXAMPLES).collect();
                let more = match seen.len() - shown.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let remark = match remark(feature) {
                    "" => String::new(),
                    remark => format!("  [{remark}]"),
                };
                format!("{feature:<24}{}{more}{remark}", shown.join(", "))
            })
            .collect()
    }
}

fn remark(feature: &str) -> &'static str {
    match feature {
        "bulk-memory"
        | "exception-handling"
        | "extended-const"
        | "function-references"
        | "gc"
        | "memory64"
        | "multi-memory"
        | "multi-value"
        | "mutable-globals"
        | "reference-types"
        | "relaxed-simd"
        | "saturating-conversions"
        | "sign-extension"
        | "simd"
        | "table64"
        | "tail-call" => "",
        _ => "not supported by Legato",
    }
}

/// An instruction's name in text form, from that of `wasmparser`'s visitor.
fn instruction_name(visitor: &str) -> String {
    let name = visitor.strip_prefix("visit_").unwrap_or(visitor);
    let Some((namespace, rest)) = name.split_once('_').filter(|(first, _)| NAMESPACES.contains(first)) else {
        return name.to_string();
    };
    // The only ones with more than one dot: `i32.atomic.load8_u`, `i64.atomic.rmw32.cmpxchg_u`.
    let Some(atomic) = rest.strip_prefix("atomic_") else { return format!("{namespace}.{rest}") };
    match atomic.split_once('_') {
        Some((width, operation)) if width.starts_with("rmw") => format!("{namespace}.atomic.{width}.{operation}"),
        _ => format!("{namespace}.atomic.{atomic}"),
    }
}

/// What stands before the dot in instructions' names.
const NAMESPACES: &[&str] = &[
    "any", "array", "atomic", "data", "elem", "extern", "f32", "f32x4", "f64", "f64x2", "global", "i16x8", "i31",
    "i32", "i32x4", "i64", "i64x2", "i8x16", "local", "memory", "ref", "struct", "table", "v128",
];

/// The proposal that an instruction came with, and the name of its visitor.
fn classify(operator: &Operator<'_>) -> (&'static str, &'static str) {
    macro_rules! arms {
        ($(@$proposal:ident $op:ident $({ $($arg:ident: $ty:ty),* })? => $visit:ident ($($ann:tt)*))*) => {
            match operator {
                $(Operator::$op { .. } => (stringify!($proposal), stringify!($visit)),)*
                _ => ("unknown", "unknown"),
            }
        };
    }
    wasmparser::for_each_operator!(arms)
}

#[cfg(test)]
mod tests {
    use super::instruction_name;

    #[test]
    fn names_of_instructions_are_those_of_the_text_format() {
        for (visitor, name) in [
            ("visit_i32_add", "i32.add"),
            ("visit_unreachable", "unreachable"),
            ("visit_return_call_ref", "return_call_ref"),
            ("visit_array_new_fixed", "array.new_fixed"),
            ("visit_i64_extend_i32_s", "i64.extend_i32_s"),
            ("visit_atomic_fence", "atomic.fence"),
            ("visit_memory_atomic_wait32", "memory.atomic.wait32"),
            ("visit_i32_atomic_load8_u", "i32.atomic.load8_u"),
            ("visit_i64_atomic_rmw32_cmpxchg_u", "i64.atomic.rmw32.cmpxchg_u"),
            ("visit_struct_atomic_rmw_add", "struct.atomic.rmw.add"),
        ] {
            assert_eq!(instruction_name(visitor), name);
        }
    }
}
