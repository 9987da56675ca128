//! Why a call failed: [`Trap`], [`ThrownException`], and where: [`WasmBacktrace`].

use std::fmt;
use std::panic;

use anyhow::Error;
use legato_compiler::artifact::TrapCode;

use crate::store::StoreOpaque;
use crate::vm::{BacktraceFrame, TrapRecord, Unwind, frames};

/// Why compiled code stopped. Find it with `error.downcast_ref::<Trap>()`.
///
/// ```
/// use legato::{Engine, Instance, Module, Store, Trap};
///
/// let engine = Engine::default();
/// let module = Module::new(&engine, r#"(module (func (export "fail") unreachable))"#)?;
/// let mut store = Store::new(&engine, ());
/// let instance = Instance::new(&mut store, &module, &[])?;
/// let error = instance.get_typed_func::<(), ()>(&mut store, "fail")?.call(&mut store, ()).unwrap_err();
/// assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::UnreachableCodeReached));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trap {
    /// `unreachable` was executed.
    #[error("wasm trap: unreachable executed")]
    UnreachableCodeReached,
    /// An access outside a linear memory.
    #[error("wasm trap: out of bounds memory access")]
    MemoryOutOfBounds,
    /// An access outside a table.
    #[error("wasm trap: undefined element: out of bounds table access")]
    TableOutOfBounds,
    /// An access outside an array.
    #[error("wasm trap: out of bounds array access")]
    ArrayOutOfBounds,
    /// `call_indirect` of an element that is null.
    #[error("wasm trap: uninitialized element")]
    IndirectCallToNull,
    /// `call_indirect` of a function of another type.
    #[error("wasm trap: indirect call type mismatch")]
    BadSignature,
    /// Integer division by zero.
    #[error("wasm trap: integer divide by zero")]
    IntegerDivisionByZero,
    /// Integer overflow.
    #[error("wasm trap: integer overflow")]
    IntegerOverflow,
    /// Conversion of a float that is out of range or no number.
    #[error("wasm trap: invalid conversion to integer")]
    BadConversionToInteger,
    /// A null reference was used.
    #[error("wasm trap: null reference")]
    NullReference,
    /// A cast to a type that the value does not have.
    #[error("wasm trap: cast failure")]
    CastFailure,
    /// The stack limit was passed.
    #[error("wasm trap: call stack exhausted")]
    StackOverflow,
    /// An [`InterruptHandle`](crate::InterruptHandle) or a deadline stopped the code.
    #[error("wasm trap: interrupt")]
    Interrupt,
    /// The heap is exhausted.
    #[error("wasm trap: allocation failure")]
    AllocationFailure,
    /// An array larger than the heap can ever hold was asked for.
    #[error("wasm trap: allocation size too large")]
    AllocationTooLarge,
    /// A check of the code generator's own failed.
    #[error("wasm trap: internal error")]
    Internal,
}

impl From<TrapCode> for Trap {
    fn from(code: TrapCode) -> Trap {
        match code {
            TrapCode::Unreachable => Trap::UnreachableCodeReached,
            TrapCode::MemoryOutOfBounds => Trap::MemoryOutOfBounds,
            TrapCode::TableOutOfBounds => Trap::TableOutOfBounds,
            TrapCode::ArrayOutOfBounds => Trap::ArrayOutOfBounds,
            TrapCode::IndirectCallToNull => Trap::IndirectCallToNull,
            TrapCode::BadSignature => Trap::BadSignature,
            TrapCode::IntegerDivisionByZero => Trap::IntegerDivisionByZero,
            TrapCode::IntegerOverflow => Trap::IntegerOverflow,
            TrapCode::BadConversionToInteger => Trap::BadConversionToInteger,
            TrapCode::NullReference => Trap::NullReference,
            TrapCode::CastFailure => Trap::CastFailure,
            TrapCode::StackOverflow => Trap::StackOverflow,
            TrapCode::Interrupt => Trap::Interrupt,
            TrapCode::AllocationFailure => Trap::AllocationFailure,
            TrapCode::AllocationTooLarge => Trap::AllocationTooLarge,
            TrapCode::Internal => Trap::Internal,
        }
    }
}

/// An exception left the outermost function of a call, from where the error's [`WasmBacktrace`] says: find it with
/// [`Store::take_pending_exception`](crate::Store::take_pending_exception). A host function that fails with it throws
/// the exception that became pending in it; where there is none, this is an error like any other.
///
/// ```
/// use legato::{Engine, Instance, Module, Store, ThrownException};
///
/// let engine = Engine::default();
/// let module = Module::new(&engine, "(module (tag $oh) (func (export \"fail\") (throw $oh)))")?;
/// let mut store = Store::new(&engine, ());
/// let instance = Instance::new(&mut store, &module, &[])?;
/// let error = instance.get_typed_func::<(), ()>(&mut store, "fail")?.call(&mut store, ()).unwrap_err();
/// assert!(error.is::<ThrownException>() && store.has_pending_exception());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an exception was thrown and not caught")]
pub struct ThrownException;

/// The frames of compiled code at the time of a failure, innermost first. Find it with
/// `error.downcast_ref::<WasmBacktrace>()`.
///
/// ```
/// use legato::{Engine, Instance, Module, Store, WasmBacktrace};
///
/// let engine = Engine::default();
/// let module = Module::new(
///     &engine,
///     r#"(module (func $inner unreachable) (func (export "outer") (call $inner)))"#,
/// )?;
/// let mut store = Store::new(&engine, ());
/// let instance = Instance::new(&mut store, &module, &[])?;
/// let error = instance.get_typed_func::<(), ()>(&mut store, "outer")?.call(&mut store, ()).unwrap_err();
/// let frames = error.downcast_ref::<WasmBacktrace>().expect("compiled code ran").frames();
/// assert_eq!(frames.iter().map(|frame| frame.func_index()).collect::<Vec<_>>(), [0, 1]);
/// assert_eq!(frames[0].func_name(), Some("inner"));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WasmBacktrace {
    frames: Vec<FrameInfo>,
}

/// A frame of a [`WasmBacktrace`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameInfo {
    frame: BacktraceFrame,
}

impl WasmBacktrace {
    /// The frames, innermost first.
    pub fn frames(&self) -> &[FrameInfo] {
        &self.frames
    }

    pub(crate) fn resolve(addresses: &[usize]) -> WasmBacktrace {
        WasmBacktrace { frames: frames::resolve(addresses).into_iter().map(|frame| FrameInfo { frame }).collect() }
    }

    /// The frames of the code that called the host function under way in `store`.
    pub fn capture(store: impl crate::AsContext) -> WasmBacktrace {
        let store = store.as_context();
        // SAFETY: host code runs, so compiled code of the store has called out, or none is active.
        WasmBacktrace::resolve(&unsafe { frames::capture(store.0.opaque.words()) })
    }
}

impl FrameInfo {
    /// Index of the function in its module.
    pub fn func_index(&self) -> u32 {
        self.frame.function
    }

    /// Name of the function, from the name section.
    pub fn func_name(&self) -> Option<&str> {
        self.frame.function_name.as_deref()
    }

    /// Name of the module, from the name section.
    pub fn module_name(&self) -> Option<&str> {
        self.frame.module_name.as_deref()
    }

    /// Offset of the instruction in the module file, in bytes.
    pub fn module_offset(&self) -> Option<usize> {
        self.frame.wasm_offset.map(|offset| offset as usize)
    }
}

impl fmt::Display for WasmBacktrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("error while executing at wasm backtrace:")?;
        for (number, frame) in self.frames.iter().enumerate() {
            write!(f, "\n  {number:3}: ")?;
            if let Some(offset) = frame.module_offset() {
                write!(f, "{offset:#8x} - ")?;
            }
            let module = frame.module_name().unwrap_or("<unknown>");
            match frame.func_name() {
                Some(name) => write!(f, "{module}!{name}")?,
                None => write!(f, "{module}!<wasm function {}>", frame.func_index())?,
            }
        }
        Ok(())
    }
}

/// The error of a call that compiled code gave up. Resumes the panic of a host function.
pub(crate) fn error_of(store: &mut StoreOpaque, unwind: Unwind) -> Error {
    match unwind {
        Unwind::Trap(TrapRecord { code, message, frames }) => {
            let mut error = Error::from(Trap::from(code));
            if let Some(message) = message {
                error = error.context(message);
            }
            with_backtrace(store, error, &frames)
        }
        Unwind::Exception { reference, frames } => {
            store.state.pending_exception = Some(legato_heap::Reference(reference));
            with_backtrace(store, Error::from(ThrownException), &frames)
        }
        Unwind::Error(error) => error,
        Unwind::Panic(payload) => panic::resume_unwind(payload),
    }
}

/// The reason to unwind that a host function's error is: the exception that is pending in it, if the error says so.
pub(crate) fn unwind_of(store: &mut StoreOpaque, error: Error) -> Unwind {
    if error.is::<ThrownException>()
        && let Some(exception) = store.state.pending_exception.take()
    {
        return Unwind::Exception { reference: exception.0, frames: Vec::new() };
    }
    Unwind::Error(with_frames_of_now(store, error))
}

/// An error that ends what compiled code called, with the frames of now if it has none yet.
pub(crate) fn with_frames_of_now(store: &StoreOpaque, error: Error) -> Error {
    if error.is::<WasmBacktrace>() {
        return error;
    }
    // SAFETY: compiled code has called out through a trampoline, or none is active.
    let frames = unsafe { frames::capture(store.words()) };
    with_backtrace(store, error, &frames)
}

fn with_backtrace(store: &StoreOpaque, error: Error, frames: &[usize]) -> Error {
    if frames.is_empty() || !store.engine.config().backtrace {
        return error;
    }
    error.context(WasmBacktrace::resolve(frames))
}
