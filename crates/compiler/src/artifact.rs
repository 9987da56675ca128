//! The result of compilation: position-independent code and tables, as plain data that can be written to a file.

use serde::{Deserialize, Serialize};

use crate::abi::ContextLayout;
use crate::module::{ModuleInfo, ValueType};
use crate::sources::Sources;
use legato_heap::AccessPlan;

/// A compiled module. Code refers to itself by relative calls only; everything else goes through the context.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompiledModule {
    /// Declarations.
    pub info: ModuleInfo,
    /// Where the instance context's parts lie.
    pub context: ContextLayout,
    /// The heap that the code was compiled for; must equal the store's.
    pub plan: AccessPlan,
    /// Target triple and CPU features the code needs; must be available on the host.
    pub target: TargetInfo,
    /// Machine code of all functions and trampolines.
    #[serde(with = "serde_bytes")]
    pub code: Vec<u8>,
    /// One entry for each defined function, in module order, ascending by offset.
    pub functions: Vec<CompiledFunction>,
    /// The builtin trampolines, one range for each [`Builtin`](crate::abi::Builtin) in order of the enum; empty for
    /// those that the module does not call. They lie in this module's own code.
    pub builtins: Vec<CodeRange>,
    /// Trampolines for the signatures of imported, exported and escaping functions.
    pub trampolines: Vec<Trampolines>,
    /// What the code's addresses mean.
    pub tables: CodeTables,
}

/// What the addresses of a piece of code mean: all of a module's, or one function's. Offsets count from where the code
/// that the module's own offsets count from begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CodeTables {
    /// Places that may trap, ascending by code offset.
    pub traps: Vec<TrapSite>,
    /// Stack maps, ascending by code offset (of the return address).
    pub stack_maps: StackMaps,
    /// Call sites with exception handlers, ascending by code offset of the return address.
    pub call_sites: CallSites,
    /// Where code comes from, ascending by code offset: (code offset, source).
    pub addresses: Vec<(u32, u32)>,
    /// The sources of what was inlined.
    pub sources: Sources,
}

/// What the code was compiled for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TargetInfo {
    /// Target triple.
    pub triple: String,
    /// Enabled CPU features, by Cranelift's names.
    pub features: Vec<String>,
}

/// A piece of code: offset and length in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CodeRange {
    /// Offset from the start of the code.
    pub start: u32,
    /// Length.
    pub length: u32,
}

/// A defined function's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CompiledFunction {
    /// Its code.
    pub range: CodeRange,
    /// Index in the module's function index space.
    pub index: u32,
    /// Offset of its body in the module file. Its code may hold instructions of other, inlined functions.
    pub source: u32,
}

/// The entry and exit trampolines for one machine signature.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trampolines {
    /// The signature.
    pub signature: MachineSignature,
    /// Host to Wasm.
    pub entry: CodeRange,
    /// Wasm to host.
    pub exit: CodeRange,
}

/// A signature reduced to machine types: every reference is an `I32`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct MachineSignature {
    /// Parameters.
    pub params: Vec<MachineType>,
    /// Results.
    pub results: Vec<MachineType>,
}

/// A machine type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum MachineType {
    I32,
    I64,
    F32,
    F64,
    V128,
}

impl MachineType {
    /// The machine type that holds values of `ty`.
    pub const fn of(ty: ValueType) -> MachineType {
        match ty {
            ValueType::I32 | ValueType::Ref(_) => MachineType::I32,
            ValueType::I64 => MachineType::I64,
            ValueType::F32 => MachineType::F32,
            ValueType::F64 => MachineType::F64,
            ValueType::V128 => MachineType::V128,
        }
    }
}

impl MachineSignature {
    /// The signature of functions of this type.
    pub fn of(ty: &crate::module::FuncType) -> MachineSignature {
        MachineSignature {
            params: ty.params.iter().copied().map(MachineType::of).collect(),
            results: ty.results.iter().copied().map(MachineType::of).collect(),
        }
    }
}

/// Why compiled code stopped. The numbers are part of compiled files.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum TrapCode {
    /// `unreachable` was executed.
    Unreachable = 1,
    /// An access outside a linear memory.
    MemoryOutOfBounds = 2,
    /// An access outside a table.
    TableOutOfBounds = 3,
    /// An access outside an array.
    ArrayOutOfBounds = 4,
    /// `call_indirect` of an uninitialised element.
    IndirectCallToNull = 5,
    /// `call_indirect` with another signature.
    BadSignature = 6,
    /// Integer division by zero.
    IntegerDivisionByZero = 7,
    /// Integer overflow.
    IntegerOverflow = 8,
    /// Float to integer conversion of a value out of range or NaN.
    BadConversionToInteger = 9,
    /// A null reference was used.
    NullReference = 10,
    /// `ref.cast` to a type that the object does not have.
    CastFailure = 11,
    /// The stack limit was passed.
    StackOverflow = 12,
    /// Interrupted from outside.
    Interrupt = 13,
    /// The heap (or a limit) is exhausted.
    AllocationFailure = 14,
    /// An array longer than the heap can hold was asked for.
    AllocationTooLarge = 15,
    /// Cranelift's own internal checks.
    Internal = 16,
}

impl TrapCode {
    /// The trap with this number, if there is one.
    pub const fn from_number(number: u8) -> Option<TrapCode> {
        const ALL: [TrapCode; 16] = [
            TrapCode::Unreachable,
            TrapCode::MemoryOutOfBounds,
            TrapCode::TableOutOfBounds,
            TrapCode::ArrayOutOfBounds,
            TrapCode::IndirectCallToNull,
            TrapCode::BadSignature,
            TrapCode::IntegerDivisionByZero,
            TrapCode::IntegerOverflow,
            TrapCode::BadConversionToInteger,
            TrapCode::NullReference,
            TrapCode::CastFailure,
            TrapCode::StackOverflow,
            TrapCode::Interrupt,
            TrapCode::AllocationFailure,
            TrapCode::AllocationTooLarge,
            TrapCode::Internal,
        ];
        if number == 0 || number as usize > ALL.len() { None } else { Some(ALL[number as usize - 1]) }
    }
}

/// A place that may trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TrapSite {
    /// Offset of the faulting instruction.
    pub offset: u32,
    /// The trap.
    pub code: TrapCode,
}

/// Stack maps of a whole module, flattened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StackMaps {
    /// Per safepoint, ascending by return address.
    pub entries: Vec<StackMapEntry>,
    /// Distances in bytes *below the frame pointer* of the frame's live references: slot address = fp - distance. All
    /// are 4-byte slots that hold a traced reference (or null, or an immediate).
    pub slots: Vec<u32>,
}

/// The live references at one safepoint.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct StackMapEntry {
    /// Offset of the return address.
    pub offset: u32,
    /// First slot in [`StackMaps::slots`].
    pub first: u32,
    /// Number of slots.
    pub count: u32,
}

/// Call sites with handlers, flattened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallSites {
    /// Ascending by return address.
    pub entries: Vec<CallSite>,
    /// Handlers of all call sites, each site's in order of precedence.
    pub handlers: Vec<Handler>,
}

/// A call with exception handlers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CallSite {
    /// Offset of the return address.
    pub offset: u32,
    /// The frame's stack pointer while a handler runs: sp = fp - this.
    pub sp_distance: u32,
    /// Where the frame keeps its instance context: at sp + this.
    pub context_offset: u32,
    /// First handler in [`CallSites::handlers`].
    pub first: u32,
    /// Number of handlers.
    pub count: u32,
}

/// One handler of a call site.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Handler {
    /// The module's tag index, or `None`: catches every exception.
    pub tag: Option<u32>,
    /// Offset of the landing pad. It receives the `exnref` as the first payload register (`rax`, `x0`); the second is
    /// ignored.
    pub landing: u32,
}
