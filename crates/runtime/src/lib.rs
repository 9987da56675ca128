//! Legato: the embedding API of the WebAssembly GC runtime.
//!
//! An [`Engine`] compiles [`Module`]s. A [`Store`] owns a heap and the [`Instance`]s that live in it. A [`Linker`]
//! gives modules their imports by name. Objects are held by [`Rooted`] handles.
//!
//! ```
//! use legato::{Engine, Linker, Module, Store};
//!
//! let engine = Engine::default();
//! let module = Module::new(
//!     &engine,
//!     r#"(module
//!         (import "host" "double" (func $double (param i32) (result i32)))
//!         (func (export "run") (param i32) (result i32)
//!             (i32.add (call $double (local.get 0)) (i32.const 1))))"#,
//! )?;
//! let mut linker = Linker::new(&engine);
//! linker.func_wrap("host", "double", |value: i32| value * 2)?;
//! let mut store = Store::new(&engine, ());
//! let instance = linker.instantiate(&mut store, &module)?;
//! let run = instance.get_typed_func::<i32, i32>(&mut store, "run")?;
//! assert_eq!(run.call(&mut store, 20)?, 41);
//! # Ok::<(), anyhow::Error>(())
//! ```

mod builtins;
mod cache;
mod config;
mod engine;
mod externals;
mod func;
mod gc;
mod instance;
mod interrupt;
mod language;
mod linker;
mod module;
mod precompiled;
mod serialize;
mod store;
mod trap;
mod types;
mod values;
#[allow(dead_code, unused_imports, reason = "a layer complete in itself; its tests use the rest")]
mod vm;

pub use anyhow::{Error, Result, anyhow as format_err, bail, ensure};
pub use cache::{Cache, CacheSize};
pub use config::{Compilation, Config, ProfilingStrategy};
pub use engine::Engine;
pub use externals::{Export, Extern, Global, Memory, MemoryAccessError, Table, Tag};
pub use func::{Caller, Func, IntoFunc, TypedFunc, WasmParams, WasmResults, WasmRet, WasmTy};
pub use gc::{
    AnyRef, ArrayRef, ArrayRefPre, ArrayView, EqRef, ExnRef, ExternRef, FinalizationQueue, GcRef, I31, OwnedRooted,
    RootScope, Rooted, StructRef, StructRefPre, ViewElement, WeakRooted,
};
pub use instance::Instance;
pub use interrupt::{Deadline, InterruptHandle};
pub use legato_compiler::CompileError;
pub use legato_heap::{
    Cause, CollectionKind, Collector, CycleTotals, GcEvent, GcObserver, GcSlice, GcStop, HeapConfig, HeapStats,
    MachineLimit, MachineNotes, MissingSource, Moment, Phase, PhaseTimes, Pressure, PressureReading, PressureSource,
    References, StopKind, VerifyError,
};
pub use linker::{InstancePre, Linker};
pub use module::Module;
pub use precompiled::Precompiled;
pub use store::{
    AsContext, AsContextMut, LimitExceeded, ResourceLimiter, Store, StoreContext, StoreContextMut, StoreLimits,
    StoreLimitsBuilder,
};
pub use trap::{FrameInfo, ThrownException, Trap, WasmBacktrace};
pub use types::{
    ArrayType, ExportType, ExternType, FieldType, Finality, FuncType, GlobalType, HeapType, ImportType, MemoryType,
    Mutability, RefType, StorageType, StructType, TableType, TagType, ValType,
};
pub use values::{Ref, V128, Val};
pub use vm::{CompileCause, CompileObserver, Compiled};

/// The programs in `docs/embedding.md`, to be compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;

/// Those in the guides.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/guides/limits.md")]
    struct Limits;
    #[doc = include_str!("../../../docs/guides/objects.md")]
    struct Objects;
    #[doc = include_str!("../../../docs/guides/heap.md")]
    struct Heap;
}
