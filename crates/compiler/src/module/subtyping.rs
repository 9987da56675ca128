//! Subtyping within a module. All type indices are canonical.

use super::{CompositeType, FieldType, HeapType, ModuleInfo, RefType, StorageType, TypeIndex, ValueType};

impl StorageType {
    /// The type of the value that reading gives.
    pub const fn unpacked(self) -> ValueType {
        match self {
            StorageType::I8 | StorageType::I16 => ValueType::I32,
            StorageType::Value(ty) => ty,
        }
    }
}

impl RefType {
    /// A reference to `heap` that is not null.
    pub const fn non_null(heap: HeapType) -> RefType {
        RefType { nullable: false, heap }
    }

    /// A reference to `heap`, or null.
    pub const fn nullable(heap: HeapType) -> RefType {
        RefType { nullable: true, heap }
    }
}

impl ModuleInfo {
    /// The fields of a struct type. Panics where it is another kind of type: validation has ruled that out.
    pub fn struct_fields(&self, index: TypeIndex) -> &[FieldType] {
        match &self.types[index.index()].composite {
            CompositeType::Struct(fields) => fields,
            other => panic!("type {} is not a struct type: {other:?}", index.0),
        }
    }

    /// The element of an array type. Panics where it is another kind of type: validation has ruled that out.
    pub fn array_element(&self, index: TypeIndex) -> FieldType {
        match &self.types[index.index()].composite {
            CompositeType::Array(element) => *element,
            other => panic!("type {} is not an array type: {other:?}", index.0),
        }
    }

    /// The topmost type of the hierarchy that `heap` belongs to: any, func, extern or exn.
    pub fn top_type(&self, heap: HeapType) -> HeapType {
        match heap {
            HeapType::Any | HeapType::Eq | HeapType::I31 | HeapType::Struct | HeapType::Array | HeapType::None => {
                HeapType::Any
            }
            HeapType::Func | HeapType::NoFunc => HeapType::Func,
            HeapType::Extern | HeapType::NoExtern => HeapType::Extern,
            HeapType::Exn | HeapType::NoExn => HeapType::Exn,
            HeapType::Concrete(index) => match self.types[index.index()].composite {
                CompositeType::Func(_) => HeapType::Func,
                CompositeType::Struct(_) | CompositeType::Array(_) => HeapType::Any,
            },
        }
    }

    /// The least abstract type above a type, itself if it is abstract.
    fn abstraction(&self, heap: HeapType) -> HeapType {
        match heap {
            HeapType::Concrete(index) => match self.types[index.index()].composite {
                CompositeType::Func(_) => HeapType::Func,
                CompositeType::Struct(_) => HeapType::Struct,
                CompositeType::Array(_) => HeapType::Array,
            },
            other => other,
        }
    }

    /// Whether the module has subtypes of it. Other modules may have some in any case, unless it is final.
    pub fn has_subtypes(&self, ty: TypeIndex) -> bool {
        self.extended_types.binary_search(&ty).is_ok()
    }

    /// Whether `sub` is declared as a (transitive) subtype of `sup`, or is the same.
    pub fn is_declared_subtype(&self, sub: TypeIndex, sup: TypeIndex) -> bool {
        let depth = self.types[sup.index()].depth;
        let mut at = sub;
        while self.types[at.index()].depth > depth {
            match self.types[at.index()].supertype {
                Some(next) => at = next,
                None => return false,
            }
        }
        at == sup
    }

    /// Whether every reference to `sub` is one to `sup`.
    pub fn is_heap_subtype(&self, sub: HeapType, sup: HeapType) -> bool {
        if sub == sup {
            return true;
        }
        match (sub, sup) {
            (HeapType::Concrete(sub), HeapType::Concrete(sup)) => self.is_declared_subtype(sub, sup),
            (HeapType::None, _) => self.top_type(sup) == HeapType::Any,
            (HeapType::NoFunc, _) => self.top_type(sup) == HeapType::Func,
            (HeapType::NoExtern, _) => sup == HeapType::Extern,
            (HeapType::NoExn, _) => sup == HeapType::Exn,
            (_, HeapType::Any) => self.top_type(sub) == HeapType::Any,
            (_, HeapType::Eq) => self.top_type(sub) == HeapType::Any && sub != HeapType::Any,
            (HeapType::Concrete(_), _) => self.abstraction(sub) == sup,
            _ => false,
        }
    }

    /// Whether every value of `sub` is one of `sup`.
    pub fn is_ref_subtype(&self, sub: RefType, sup: RefType) -> bool {
        (sup.nullable || !sub.nullable) && self.is_heap_subtype(sub.heap, sup.heap)
    }

    /// Whether every value of `sub` is one of `sup`.
    pub fn is_subtype(&self, sub: ValueType, sup: ValueType) -> bool {
        match (sub, sup) {
            (ValueType::Ref(sub), ValueType::Ref(sup)) => self.is_ref_subtype(sub, sup),
            _ => sub == sup,
        }
    }

    /// Whether no object can belong to both types, so that only null can. Both must be of one hierarchy.
    ///
    /// Types have one supertype each, so two types overlap only if one lies below the other. `any` also holds host
    /// values, which no other type does.
    pub fn are_disjoint(&self, a: HeapType, b: HeapType) -> bool {
        !self.is_heap_subtype(a, b) && !self.is_heap_subtype(b, a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::ParsedModule;

    #[test]
    fn equal_groups_share_an_index() {
        let wasm = wat::parse_str(
            "(module (type $a (sub (struct (field i32)))) (type $b (sub (struct (field i32))))
               (type $c (sub $b (struct (field i32 (ref null $a))))) (type $d (sub $a (struct (field i32 (ref null $b)))))
               (rec (type (struct)) (type (struct))) (type $f (func)))",
        )
        .unwrap();
        let info = ParsedModule::parse(&wasm, Default::default()).unwrap().info;
        let canonical: Vec<u32> = info.canonical_types.iter().map(|index| index.0).collect();
        assert_eq!(canonical, [0, 0, 2, 2, 4, 5, 6]);
        assert_eq!(info.types[3].depth, 1);
        let concrete = |index| HeapType::Concrete(TypeIndex(index));
        assert!(info.is_heap_subtype(concrete(2), concrete(0)));
        assert!(!info.is_heap_subtype(concrete(0), concrete(2)));
        assert!(info.is_heap_subtype(concrete(2), HeapType::Eq));
        assert!(info.is_heap_subtype(concrete(6), HeapType::Func));
        assert!(!info.is_heap_subtype(concrete(6), HeapType::Any));
        assert!(info.are_disjoint(concrete(4), concrete(0)));
        assert!(info.are_disjoint(HeapType::I31, HeapType::Struct));
    }
}
