//! The types of generated programs. They have fixed indices; the fields of two structs and the least lengths of arrays
//! follow from the seed.

use super::signatures::{PLAIN, Signature};
use crate::random::Random;
use wasm_encoder::{
    ArrayType, CompositeInnerType, CompositeType, FieldType, HeapType, RefType, StorageType, StructType, SubType,
    TypeSection, ValType,
};

/// `struct` with an identity, a link and a reference to anything. The two that follow are its subtypes.
pub const BASE: u32 = PLAIN;
const DERIVED: u32 = BASE + 1;
const LAST: u32 = BASE + 2;
const LEAF: u32 = BASE + 3;
const FIRST_ARRAY: u32 = BASE + 4;
/// The first function type whose signature knows types of the program.
pub const FIRST_SIGNATURE_OF_OBJECTS: u32 = FIRST_ARRAY + Array::ALL.len() as u32;
const FIRST_BLOCK: u32 = FIRST_SIGNATURE_OF_OBJECTS + Signature::ALL.len() as u32 - PLAIN;

/// Element kinds of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Array {
    Bytes,
    Shorts,
    Ints,
    Longs,
    Floats,
    Doubles,
    Vectors,
    Nodes,
    Leaves,
    Anys,
    Externs,
    Functions,
    Chunks,
}

impl Array {
    /// All, in the order of their types.
    pub const ALL: [Array; 13] = [
        Array::Bytes,
        Array::Shorts,
        Array::Ints,
        Array::Longs,
        Array::Floats,
        Array::Doubles,
        Array::Vectors,
        Array::Nodes,
        Array::Leaves,
        Array::Anys,
        Array::Externs,
        Array::Functions,
        Array::Chunks,
    ];

    /// The index of the array type.
    pub fn index(self) -> u32 {
        FIRST_ARRAY + self as u32
    }

    /// What its elements are.
    pub fn element(self) -> Field {
        match self {
            Array::Bytes => Field::I8,
            Array::Shorts => Field::I16,
            Array::Ints => Field::I32,
            Array::Longs => Field::I64,
            Array::Floats => Field::F32,
            Array::Doubles => Field::F64,
            Array::Vectors => Field::V128,
            Array::Nodes => Field::Ref(Kind::Base, true),
            Array::Leaves => Field::Ref(Kind::Leaf, false),
            Array::Anys => Field::Ref(Kind::Any, true),
            Array::Externs => Field::Ref(Kind::Extern, true),
            Array::Functions => Field::Ref(Kind::Same, true),
            Array::Chunks => Field::Ref(Kind::Array(Array::Bytes), true),
        }
    }
}

/// The heap types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Base,
    Derived,
    Last,
    Leaf,
    Array(Array),
    Any,
    Eq,
    I31,
    Extern,
    /// Functions from `i32` to `i32` that give back their argument.
    Same,
    Exn,
}

impl Kind {
    /// The heap type.
    pub fn heap(self) -> HeapType {
        match self {
            Kind::Base => HeapType::Concrete(BASE),
            Kind::Derived => HeapType::Concrete(DERIVED),
            Kind::Last => HeapType::Concrete(LAST),
            Kind::Leaf => HeapType::Concrete(LEAF),
            Kind::Array(array) => HeapType::Concrete(array.index()),
            Kind::Any => HeapType::ANY,
            Kind::Eq => RefType::EQREF.heap_type,
            Kind::I31 => HeapType::I31,
            Kind::Extern => HeapType::EXTERN,
            Kind::Same => HeapType::Concrete(Signature::Same.index()),
            Kind::Exn => RefType::EXNREF.heap_type,
        }
    }

    /// The index of a concrete type.
    pub fn index(self) -> u32 {
        match self.heap() {
            HeapType::Concrete(index) => index,
            abstract_type => unreachable!("{abstract_type:?} has no index"),
        }
    }

    /// The reference type.
    pub fn reference(self, nullable: bool) -> RefType {
        RefType { nullable, heap_type: self.heap() }
    }

    /// The value type.
    pub fn value(self, nullable: bool) -> ValType {
        ValType::Ref(self.reference(nullable))
    }

    /// Whether values are below `any`.
    pub fn is_any(self) -> bool {
        !matches!(self, Kind::Extern | Kind::Same | Kind::Exn)
    }

    /// Whether every value of this kind is one of `other`.
    pub fn is_below(self, other: Kind) -> bool {
        match other {
            _ if self == other => true,
            Kind::Base => matches!(self, Kind::Derived | Kind::Last),
            Kind::Derived => self == Kind::Last,
            Kind::Eq => self.is_any() && self != Kind::Any,
            Kind::Any => self.is_any(),
            _ => false,
        }
    }
}

/// What a field of a struct or an element of an array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Field {
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    V128,
    /// A reference, and whether it may be null.
    Ref(Kind, bool),
}

impl Field {
    /// How it is stored.
    pub fn storage(self) -> StorageType {
        match self {
            Field::I8 => StorageType::I8,
            Field::I16 => StorageType::I16,
            Field::I32 => StorageType::Val(ValType::I32),
            Field::I64 => StorageType::Val(ValType::I64),
            Field::F32 => StorageType::Val(ValType::F32),
            Field::F64 => StorageType::Val(ValType::F64),
            Field::V128 => StorageType::Val(ValType::V128),
            Field::Ref(kind, nullable) => StorageType::Val(kind.value(nullable)),
        }
    }

    /// Its value type.
    pub fn value(self) -> ValType {
        self.storage().unpack()
    }

    /// Its size in an array: bytes, or an upper limit where references may be smaller.
    pub fn bytes(self) -> u32 {
        match self {
            Field::I8 => 1,
            Field::I16 => 2,
            Field::I32 | Field::F32 => 4,
            Field::V128 => 16,
            _ => 8,
        }
    }

    /// Whether it has a default value.
    pub fn is_defaultable(self) -> bool {
        !matches!(self, Field::Ref(_, false))
    }
}

/// What one program's types are like, and the types of blocks that its code needs.
#[derive(Clone, Debug)]
pub struct Types {
    derived: Vec<Field>,
    last: Vec<Field>,
    least: Vec<u32>,
    blocks: Vec<(Vec<ValType>, Vec<ValType>)>,
}

impl Types {
    /// Types that follow from `random`.
    pub fn new(random: &mut Random) -> Types {
        const CHOICE: [Field; 18] = [
            Field::I8,
            Field::I16,
            Field::I32,
            Field::I64,
            Field::F32,
            Field::F64,
            Field::V128,
            Field::Ref(Kind::Base, true),
            Field::Ref(Kind::Derived, true),
            Field::Ref(Kind::Leaf, false),
            Field::Ref(Kind::Array(Array::Bytes), true),
            Field::Ref(Kind::Array(Array::Nodes), true),
            Field::Ref(Kind::Any, true),
            Field::Ref(Kind::Extern, true),
            Field::Ref(Kind::Eq, true),
            Field::Ref(Kind::I31, true),
            Field::Ref(Kind::Same, true),
            Field::Ref(Kind::Exn, true),
        ];
        let mut fields = |most| (0..1 + random.below(most)).map(|_| CHOICE[random.below(CHOICE.len())]).collect();
        let (derived, last) = (fields(5), fields(9));
        let least = Array::ALL.iter().map(|array| match array.element() {
            Field::Ref(..) => 3 + random.below(18) as u32,
            _ => [4, 8, 40, 150][random.below(4)],
        });
        Types { derived, last, least: least.collect(), blocks: Vec::new() }
    }

    /// The fields of a struct. The first is the identity.
    pub fn fields(&self, kind: Kind) -> Vec<Field> {
        let mut fields = match kind {
            Kind::Leaf => return vec![Field::I32, Field::I8, Field::I16, Field::I64],
            _ => vec![Field::I32, Field::Ref(Kind::Base, true), Field::Ref(Kind::Any, true)],
        };
        if matches!(kind, Kind::Derived | Kind::Last) {
            fields.extend(&self.derived);
        }
        if kind == Kind::Last {
            fields.extend(&self.last);
        }
        fields
    }

    /// Elements that every array of a type has.
    pub fn least(&self, array: Array) -> u32 {
        self.least[array as usize]
    }

    /// The index of a function type for a block.
    pub fn block(&mut self, parameters: Vec<ValType>, results: Vec<ValType>) -> u32 {
        let block = (parameters, results);
        let position = self.blocks.iter().position(|known| *known == block).unwrap_or_else(|| {
            self.blocks.push(block);
            self.blocks.len() - 1
        });
        FIRST_BLOCK + position as u32
    }

    /// The type section.
    pub fn section(&self) -> TypeSection {
        let mutable = |field: &Field| FieldType { element_type: field.storage(), mutable: true };
        let subtype = |inner, supertype: Option<u32>, is_final| SubType {
            is_final,
            supertype_idxs: supertype.into_iter().collect(),
            composite_type: CompositeType { inner, shared: false, describes: None, descriptor: None },
        };
        let structure =
            |kind| CompositeInnerType::Struct(StructType { fields: self.fields(kind).iter().map(mutable).collect() });
        let mut group = vec![
            subtype(structure(Kind::Base), None, false),
            subtype(structure(Kind::Derived), Some(BASE), false),
            subtype(structure(Kind::Last), Some(DERIVED), true),
            subtype(structure(Kind::Leaf), None, true),
        ];
        for array in Array::ALL {
            group.push(subtype(CompositeInnerType::Array(ArrayType(mutable(&array.element()))), None, true));
        }
        let values = |fields: Vec<Field>| fields.into_iter().map(Field::value).collect::<Vec<_>>();
        let (plain, of_objects) = Signature::ALL.split_at(PLAIN as usize);
        let mut section = TypeSection::new();
        for signature in plain {
            section.ty().function(values(signature.parameters()), values(signature.results()));
        }
        section.ty().rec(group);
        for signature in of_objects {
            section.ty().function(values(signature.parameters()), values(signature.results()));
        }
        for (parameters, results) in &self.blocks {
            section.ty().function(parameters.iter().copied(), results.iter().copied());
        }
        section
    }
}
