//! What lowering knows of the module and the heap, shared by all functions of a compilation.

use cranelift_codegen::ir::{self, AbiParam, ArgumentPurpose, Signature, types};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use legato_heap::layout::{StorageKind, StructLayout};
use legato_heap::plan::{AccessPlan, ArrayPlan, HeaderWord, ObjectAt};

use crate::abi::{AbiType, Builtin, COLD_CELLS, ContextLayout};
use crate::module::{FuncType, ModuleInfo, StorageType, TagIndex, TypeIndex, ValueType};
use crate::passes::{HeapFacts, Lookups};
use serde::{Deserialize, Serialize};

/// What lowering knows of the module, the heap and the target.
pub(crate) struct ModuleEnv<'a> {
    pub info: &'a ModuleInfo,
    pub layout: &'a ContextLayout,
    pub plan: &'a AccessPlan,
    /// For each type that is a struct: where its fields lie.
    pub structs: &'a [Option<StructLayout>],
    /// For each tag: where the tag id (field 0) and the payload fields of its exceptions lie.
    pub exceptions: &'a [StructLayout],
    /// The engine's ids of the module's types, in code for that engine alone; other code loads them.
    pub type_ids: Option<&'a [u32]>,
    /// Whether the processor rounds floats in one instruction.
    pub rounds: bool,
    /// Whether the processor multiplies and adds in one instruction.
    pub fuses: bool,
    /// The target, as Cranelift's front end wants it.
    pub frontend: TargetFrontendConfig,
    /// Whether the code is checked (see [`verify`](crate::lower)).
    pub verify: bool,
}

/// A piece of a module's code. Relocations refer to all but loops.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Symbol {
    /// A defined function, by its index in the module.
    Function(u32),
    /// The trampoline of a [`Builtin`], by its discriminant.
    Builtin(u32),
    /// A trampoline of a [`Builtin`] that preserves all registers and takes nothing but the context: for slow paths
    /// beside hot code.
    Cold(u32),
    /// What comes after the header of a loop: the index of its function, and its offset in the module file. No code
    /// calls it.
    Loop(u32, u32),
}

impl Symbol {
    pub(crate) fn name(self) -> ir::UserExternalName {
        let (namespace, index) = match self {
            Symbol::Function(index) => (0, index),
            Symbol::Builtin(index) => (1, index),
            Symbol::Cold(index) => (2, index),
            Symbol::Loop(..) => unreachable!("no code calls what comes after a loop's header"),
        };
        ir::UserExternalName { namespace, index }
    }

    pub(crate) fn of(name: &ir::UserExternalName) -> Symbol {
        match name.namespace {
            0 => Symbol::Function(name.index),
            1 => Symbol::Builtin(name.index),
            _ => Symbol::Cold(name.index),
        }
    }
}

/// The type of a pointer.
pub(crate) const POINTER: ir::Type = types::I64;

/// The Cranelift type that holds values of `ty`.
pub(crate) fn clif_type(ty: ValueType) -> ir::Type {
    match ty {
        ValueType::I32 | ValueType::Ref(_) => types::I32,
        ValueType::I64 => types::I64,
        ValueType::F32 => types::F32,
        ValueType::F64 => types::F64,
        ValueType::V128 => types::I8X16,
    }
}

/// The Cranelift type that holds an element or field of this kind.
pub(crate) fn element_type(kind: StorageKind) -> ir::Type {
    match kind {
        StorageKind::I8 | StorageKind::I16 | StorageKind::I32 | StorageKind::Ref | StorageKind::Immortal => types::I32,
        StorageKind::I64 => types::I64,
        StorageKind::F32 => types::F32,
        StorageKind::F64 => types::F64,
        StorageKind::V128 => types::I8X16,
    }
}

/// The Cranelift type of a builtin's parameter or result.
pub(crate) fn abi_type(ty: AbiType) -> ir::Type {
    match ty {
        AbiType::I32 => types::I32,
        AbiType::I64 => types::I64,
        AbiType::F32 => types::F32,
        AbiType::F64 => types::F64,
    }
}

/// The signature of a Wasm function of this type.
pub(crate) fn wasm_signature(ty: &FuncType) -> Signature {
    code_signature(&ty.params, &ty.results)
}

/// The signature of code that takes and returns values of these types.
pub(crate) fn code_signature(params: &[ValueType], results: &[ValueType]) -> Signature {
    let mut signature = Signature::new(CallConv::Tail);
    signature.params.push(AbiParam::special(POINTER, ArgumentPurpose::VMContext));
    signature.params.extend(params.iter().map(|&ty| AbiParam::new(clif_type(ty))));
    signature.returns.extend(results.iter().map(|&ty| AbiParam::new(clif_type(ty))));
    signature
}

/// The signature of a builtin's trampoline.
pub(crate) fn builtin_signature(builtin: Builtin) -> Signature {
    let description = builtin.signature();
    let convention = if description.preserve_all { CallConv::PreserveAll } else { CallConv::Tail };
    let mut signature = Signature::new(convention);
    signature.params.push(AbiParam::new(POINTER));
    signature.params.extend(description.params.iter().map(|&ty| AbiParam::new(abi_type(ty))));
    signature.returns.extend(description.result.map(|ty| AbiParam::new(abi_type(ty))));
    signature
}

/// The signature of a builtin's cold trampoline, see [`Symbol::Cold`]: the context, whose cells hold the arguments.
/// Arguments in registers of their own would have hot code shuffle what it holds in registers, and so would the address
/// of cells in the frame.
pub(crate) fn cold_signature(builtin: Builtin) -> Signature {
    assert!(builtin.signature().params.len() <= COLD_CELLS, "{builtin:?} has more arguments than a cold call");
    let mut signature = Signature::new(CallConv::PreserveAll);
    signature.params.push(AbiParam::special(POINTER, ArgumentPurpose::VMContext));
    signature
}

impl ModuleEnv<'_> {
    /// What passes are told of the heap.
    pub(crate) fn heap_facts(&self) -> HeapFacts<'_> {
        HeapFacts {
            info: self.info,
            spines: match self.plan.arrays {
                ArrayPlan::Spines(spines) => Some(spines),
                ArrayPlan::Contiguous => None,
            },
            counts_accesses: self.plan.counting.is_some(),
            references_change: self.plan.references_change_at_safepoints,
            lookups: self.lookups(),
        }
    }

    fn lookups(&self) -> Option<Lookups> {
        let references = &self.plan.references;
        let is_in_object = |word| matches!(word, HeaderWord::InObject { .. });
        matches!(references.object, ObjectAt::Through { .. }).then(|| Lookups {
            type_ids: is_in_object(references.type_id),
            lengths: is_in_object(references.array_length),
        })
    }

    /// The layout of a struct type. Panics where it is another kind of type: validation has ruled that out.
    pub(crate) fn struct_layout(&self, ty: TypeIndex) -> &StructLayout {
        self.structs[ty.index()].as_ref().expect("a struct type")
    }

    /// The storage of a struct's field.
    pub(crate) fn field_kind(&self, ty: TypeIndex, field: u32) -> StorageKind {
        self.info.storage_kind(self.info.struct_fields(ty)[field as usize].storage)
    }

    /// The storage of an array's elements.
    pub(crate) fn element_kind(&self, ty: TypeIndex) -> StorageKind {
        self.info.element_kind(ty)
    }

    /// The function type of a tag: its parameters are the payload.
    pub(crate) fn tag_type(&self, tag: TagIndex) -> &FuncType {
        self.info.func_type(self.info.tags[tag.index()])
    }

    /// Whether values of this type may be references that the collector must find.
    pub(crate) fn is_traced(&self, ty: ValueType) -> bool {
        self.info.is_traced(ty)
    }
}

/// Where the fields of exceptions with this payload lie: the tag id is field 0.
pub(crate) fn exception_layout(info: &ModuleInfo, tag: &FuncType) -> StructLayout {
    let payload = tag.params.iter().map(|&ty| info.storage_kind(StorageType::Value(ty)));
    StructLayout::new(std::iter::once(StorageKind::I32).chain(payload))
}
