//! Value, reference and heap types.

use std::fmt;

use anyhow::{Result, bail};
use legato_compiler::module as wasm;
use legato_heap::TypeId;

use crate::Engine;
use crate::types::{ArrayType, FuncType, RegisteredType, StructType};

/// The type of a value.
///
/// ```
/// use legato::{HeapType, RefType, ValType};
///
/// let struct_or_null = ValType::Ref(RefType::STRUCTREF);
/// assert!(struct_or_null.matches(&ValType::ANYREF));
/// let never_null = ValType::Ref(RefType::new(false, HeapType::Struct));
/// assert!(never_null.matches(&struct_or_null) && !struct_or_null.matches(&never_null));
/// assert!(never_null.default_value().is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum ValType {
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// Single-precision float.
    F32,
    /// Double-precision float.
    F64,
    /// 128-bit vector.
    V128,
    /// A reference.
    Ref(RefType),
}

impl ValType {
    /// `externref`.
    pub const EXTERNREF: ValType = ValType::Ref(RefType::EXTERNREF);
    /// `funcref`.
    pub const FUNCREF: ValType = ValType::Ref(RefType::FUNCREF);
    /// `anyref`.
    pub const ANYREF: ValType = ValType::Ref(RefType::ANYREF);
    /// `eqref`.
    pub const EQREF: ValType = ValType::Ref(RefType::EQREF);
    /// `i31ref`.
    pub const I31REF: ValType = ValType::Ref(RefType::I31REF);
    /// `structref`.
    pub const STRUCTREF: ValType = ValType::Ref(RefType::STRUCTREF);
    /// `arrayref`.
    pub const ARRAYREF: ValType = ValType::Ref(RefType::ARRAYREF);
    /// `exnref`.
    pub const EXNREF: ValType = ValType::Ref(RefType::EXNREF);

    /// Whether it is a number (vectors are not).
    pub fn is_num(&self) -> bool {
        matches!(self, ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64)
    }

    /// Whether it is a reference type.
    pub fn is_ref(&self) -> bool {
        matches!(self, ValType::Ref(_))
    }

    /// The reference type, if it is one.
    pub fn as_ref(&self) -> Option<&RefType> {
        match self {
            ValType::Ref(ty) => Some(ty),
            _ => None,
        }
    }

    /// Whether every value of this type is one of `other`.
    pub fn matches(&self, other: &ValType) -> bool {
        match (self, other) {
            (ValType::Ref(a), ValType::Ref(b)) => a.matches(b),
            (a, b) => a == b,
        }
    }

    /// The value that a variable of this type starts with, if the type has one: zero, or null.
    pub fn default_value(&self) -> Option<crate::Val> {
        crate::Val::default_for_ty(self)
    }

    /// Fails where the type belongs to another engine than `engine`.
    pub(crate) fn check_engine(&self, engine: &Engine) -> Result<()> {
        self.as_ref().map_or(Ok(()), |ty| ty.heap_type.check_engine(engine))
    }

    pub(crate) fn from_engine(engine: &Engine, ty: wasm::ValueType) -> ValType {
        match ty {
            wasm::ValueType::I32 => ValType::I32,
            wasm::ValueType::I64 => ValType::I64,
            wasm::ValueType::F32 => ValType::F32,
            wasm::ValueType::F64 => ValType::F64,
            wasm::ValueType::V128 => ValType::V128,
            wasm::ValueType::Ref(ty) => ValType::Ref(RefType::from_engine(engine, ty)),
        }
    }

    pub(crate) fn to_engine(&self) -> wasm::ValueType {
        match self {
            ValType::I32 => wasm::ValueType::I32,
            ValType::I64 => wasm::ValueType::I64,
            ValType::F32 => wasm::ValueType::F32,
            ValType::F64 => wasm::ValueType::F64,
            ValType::V128 => wasm::ValueType::V128,
            ValType::Ref(ty) => wasm::ValueType::Ref(ty.to_engine()),
        }
    }
}

impl From<RefType> for ValType {
    fn from(ty: RefType) -> ValType {
        ValType::Ref(ty)
    }
}

impl fmt::Display for ValType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValType::I32 => f.write_str("i32"),
            ValType::I64 => f.write_str("i64"),
            ValType::F32 => f.write_str("f32"),
            ValType::F64 => f.write_str("f64"),
            ValType::V128 => f.write_str("v128"),
            ValType::Ref(ty) => ty.fmt(f),
        }
    }
}

impl fmt::Debug for ValType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The type of a reference.
///
/// ```
/// use legato::{HeapType, RefType};
///
/// let ty = RefType::new(false, HeapType::I31);
/// assert_eq!(ty.to_string(), "(ref i31)");
/// assert!(ty.matches(&RefType::EQREF));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RefType {
    nullable: bool,
    heap_type: HeapType,
}

impl RefType {
    /// `externref`.
    pub const EXTERNREF: RefType = RefType { nullable: true, heap_type: HeapType::Extern };
    /// `funcref`.
    pub const FUNCREF: RefType = RefType { nullable: true, heap_type: HeapType::Func };
    /// `anyref`.
    pub const ANYREF: RefType = RefType { nullable: true, heap_type: HeapType::Any };
    /// `eqref`.
    pub const EQREF: RefType = RefType { nullable: true, heap_type: HeapType::Eq };
    /// `i31ref`.
    pub const I31REF: RefType = RefType { nullable: true, heap_type: HeapType::I31 };
    /// `structref`.
    pub const STRUCTREF: RefType = RefType { nullable: true, heap_type: HeapType::Struct };
    /// `arrayref`.
    pub const ARRAYREF: RefType = RefType { nullable: true, heap_type: HeapType::Array };
    /// `exnref`.
    pub const EXNREF: RefType = RefType { nullable: true, heap_type: HeapType::Exn };

    /// The type of references to `heap_type`, with null if `nullable`.
    pub fn new(nullable: bool, heap_type: HeapType) -> RefType {
        RefType { nullable, heap_type }
    }

    /// Whether null is a value of the type.
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// What it refers to.
    pub fn heap_type(&self) -> &HeapType {
        &self.heap_type
    }

    /// The same type with null.
    pub(crate) fn or_null(self) -> RefType {
        RefType { nullable: true, ..self }
    }

    /// Whether every value of this type is one of `other`.
    pub fn matches(&self, other: &RefType) -> bool {
        (other.nullable || !self.nullable) && self.heap_type.matches(&other.heap_type)
    }

    pub(crate) fn from_engine(engine: &Engine, ty: wasm::RefType) -> RefType {
        RefType { nullable: ty.nullable, heap_type: HeapType::from_engine(engine, ty.heap) }
    }

    pub(crate) fn to_engine(&self) -> wasm::RefType {
        wasm::RefType { nullable: self.nullable, heap: self.heap_type.to_engine() }
    }
}

impl fmt::Display for RefType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.nullable { "(ref null " } else { "(ref " })?;
        fmt::Display::fmt(&self.heap_type, f)?;
        f.write_str(")")
    }
}

impl fmt::Debug for RefType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a reference refers to.
///
/// ```
/// use legato::HeapType;
///
/// assert!(HeapType::Struct.matches(&HeapType::Eq) && HeapType::Eq.matches(&HeapType::Any));
/// assert!(!HeapType::Extern.matches(&HeapType::Any));
/// assert!(HeapType::None.matches(&HeapType::Array));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum HeapType {
    /// Host values and externalised ones.
    Extern,
    /// Nothing: the bottom below `Extern`.
    NoExtern,
    /// Functions of any type.
    Func,
    /// Functions of one type.
    ConcreteFunc(FuncType),
    /// Nothing: the bottom below `Func`.
    NoFunc,
    /// Every internal value.
    Any,
    /// What can be compared by identity.
    Eq,
    /// 31-bit integers.
    I31,
    /// Arrays of any type.
    Array,
    /// Arrays of one type.
    ConcreteArray(ArrayType),
    /// Structs of any type.
    Struct,
    /// Structs of one type.
    ConcreteStruct(StructType),
    /// Nothing: the bottom below `Any`.
    None,
    /// Exceptions.
    Exn,
    /// Nothing: the bottom below `Exn`.
    NoExn,
}

impl HeapType {
    /// Whether everything of this type belongs to `other`. Concrete types of two engines never match.
    pub fn matches(&self, other: &HeapType) -> bool {
        let (a, b) = (self.to_engine(), other.to_engine());
        match (self.engine(), other.engine()) {
            (Some(own), Some(others)) if !Engine::same(own, others) => false,
            (Some(engine), _) | (None, Some(engine)) => engine.types().is_heap_subtype(a, b),
            (None, None) => abstract_matches(a, b),
        }
    }

    /// Whether the type is, or is below, `Func`.
    pub fn is_func(&self) -> bool {
        matches!(self, HeapType::Func | HeapType::ConcreteFunc(_) | HeapType::NoFunc)
    }

    /// Whether the type is, or is below, `Extern`.
    pub fn is_extern(&self) -> bool {
        matches!(self, HeapType::Extern | HeapType::NoExtern)
    }

    /// Whether the type is, or is below, `Exn`.
    pub fn is_exn(&self) -> bool {
        matches!(self, HeapType::Exn | HeapType::NoExn)
    }

    /// The function type, if it is concrete.
    pub fn as_concrete_func(&self) -> Option<&FuncType> {
        match self {
            HeapType::ConcreteFunc(ty) => Some(ty),
            _ => None,
        }
    }

    /// The struct type, if it is concrete.
    pub fn as_concrete_struct(&self) -> Option<&StructType> {
        match self {
            HeapType::ConcreteStruct(ty) => Some(ty),
            _ => None,
        }
    }

    /// The array type, if it is concrete.
    pub fn as_concrete_array(&self) -> Option<&ArrayType> {
        match self {
            HeapType::ConcreteArray(ty) => Some(ty),
            _ => None,
        }
    }

    /// Fails where the type belongs to another engine than `engine`, in which it would name something else.
    pub(crate) fn check_engine(&self, engine: &Engine) -> Result<()> {
        match self.engine() {
            Some(own) if !Engine::same(own, engine) => {
                bail!("the type {self} belongs to another engine: make it with the one that it is used with")
            }
            _ => Ok(()),
        }
    }

    fn engine(&self) -> Option<&Engine> {
        match self {
            HeapType::ConcreteFunc(ty) => Some(ty.engine()),
            HeapType::ConcreteArray(ty) => Some(ty.engine()),
            HeapType::ConcreteStruct(ty) => Some(ty.engine()),
            _ => None,
        }
    }

    pub(crate) fn from_engine(engine: &Engine, heap: wasm::HeapType) -> HeapType {
        match heap {
            wasm::HeapType::Any => HeapType::Any,
            wasm::HeapType::Eq => HeapType::Eq,
            wasm::HeapType::I31 => HeapType::I31,
            wasm::HeapType::Struct => HeapType::Struct,
            wasm::HeapType::Array => HeapType::Array,
            wasm::HeapType::None => HeapType::None,
            wasm::HeapType::Func => HeapType::Func,
            wasm::HeapType::NoFunc => HeapType::NoFunc,
            wasm::HeapType::Extern => HeapType::Extern,
            wasm::HeapType::NoExtern => HeapType::NoExtern,
            wasm::HeapType::Exn => HeapType::Exn,
            wasm::HeapType::NoExn => HeapType::NoExn,
            wasm::HeapType::Concrete(index) => {
                let entry = engine.types().get(TypeId(index.0));
                match &entry.sub.composite {
                    wasm::CompositeType::Func(_) => HeapType::ConcreteFunc(FuncType::from_entry(engine, entry)),
                    wasm::CompositeType::Struct(_) => HeapType::ConcreteStruct(StructType::from_entry(engine, entry)),
                    wasm::CompositeType::Array(_) => HeapType::ConcreteArray(ArrayType::from_entry(engine, entry)),
                }
            }
        }
    }

    /// The registered type that it names, if any.
    pub(crate) fn registered(&self) -> Option<&RegisteredType> {
        match self {
            HeapType::ConcreteFunc(ty) => Some(ty.registered()),
            HeapType::ConcreteArray(ty) => Some(ty.registered()),
            HeapType::ConcreteStruct(ty) => Some(ty.registered()),
            _ => None,
        }
    }

    pub(crate) fn to_engine(&self) -> wasm::HeapType {
        let concrete = |id: TypeId| wasm::HeapType::Concrete(wasm::TypeIndex(id.0));
        match self {
            HeapType::Extern => wasm::HeapType::Extern,
            HeapType::NoExtern => wasm::HeapType::NoExtern,
            HeapType::Func => wasm::HeapType::Func,
            HeapType::ConcreteFunc(ty) => concrete(ty.id()),
            HeapType::NoFunc => wasm::HeapType::NoFunc,
            HeapType::Any => wasm::HeapType::Any,
            HeapType::Eq => wasm::HeapType::Eq,
            HeapType::I31 => wasm::HeapType::I31,
            HeapType::Array => wasm::HeapType::Array,
            HeapType::ConcreteArray(ty) => concrete(ty.id()),
            HeapType::Struct => wasm::HeapType::Struct,
            HeapType::ConcreteStruct(ty) => concrete(ty.id()),
            HeapType::None => wasm::HeapType::None,
            HeapType::Exn => wasm::HeapType::Exn,
            HeapType::NoExn => wasm::HeapType::NoExn,
        }
    }
}

/// Subtyping between abstract types, which needs no engine.
fn abstract_matches(a: wasm::HeapType, b: wasm::HeapType) -> bool {
    use wasm::HeapType::*;
    a == b
        || matches!(
            (a, b),
            (None, Any | Eq | I31 | Struct | Array)
                | (I31 | Struct | Array, Eq | Any)
                | (Eq, Any)
                | (NoFunc, Func)
                | (NoExtern, Extern)
                | (NoExn, Exn)
        )
}

impl fmt::Display for HeapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeapType::Extern => "extern",
            HeapType::NoExtern => "noextern",
            HeapType::Func => "func",
            // Types may contain themselves: only the outermost is spelled out.
            HeapType::ConcreteFunc(ty) if f.alternate() => return write!(f, "(func #{})", ty.id().0),
            HeapType::ConcreteArray(ty) if f.alternate() => return write!(f, "(array #{})", ty.id().0),
            HeapType::ConcreteStruct(ty) if f.alternate() => return write!(f, "(struct #{})", ty.id().0),
            HeapType::ConcreteFunc(ty) => return ty.write(f, true),
            HeapType::ConcreteArray(ty) => return fmt::Display::fmt(ty, f),
            HeapType::ConcreteStruct(ty) => return fmt::Display::fmt(ty, f),
            HeapType::NoFunc => "nofunc",
            HeapType::Any => "any",
            HeapType::Eq => "eq",
            HeapType::I31 => "i31",
            HeapType::Array => "array",
            HeapType::Struct => "struct",
            HeapType::None => "none",
            HeapType::Exn => "exn",
            HeapType::NoExn => "noexn",
        })
    }
}

impl fmt::Debug for HeapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
