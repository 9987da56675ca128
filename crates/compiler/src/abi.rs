//! What compiled code and the runtime agree on: the instance context, function references, builtins, conventions.
//!
//! # Conventions
//!
//! * A Wasm function is compiled with Cranelift's `Tail` convention and takes `(context: i64, params...)`; all Wasm
//!   results are returned as they are. `context` is the callee's instance context (below).
//! * Every reference is an `i32` in compiled code, and 0 is null. `funcref` is an offset into the store's table of
//!   [`FuncRef`] records, all others (GC, `externref`, `exnref`) are offsets into its heap's cage.
//! * Compiled code preserves frame pointers, so that frames are walked by `[fp]` and `[fp + 8]`.
//! * *Entry trampoline* (host to Wasm), one for each machine signature, the platform's C convention:
//!   `extern "C" fn(context: *mut u8, code: *const u8, values: *mut Value, entry: *mut EntryRecord) -> u32`. Loads the
//!   parameters from `values` (16-byte cells), records its stack pointer, frame pointer and landing address in `entry`,
//!   calls `code` with `try_call`, stores the results over `values` and returns 0; unwinding resumes at its
//!   landing pad, which returns 1.
//! * *Exit trampoline* (Wasm to host), one for each machine signature, `Tail` convention `(context, params...)` where
//!   `context` is a [`HostContext`]: stores the parameters into 16-byte cells on the stack, records the caller's frame
//!   pointer and its own return address in the store context (see [`StoreContext`]), and calls
//!   `host_context.call(host_context, cells) -> u32`. On 0 it loads the results from the cells and returns them,
//!   otherwise it calls `raise` (see [`Builtin::Raise`]), which does not return.
//! * *Builtin trampoline*, one for each [`Builtin`], compiled code's way into the runtime: `Tail` (or `PreserveAll`,
//!   see [`BuiltinSignature::preserve_all`]) convention `(context, params...)`, records the exit like an exit
//!   trampoline, calls the runtime's function through the `builtins` table in the context with the platform's C
//!   convention, and calls `raise` where the result says so ([`BuiltinSignature::fails_on`]).
//! * *Cold trampoline* of a builtin, for cold paths of compiled code: `PreserveAll` convention `(context)`; the
//!   arguments lie in [`ContextHead::cold_cells`], and so does the result.

use std::sync::atomic::AtomicU32;

use serde::{Deserialize, Serialize};

/// A value cell at the boundary between host and Wasm: 16 bytes, 16-byte aligned. Smaller values lie at its start,
/// little-endian.
pub const VALUE_CELL_BYTES: u32 = 16;

/// The fixed head of every instance context and every [`HostContext`]. Dynamic parts follow; see [`ContextLayout`].
#[repr(C)]
#[derive(Debug)]
pub struct ContextHead {
    /// [`CONTEXT_MAGIC`] or [`HOST_MAGIC`].
    pub magic: u32,
    /// Offset of the first of the instance's [`FuncRef`] records, in the order of
    /// [`Function::func_ref`](crate::module::Function::func_ref).
    pub func_refs: u32,
    /// The store's context.
    pub store: *mut StoreContext,
    /// The heap's mutator context.
    pub mutator: *mut legato_heap::MutatorContext,
    /// The cage's base address; null where there was no heap yet when the instance was made, which needs none.
    pub cage: *mut u8,
    /// The type table's base address.
    pub types: *const u8,
    /// The runtime's builtin functions, indexed by [`Builtin`].
    pub builtins: *const *const u8,
    /// Where cold calls leave their arguments, and the builtin's trampoline its result, in the first.
    pub cold_cells: [u64; COLD_CELLS],
    /// How many more iterations of loops in quickly compiled code, of all loops together, until one asks for optimised
    /// code ([`Builtin::OsrEntry`]), which sets it anew.
    pub loops_left: i32,
    /// Address of the store's table of [`FuncRef`] records. It changes when the table grows, which it may while the
    /// host or the runtime is called. The first record stands for null: its type is [`NO_FUNC_TYPE`].
    pub func_table: *const FuncRef,
    /// The profile that quickly compiled code makes: which functions calls by reference have led to, [`TARGETS`] words
    /// for each such call of the module; then a word for each loop and each call that is counted, how often it has run.
    /// Null where no code makes one.
    pub profile: *const AtomicU32,
}

/// How many functions are noted for a call by reference: each in the word that the low bits of its index say. A power
/// of two.
pub const TARGETS: usize = 8;

/// The type id of no function.
pub const NO_FUNC_TYPE: u32 = u32::MAX;

impl ContextHead {
    /// Where the cells of cold calls lie, in bytes.
    pub(crate) const COLD_CELLS_OFFSET: i32 = std::mem::offset_of!(ContextHead, cold_cells) as i32;
}

/// How many cells of 8 bytes there are in a context.
pub const COLD_CELLS: usize = 3;

/// Marks an instance context.
pub const CONTEXT_MAGIC: u32 = 0x4c45_4741;
/// Marks a [`HostContext`].
pub const HOST_MAGIC: u32 = 0x4c45_484f;

/// The context that an exit trampoline receives: a host function as one instance (or none) imported it.
#[repr(C)]
#[derive(Debug)]
pub struct HostContext {
    /// The common head (`func_refs`, `func_table` and `profile` unused).
    pub head: ContextHead,
    /// Called by the exit trampoline with this context and the value cells. Returns 0, or 1 to unwind.
    pub call: unsafe extern "C" fn(*mut HostContext, *mut u8) -> u32,
}

/// What compiled code and the walks over its frames know of a store. Trampolines write the first two words.
#[repr(C)]
#[derive(Debug)]
pub struct StoreContext {
    /// Frame pointer of the Wasm frame that last called out.
    pub last_exit_fp: usize,
    /// Return address into that frame.
    pub last_exit_pc: usize,
    /// The address that compiled code's frames must not reach below, whatever
    /// [`MutatorContext::stack_limit`](legato_heap::MutatorContext::stack_limit) says for the moment: functions with
    /// frames too large for the reserve below the limit compare with it before they take their frame, and trap. 0:
    /// never.
    pub stack_floor: usize,
    /// The cage's base address: a fault in the inaccessible bytes from there on is the dereference of null. Null until
    /// the store has a heap.
    pub cage: *const u8,
}

impl StoreContext {
    /// The words of a store with this cage, of which no code is active.
    pub fn new(cage: *const u8) -> StoreContext {
        StoreContext { last_exit_fp: 0, last_exit_pc: 0, stack_floor: 0, cage }
    }
}

/// What an entry trampoline records of itself, for unwinding to it and for ending a stack walk.
#[repr(C)]
#[derive(Debug, Default)]
pub struct EntryRecord {
    /// The trampoline's stack pointer at its call of Wasm code.
    pub sp: usize,
    /// The trampoline's frame pointer. A stack walk ends at the frame whose caller has this frame pointer.
    pub fp: usize,
    /// Address of the landing pad that makes the trampoline return 1. It takes no payload.
    pub landing: usize,
}

/// A function reference's record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FuncRef {
    /// Entry with the `Tail` convention.
    pub code: *const u8,
    /// Context to pass: an instance context or a [`HostContext`].
    pub context: *mut u8,
    /// The function's exact type, a `TypeId` of the engine's type table.
    pub type_id: u32,
    /// One more than the function's index in the module of the instance that made the record, for [`TARGETS`];
    /// [`HOST_FUNCTION`] where it is a function of the host, 0 in the record of null.
    pub number: u32,
    /// Reserved for the runtime.
    pub data: usize,
}

/// The [`FuncRef::number`] of functions of the host, whose context is a [`HostContext`].
pub const HOST_FUNCTION: u32 = u32::MAX;

/// An imported function in the context: what a direct call of it needs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FuncImport {
    /// See [`FuncRef::code`].
    pub code: *const u8,
    /// See [`FuncRef::context`].
    pub context: *mut u8,
}

/// A linear memory as compiled code sees it. Lives in the context of the instance that defines it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryHead {
    /// Base address. Constant for the memory's life when the memory is
    /// [`MemoryPlan::Static`](crate::module::MemoryPlan).
    pub base: *mut u8,
    /// Current length in bytes.
    pub bytes: usize,
}

/// A table as compiled code sees it: 32-bit references. Lives in the context of the instance that defines it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TableHead {
    /// Address of element 0.
    pub base: *mut u32,
    /// Current length in elements.
    pub length: usize,
    /// Address of the table's first card: a byte for each `1 << TABLE_CARD_LOG2` elements, 1 where a reference to a
    /// young object may have been stored since the last nursery collection. Compiled code marks it where the heap's
    /// plan has a barrier.
    pub cards: *mut u8,
}

/// Binary logarithm of the elements that a card of a table stands for.
pub const TABLE_CARD_LOG2: u32 = 7;

/// Bytes of a global's cell in the context of the instance that defines it.
pub const GLOBAL_BYTES: u32 = 16;

/// Where the parts of one module's instance context lie. Offsets in bytes from the context's start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ContextLayout {
    /// `u32` engine type id for each type of the module.
    pub type_ids: u32,
    /// `u32` id for each tag (imported and defined): unique in the store.
    pub tags: u32,
    /// `u32` engine type id for each tag: the type of its exception objects.
    pub exception_types: u32,
    /// One [`FuncImport`] for each imported function.
    pub func_imports: u32,
    /// `*mut MemoryHead` for each imported memory.
    pub memory_imports: u32,
    /// `*mut TableHead` for each imported table.
    pub table_imports: u32,
    /// `*mut u8` (the global's cell) for each imported global.
    pub global_imports: u32,
    /// A [`MemoryHead`] for each defined memory.
    pub memories: u32,
    /// A [`TableHead`] for each defined table.
    pub tables: u32,
    /// A 16-byte, 16-byte aligned cell for each defined global.
    pub globals: u32,
    /// Size of the whole context. Allocate it 16-byte aligned.
    pub bytes: u32,
}

impl ContextLayout {
    /// Lays out the context of a module with these counts.
    pub fn new(counts: &ContextCounts) -> ContextLayout {
        let mut end = size_of::<ContextHead>() as u32;
        let mut part = |count: usize, bytes: u32, alignment: u32| {
            end = end.next_multiple_of(alignment);
            let start = end;
            end += count as u32 * bytes;
            start
        };
        let mut layout = ContextLayout {
            type_ids: part(counts.types, 4, 4),
            tags: part(counts.tags, 4, 4),
            exception_types: part(counts.tags, 4, 4),
            func_imports: part(counts.func_imports, size_of::<FuncImport>() as u32, 8),
            memory_imports: part(counts.memory_imports, 8, 8),
            table_imports: part(counts.table_imports, 8, 8),
            global_imports: part(counts.global_imports, 8, 8),
            memories: part(counts.memories, size_of::<MemoryHead>() as u32, 8),
            tables: part(counts.tables, size_of::<TableHead>() as u32, 8),
            globals: part(counts.globals, GLOBAL_BYTES, 16),
            bytes: 0,
        };
        layout.bytes = end.next_multiple_of(16);
        layout
    }
}

/// The counts that determine a [`ContextLayout`]. `memories`, `tables` and `globals` count the defined ones.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct ContextCounts {
    pub types: usize,
    pub tags: usize,
    pub func_imports: usize,
    pub memory_imports: usize,
    pub table_imports: usize,
    pub global_imports: usize,
    pub memories: usize,
    pub tables: usize,
    pub globals: usize,
}

/// A machine type at a builtin's boundary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AbiType {
    /// 32 bits: `i32`, or any reference.
    I32,
    /// 64 bits.
    I64,
    /// Double precision.
    F64,
    /// Single precision.
    F32,
}

/// Signature of a builtin, without the context that is always its first parameter.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinSignature {
    /// Parameters after the context.
    pub params: &'static [AbiType],
    /// The result, if any.
    pub result: Option<AbiType>,
    /// The builtin has recorded a trap or exception, to be raised by its trampoline, when its `I64` result is this
    /// value (for `I32` results the runtime's function returns 64 bits and the trampoline keeps the low 32).
    pub fails_on: Option<i64>,
    /// Compiled with `PreserveAll`: for cold paths in hot loops; has no result.
    pub preserve_all: bool,
    /// Whether it can collect garbage, so that a call of it is a safepoint.
    pub safepoint: bool,
}

macro_rules! builtins {
    ($($(#[$doc:meta])* $name:ident ( $($param:ident),* ) $(-> $result:ident)? $([$($flag:ident $(= $value:expr)?),*])? ;)*) => {
        /// The functions that compiled code calls in the runtime. In the runtime's C signature every builtin takes the
        /// caller's context first; `fails` builtins return an `i64` (-1: raise), also when they have no result; `errs`
        /// builtins raise at -2.
        #[repr(u32)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum Builtin { $($(#[$doc])* $name),* }

        impl Builtin {
            /// Every builtin, in order of its discriminant.
            pub const ALL: &'static [Builtin] = &[$(Builtin::$name),*];

            /// The builtin's signature.
            pub const fn signature(self) -> BuiltinSignature {
                match self {
                    $(Builtin::$name => {
                        #[allow(unused_mut)]
                        let mut signature = BuiltinSignature {
                            params: &[$(AbiType::$param),*],
                            result: builtins!(@result $($result)?),
                            fails_on: None,
                            preserve_all: false,
                            safepoint: false,
                        };
                        $($(builtins!(@flag signature $flag);)*)?
                        signature
                    })*
                }
            }
        }
    };
    (@result) => { None };
    (@result $result:ident) => { Some(AbiType::$result) };
    (@flag $s:ident fails) => { $s.fails_on = Some(-1) };
    (@flag $s:ident errs) => { $s.fails_on = Some(-2) };
    (@flag $s:ident cold) => { $s.preserve_all = true };
    (@flag $s:ident gc) => { $s.safepoint = true };
}

builtins! {
    /// Unwinds to the innermost handler of the exception, or to the entry for the trap, that the runtime has recorded.
    /// Never returns.
    Raise();
    /// Records a trap by [`TrapCode`](crate::artifact::TrapCode) and unwinds. Never returns.
    Trap(I32);
    /// Throws an exception (`throw` and `throw_ref`). Takes the `exnref`; null is a trap. Never returns, or resumes at
    /// a handler.
    ThrowRef(I32) [gc];
    /// Makes an exception and throws it: its payload, which is one reference, and the tag's index in the module. Never
    /// returns, or resumes at a handler.
    Throw(I32, I32) [gc];
    /// A poll that found the interrupt word set, or the stack limit passed: may collect, may trap.
    Poll() [fails, cold, gc];
    /// The cold path of the store barrier: empties the store buffer, which is full. Never collects.
    FlushStoreBuffer() [cold];
    /// `struct.set` of a reference to an object or null, with the store barrier: object (not null), offset of the field
    /// in bytes, reference. Never collects.
    StoreField(I32, I32, I32);
    /// `array.set` of a reference to an object or null, with the store barrier: array (not null, in one piece), index
    /// (within its length), reference. Never collects.
    StoreElement(I32, I32, I32) [fails];
    /// Allocates a zeroed struct of the engine type id given.
    AllocateStruct(I32) -> I32 [fails, gc];
    /// Allocates a zeroed array: engine type id, length.
    AllocateArray(I32, I32) -> I32 [fails, gc];
    /// `array.new` of elements that are neither references nor vectors: engine type id, element as raw bits, length.
    ArrayNew(I32, I64, I32) -> I32 [fails, gc];
    /// `array.new_data`: engine type id, module data segment, offset in bytes, length in elements.
    ArrayNewData(I32, I32, I32, I32) -> I32 [fails, gc];
    /// `array.new_elem`: engine type id, module element segment, offset, length.
    ArrayNewElem(I32, I32, I32, I32) -> I32 [fails, gc];
    /// `array.init_data`: array (not null), start, data segment, offset, length. Checks all bounds.
    ArrayInitData(I32, I32, I32, I32, I32) [fails];
    /// `array.init_elem`: array (not null), start, element segment, offset, length. Checks all bounds.
    ArrayInitElem(I32, I32, I32, I32, I32) [fails, gc];
    /// The leaf to store to where a spine's pointer leads to one that must not be written: array (not null, with
    /// leaves), index of the element, 1 where all bits to be stored are zero (otherwise 0). Result: the leaf's cage
    /// offset; where zero is to be stored, it may be the zero leaf's. Never collects.
    LeafForStore(I32, I32, I32) -> I32 [fails];
    /// `array.fill`: array (not null), start, value as raw bits, length. Checks all bounds. It and the other bulk
    /// builtins on arrays may collect where the heap's plan has leaves.
    ArrayFill(I32, I32, I64, I32) [fails];
    /// `array.copy`: destination, start, source, start, length; neither is null. Checks all bounds.
    ArrayCopy(I32, I32, I32, I32, I32) [fails];
    /// `memory.grow`: module memory index, delta in pages. Result: old size in pages, or -1 (as `i64`, wrapped by the
    /// caller for 32-bit memories). -2: raise, where the host's limiter failed.
    MemoryGrow(I32, I64) -> I64 [errs];
    /// `memory.copy`: destination memory, source memory, destination, source, length. Checks all bounds.
    MemoryCopy(I32, I32, I64, I64, I64) [fails];
    /// `memory.fill`: memory, destination, byte, length.
    MemoryFill(I32, I64, I32, I64) [fails];
    /// `memory.init`: memory, data segment, destination, source offset, length.
    MemoryInit(I32, I32, I64, I32, I32) [fails];
    /// `data.drop`.
    DataDrop(I32);
    /// `table.grow`: module table index, initial reference, delta. Result: old length or -1. -2: raise.
    TableGrow(I32, I32, I64) -> I64 [errs];
    /// `table.fill`: table, start, reference, length.
    TableFill(I32, I64, I32, I64) [fails];
    /// `table.copy`: destination table, source table, destination, source, length.
    TableCopy(I32, I32, I64, I64, I64) [fails];
    /// `table.init`: table, element segment, destination, source offset, length.
    TableInit(I32, I32, I64, I32, I32) [fails, gc];
    /// `elem.drop`.
    ElemDrop(I32);
    /// Floating-point helpers for targets without the instruction (`ceil`, `floor`, `trunc`, `nearest`).
    CeilF64(F64) -> F64;
    /// See [`Builtin::CeilF64`].
    FloorF64(F64) -> F64;
    /// See [`Builtin::CeilF64`].
    TruncF64(F64) -> F64;
    /// See [`Builtin::CeilF64`].
    NearestF64(F64) -> F64;
    /// See [`Builtin::CeilF64`].
    CeilF32(F32) -> F32;
    /// See [`Builtin::CeilF64`].
    FloorF32(F32) -> F32;
    /// See [`Builtin::CeilF64`].
    TruncF32(F32) -> F32;
    /// See [`Builtin::CeilF64`].
    NearestF32(F32) -> F32;
    /// While a snapshot is marked: takes the reference that a store is about to overwrite. Its cold trampoline, the
    /// only one in use, pushes it to the buffer, unless it is null or an immediate, and calls the runtime where the
    /// buffer is full then. Never collects.
    RecordOverwritten(I32);
    /// On-stack replacement: module function index, and offset of a loop of it in the module file. The address of
    /// optimised code that goes on in that loop, with the locals that are live there as parameters; 0 where there is
    /// none, or not yet. Never collects.
    OsrEntry(I32, I32) -> I64 [fails];
    /// Stores what immutable globals hold, references to objects or null, into elements of a new array: array (not
    /// null), index of the first element, six [`GlobalRange`]s, two in each word, the lower half first. The elements
    /// exist, and have not been written since the allocation, behind which nothing has been collected. Never collects.
    InitialiseElements(I32, I32, I64, I64, I64) [fails];
    /// Stores references to functions into fields of objects that immutable globals hold, which are not null: a
    /// [`FunctionStore`] in each word, or 0 for none. In order. Never collects.
    StoreFunctions(I64, I64, I64, I64, I64);
}

/// A store of a reference to a function, as [`Builtin::StoreFunctions`] is told it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionStore {
    /// Index in the module of the global that holds the object.
    pub global: u32,
    /// Offset of the field in the object, in bytes.
    pub offset: u32,
    /// Number of the function's record among the instance's, see [`ContextHead::func_refs`].
    pub record: u32,
}

impl FunctionStore {
    /// The store in 64 bits, not 0; `None` where it does not fit.
    pub fn word(self) -> Option<u64> {
        let fits = self.global < 1 << 24 && self.offset < 1 << 16 && self.record < 1 << 24;
        let word = u64::from(self.offset) << 48 | u64::from(self.global) << 24 | u64::from(self.record);
        // A header stands before the fields.
        (fits && self.offset != 0).then_some(word)
    }

    /// The store of such a word.
    pub fn of_word(word: u64) -> FunctionStore {
        let low = |word: u64| word as u32 & 0xff_ffff;
        FunctionStore { global: low(word >> 24), offset: (word >> 48) as u32, record: low(word) }
    }
}

/// Globals of a module, one behind the other, as [`Builtin::InitialiseElements`] is told them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GlobalRange {
    /// Index of the first one in the module. No module has 2^24 globals.
    pub first: u32,
    /// How many there are, at most [`LONGEST`](Self::LONGEST).
    pub count: u32,
}

impl GlobalRange {
    /// The most globals of one range.
    pub const LONGEST: u32 = 0xff;

    /// The range in 32 bits; 0: an empty one.
    pub fn word(self) -> u32 {
        debug_assert!(self.first < 1 << 24 && self.count <= Self::LONGEST, "{self:?}");
        self.first << 8 | self.count
    }

    /// The range of such a word.
    pub fn of_word(word: u32) -> GlobalRange {
        GlobalRange { first: word >> 8, count: word & Self::LONGEST }
    }
}
