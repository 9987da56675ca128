//! Function, struct and array types.

use std::fmt;
use std::hash::{Hash, Hasher};

use anyhow::{Context, Result};
use legato_compiler::artifact::MachineSignature;
use legato_compiler::module as wasm;
use legato_heap::TypeId;

use crate::Engine;
use crate::types::{HeapType, Mutability, RegisteredType, ValType, subtyping};

/// How many fields of a struct type are shown.
const SHOWN_FIELDS: usize = 8;

/// Whether a type may have subtypes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finality {
    /// It has none.
    Final,
    /// It may.
    NonFinal,
}

/// The declared type of a field or element.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum StorageType {
    /// A byte.
    I8,
    /// Two bytes.
    I16,
    /// A value.
    ValType(ValType),
}

impl StorageType {
    /// The type that a read gives: packed types are read as `i32`.
    pub fn unpack(&self) -> ValType {
        match self {
            StorageType::I8 | StorageType::I16 => ValType::I32,
            StorageType::ValType(ty) => ty.clone(),
        }
    }

    /// The value type, if the storage is not packed.
    pub fn as_val_type(&self) -> Option<&ValType> {
        match self {
            StorageType::ValType(ty) => Some(ty),
            _ => None,
        }
    }

    fn from_engine(engine: &Engine, ty: wasm::StorageType) -> StorageType {
        match ty {
            wasm::StorageType::I8 => StorageType::I8,
            wasm::StorageType::I16 => StorageType::I16,
            wasm::StorageType::Value(ty) => StorageType::ValType(ValType::from_engine(engine, ty)),
        }
    }

    fn to_engine(&self) -> wasm::StorageType {
        match self {
            StorageType::I8 => wasm::StorageType::I8,
            StorageType::I16 => wasm::StorageType::I16,
            StorageType::ValType(ty) => wasm::StorageType::Value(ty.to_engine()),
        }
    }
}

impl fmt::Display for StorageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorageType::I8 => f.write_str("i8"),
            StorageType::I16 => f.write_str("i16"),
            StorageType::ValType(ty) => fmt::Display::fmt(ty, f),
        }
    }
}

impl From<ValType> for StorageType {
    fn from(ty: ValType) -> StorageType {
        StorageType::ValType(ty)
    }
}

/// The type of a struct's field or of an array's elements.
///
/// ```
/// use legato::{FieldType, Mutability, StorageType, ValType};
///
/// let packed = FieldType::new(Mutability::Var, StorageType::I16);
/// let reference = FieldType::new(Mutability::Const, ValType::EXTERNREF.into());
/// assert!(packed.element_type().as_val_type().is_none());
/// assert_eq!(reference.mutability(), Mutability::Const);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FieldType {
    mutability: Mutability,
    element_type: StorageType,
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mutability {
            Mutability::Const => write!(f, "{:#}", self.element_type),
            Mutability::Var => write!(f, "(mut {:#})", self.element_type),
        }
    }
}

impl FieldType {
    /// A field type.
    pub fn new(mutability: Mutability, element_type: StorageType) -> FieldType {
        FieldType { mutability, element_type }
    }

    /// Whether it may be written after construction.
    pub fn mutability(&self) -> Mutability {
        self.mutability
    }

    /// What it holds.
    pub fn element_type(&self) -> &StorageType {
        &self.element_type
    }

    fn from_engine(engine: &Engine, ty: &wasm::FieldType) -> FieldType {
        let mutability = if ty.mutable { Mutability::Var } else { Mutability::Const };
        FieldType { mutability, element_type: StorageType::from_engine(engine, ty.storage) }
    }

    fn to_engine(&self) -> wasm::FieldType {
        wasm::FieldType { storage: self.element_type.to_engine(), mutable: self.mutability == Mutability::Var }
    }

    fn check_engine(&self, engine: &Engine) -> Result<()> {
        self.element_type.as_val_type().map_or(Ok(()), |ty| ty.check_engine(engine))
    }
}

macro_rules! registered {
    ($($(#[$doc:meta])* $name:ident $heap_type:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name {
            engine: Engine,
            entry: RegisteredType,
        }

        impl $name {
            pub(crate) fn from_entry(engine: &Engine, entry: RegisteredType) -> $name {
                $name { engine: engine.clone(), entry }
            }

            pub(crate) fn from_id(engine: &Engine, id: TypeId) -> $name {
                $name::from_entry(engine, engine.types().get(id))
            }

            pub(crate) fn id(&self) -> TypeId {
                self.entry.id
            }

            pub(crate) fn registered(&self) -> &RegisteredType {
                &self.entry
            }

            /// The engine it belongs to.
            pub fn engine(&self) -> &Engine {
                &self.engine
            }

            /// Fails where it belongs to another engine than `engine`.
            pub(crate) fn check_engine(&self, engine: &Engine) -> Result<()> {
                HeapType::$heap_type(self.clone()).check_engine(engine)
            }

            /// Whether it is equal to `other` or declared below it.
            pub fn matches(&self, other: &$name) -> bool {
                Engine::same(&self.engine, &other.engine)
                    && self.engine.types().table().is_subtype(self.id(), other.id())
            }

            /// Whether it may have subtypes.
            pub fn finality(&self) -> Finality {
                if self.entry.sub.is_final { Finality::Final } else { Finality::NonFinal }
            }

            /// The type it is declared below, if any.
            pub fn supertype(&self) -> Option<$name> {
                let supertype = self.entry.sub.supertype?;
                Some($name::from_id(&self.engine, TypeId(supertype.0)))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.entry.id == other.entry.id && Engine::same(&self.engine, &other.engine)
            }
        }

        impl Eq for $name {}

        impl Hash for $name {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.entry.id.hash(state);
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )* };
}

registered! {
    /// A function type.
    ///
    /// ```
    /// use legato::{Engine, FuncType, ValType};
    ///
    /// let engine = Engine::default();
    /// let ty = FuncType::new(&engine, [ValType::I32, ValType::F64], [ValType::I64]);
    /// assert_eq!(ty.to_string(), "(func (param i32 f64) (result i64))");
    /// assert_eq!(ty, FuncType::new(&engine, [ValType::I32, ValType::F64], [ValType::I64]));
    /// ```
    FuncType ConcreteFunc;
    /// A struct type.
    ///
    /// ```
    /// use legato::{Engine, FieldType, Finality, Mutability, StructType, ValType};
    ///
    /// let engine = Engine::default();
    /// let field = |ty: ValType| FieldType::new(Mutability::Const, ty.into());
    /// let point = [field(ValType::F64), field(ValType::F64)];
    /// let above = StructType::with_finality_and_supertype(&engine, Finality::NonFinal, None, point.clone())?;
    /// // A subtype begins with the fields of the type above it.
    /// let coloured = point.into_iter().chain([field(ValType::I32)]);
    /// let below = StructType::with_finality_and_supertype(&engine, Finality::Final, Some(&above), coloured)?;
    /// assert!(below.matches(&above) && !above.matches(&below));
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    StructType ConcreteStruct;
    /// An array type.
    ///
    /// ```
    /// use legato::{ArrayType, Engine, FieldType, Mutability, StorageType, ValType};
    ///
    /// let bytes = ArrayType::new(&Engine::default(), FieldType::new(Mutability::Var, StorageType::I8));
    /// assert_eq!(bytes.element_type(), StorageType::I8);
    /// assert_eq!(bytes.element_type().unpack(), ValType::I32);
    /// ```
    ArrayType ConcreteArray;
}

impl FuncType {
    /// The final function type with these parameters and results. Equal types are one type.
    ///
    /// # Panics
    /// If the engine's type table is full, or a type belongs to another engine.
    pub fn new(
        engine: &Engine,
        params: impl IntoIterator<Item = ValType>,
        results: impl IntoIterator<Item = ValType>,
    ) -> FuncType {
        let ty = FuncType::with_finality_and_supertype(engine, Finality::Final, None, params, results);
        ty.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The function type below `supertype` with these parameters and results.
    ///
    /// # Errors
    /// If it is no subtype, a type belongs to another engine, or the type table is full.
    pub fn with_finality_and_supertype(
        engine: &Engine,
        finality: Finality,
        supertype: Option<&FuncType>,
        params: impl IntoIterator<Item = ValType>,
        results: impl IntoIterator<Item = ValType>,
    ) -> Result<FuncType> {
        let params: Vec<ValType> = params.into_iter().collect();
        let results: Vec<ValType> = results.into_iter().collect();
        params.iter().chain(&results).try_for_each(|ty| ty.check_engine(engine))?;
        supertype.map_or(Ok(()), |above| above.check_engine(engine))?;
        if let Some(above) = supertype {
            subtyping::check_func(above, &params, &results)
                .with_context(|| format!("the function type is no subtype of {above}"))?;
        }
        let ty = wasm::FuncType {
            params: params.iter().map(ValType::to_engine).collect(),
            results: results.iter().map(ValType::to_engine).collect(),
        };
        let (is_final, supertype) = (finality == Finality::Final, supertype.map(FuncType::id));
        let entry = engine.types().register_one(is_final, supertype, wasm::CompositeType::Func(ty))?;
        Ok(FuncType::from_entry(engine, entry))
    }

    pub(crate) fn raw(&self) -> &wasm::FuncType {
        self.entry.func().expect("a function type")
    }

    pub(crate) fn signature(&self) -> &MachineSignature {
        self.entry.signature.as_ref().expect("a function type has a signature")
    }

    /// The parameters' types.
    pub fn params(&self) -> impl ExactSizeIterator<Item = ValType> + '_ {
        self.raw().params.iter().map(|&ty| ValType::from_engine(&self.engine, ty))
    }

    /// The type of parameter `index`, from 0.
    pub fn param(&self, index: usize) -> Option<ValType> {
        self.raw().params.get(index).map(|&ty| ValType::from_engine(&self.engine, ty))
    }

    /// The results' types.
    pub fn results(&self) -> impl ExactSizeIterator<Item = ValType> + '_ {
        self.raw().results.iter().map(|&ty| ValType::from_engine(&self.engine, ty))
    }

    /// The type of result `index`, from 0.
    pub fn result(&self, index: usize) -> Option<ValType> {
        self.raw().results.get(index).map(|&ty| ValType::from_engine(&self.engine, ty))
    }
}

impl FuncType {
    /// In text form; `is_inner` where it is part of another type, so that its own parts are numbers alone.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, is_inner: bool) -> fmt::Result {
        f.write_str("(func")?;
        if is_inner {
            write!(f, " #{}", self.id().0)?;
        }
        for (word, types) in [("param", &self.raw().params), ("result", &self.raw().results)] {
            if types.is_empty() {
                continue;
            }
            write!(f, " ({word}")?;
            for &ty in types {
                let ty = ValType::from_engine(&self.engine, ty);
                if is_inner { write!(f, " {ty:#}") } else { write!(f, " {ty}") }?;
            }
            f.write_str(")")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for FuncType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, false)
    }
}

impl StructType {
    /// The final struct type with these fields. Equal types are one type.
    ///
    /// # Errors
    /// If a type belongs to another engine, or the type table is full.
    pub fn new(engine: &Engine, fields: impl IntoIterator<Item = FieldType>) -> Result<StructType> {
        StructType::with_finality_and_supertype(engine, Finality::Final, None, fields)
    }

    /// The struct type below `supertype` with these fields.
    ///
    /// # Errors
    /// If it is no subtype, a type belongs to another engine, or the type table is full.
    pub fn with_finality_and_supertype(
        engine: &Engine,
        finality: Finality,
        supertype: Option<&StructType>,
        fields: impl IntoIterator<Item = FieldType>,
    ) -> Result<StructType> {
        let fields: Vec<FieldType> = fields.into_iter().collect();
        fields.iter().try_for_each(|field| field.check_engine(engine))?;
        supertype.map_or(Ok(()), |above| above.check_engine(engine))?;
        if let Some(above) = supertype {
            subtyping::check_struct(above, &fields)
                .with_context(|| format!("the struct type is no subtype of {above}"))?;
        }
        let composite = wasm::CompositeType::Struct(fields.iter().map(FieldType::to_engine).collect());
        let entry =
            engine.types().register_one(finality == Finality::Final, supertype.map(StructType::id), composite)?;
        Ok(StructType::from_entry(engine, entry))
    }

    pub(crate) fn raw(&self) -> &[wasm::FieldType] {
        self.entry.fields().expect("a struct type")
    }

    /// Offsets of the fields in an object, in bytes.
    pub(crate) fn offsets(&self) -> &[u32] {
        &self.entry.layout.as_ref().expect("a struct has a layout").offsets
    }

    /// The fields' types.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = FieldType> + '_ {
        self.raw().iter().map(|field| FieldType::from_engine(&self.engine, field))
    }

    /// The type of field `index`, from 0.
    pub fn field(&self, index: usize) -> Option<FieldType> {
        self.raw().get(index).map(|field| FieldType::from_engine(&self.engine, field))
    }
}

impl fmt::Display for StructType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(struct #{}", self.id().0)?;
        for field in self.fields().take(SHOWN_FIELDS) {
            write!(f, " (field {field})")?;
        }
        f.write_str(if self.raw().len() > SHOWN_FIELDS { " ...)" } else { ")" })
    }
}

impl ArrayType {
    /// The final array type with these elements. Equal types are one type.
    ///
    /// # Panics
    /// If the engine's type table is full, or a type belongs to another engine.
    pub fn new(engine: &Engine, element: FieldType) -> ArrayType {
        let ty = ArrayType::with_finality_and_supertype(engine, Finality::Final, None, element);
        ty.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// The array type below `supertype` with these elements.
    ///
    /// # Errors
    /// If it is no subtype, a type belongs to another engine, or the type table is full.
    pub fn with_finality_and_supertype(
        engine: &Engine,
        finality: Finality,
        supertype: Option<&ArrayType>,
        element: FieldType,
    ) -> Result<ArrayType> {
        element.check_engine(engine)?;
        supertype.map_or(Ok(()), |above| above.check_engine(engine))?;
        if let Some(above) = supertype {
            subtyping::check_array(above, &element)
                .with_context(|| format!("the array type is no subtype of {above}"))?;
        }
        let composite = wasm::CompositeType::Array(element.to_engine());
        let entry =
            engine.types().register_one(finality == Finality::Final, supertype.map(ArrayType::id), composite)?;
        Ok(ArrayType::from_entry(engine, entry))
    }

    pub(crate) fn raw(&self) -> wasm::FieldType {
        self.entry.element().expect("an array type")
    }

    /// The elements' type and mutability.
    pub fn field_type(&self) -> FieldType {
        FieldType::from_engine(&self.engine, &self.raw())
    }

    /// The elements' type.
    pub fn element_type(&self) -> StorageType {
        StorageType::from_engine(&self.engine, self.raw().storage)
    }

    /// Whether elements may be written after construction.
    pub fn mutability(&self) -> Mutability {
        self.field_type().mutability
    }
}

impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(array #{} {})", self.id().0, self.field_type())
    }
}
