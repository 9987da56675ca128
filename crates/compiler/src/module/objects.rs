//! Which modules have to do with objects.

use super::{CompositeType, ModuleInfo, SubType, ValueType};

impl ModuleInfo {
    /// Whether its instances may have to do with objects: it has a type of objects, a tag, or references other than to
    /// functions among parameters, results, tables or globals. The code of others may hold null, 31-bit integers, and
    /// exceptions that it has caught, but never reads an object, makes one, or stores a reference to one.
    pub fn needs_heap(&self) -> bool {
        let may_be_object = |ty: &ValueType| matches!(ty, ValueType::Ref(ty) if !self.is_func_reference(ty.heap));
        let has_objects = |ty: &SubType| match &ty.composite {
            CompositeType::Func(ty) => ty.params.iter().chain(&ty.results).any(may_be_object),
            _ => true,
        };
        !self.tags.is_empty()
            || self.types.iter().any(has_objects)
            || self.tables.iter().any(|table| may_be_object(&ValueType::Ref(table.element)))
            || self.globals.iter().any(|global| may_be_object(&global.value))
    }
}

#[cfg(test)]
mod tests {
    use crate::module::ParsedModule;

    fn needs_heap(text: &str) -> bool {
        let wasm = wat::parse_str(text).unwrap();
        ParsedModule::parse(&wasm, Default::default()).unwrap().info.needs_heap()
    }

    #[test]
    fn functions_are_no_objects() {
        for text in [
            "(module)",
            "(module (memory 1) (table 1 funcref) (func (param i32) (result f64) (unreachable)))",
            "(module (type $f (func (param funcref))) (table 1 (ref null $f)) (global (ref null $f) (ref.null $f)))",
            "(module (func (local anyref exnref) (drop (ref.i31 (i32.const 1)))))",
        ] {
            assert!(!needs_heap(text), "{text}");
        }
    }

    #[test]
    fn whatever_may_lead_to_an_object_is_found() {
        for text in [
            "(module (type (struct)))",
            "(module (type (array i8)))",
            "(module (tag))",
            r#"(module (import "m" "t" (tag)))"#,
            "(module (func (param externref)))",
            "(module (func (result anyref) (unreachable)))",
            "(module (table 1 i31ref))",
            r#"(module (import "m" "t" (table 1 externref)))"#,
            "(module (global exnref (ref.null exn)))",
            r#"(module (import "m" "g" (global anyref)))"#,
            "(module (func (ref.null eq) (block (param eqref) unreachable)))",
        ] {
            assert!(needs_heap(text), "{text}");
        }
    }
}
