//! What a TeaVM module imports, found by name.

use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use legato::{AsContextMut, Caller, ExternType, FuncType, Global, ImportType, Linker, Memory, Module, Val, ValType};

use crate::console::TeaVmCtx;
use crate::memory::{self, Requirements};
use crate::{math, weak};

/// What is said of a program whose output cannot be written.
const UNWRITTEN: &str = "cannot write the program's output";

/// Whether the module was compiled by TeaVM: whether it imports from one of the modules that TeaVM's host provides.
pub fn is_teavm_module(module: &Module) -> bool {
    module
        .imports()
        .any(|import| matches!(import.module(), "teavm" | "teavmMemory" | "teavmConsole" | "teavmDate" | "teavmMath"))
}

/// Defines what `module` imports of TeaVM's host, its memory included. `get` finds the context in the store's data.
///
/// The functions' types depend on the module (weak references carry its own types), so that each module wants a linker
/// of its own. Imports that TeaVM's host does not know are left to others.
///
/// # Errors
///
/// If a name is defined already, an import has a type that it should not have, or the module's custom section about its
/// memory is broken.
pub fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    mut store: impl AsContextMut<Data = T>,
    module: &Module,
    get: impl Fn(&mut T) -> &mut TeaVmCtx + Copy + Send + Sync + 'static,
) -> Result<()> {
    let instructions = math::instructions(linker.engine(), module)?;
    for import in module.imports() {
        if let Some(library) = &instructions
            && import.module() == "teavmMath"
            && library.get_export(import.name()).is_some()
        {
            linker.define_export("teavmMath", import.name(), library, import.name())?;
            continue;
        }
        define(linker, &mut store, module, &import, get)
            .with_context(|| format!("cannot provide `{}.{}`", import.module(), import.name()))?;
    }
    Ok(())
}

fn define<T: 'static>(
    linker: &mut Linker<T>,
    store: &mut impl AsContextMut<Data = T>,
    module: &Module,
    import: &ImportType<'_>,
    get: impl Fn(&mut T) -> &mut TeaVmCtx + Copy + Send + Sync + 'static,
) -> Result<()> {
    let (from, name) = (import.module(), import.name());
    match (from, name) {
        ("env", "memory") => {
            let ExternType::Memory(ty) = import.ty() else { bail!("it should be a memory") };
            let memory = Memory::new(&mut *store, ty)?;
            linker.define(&*store, from, name, memory)?;
        }
        ("teavmMemory", "heapOffset" | "maxSize") => {
            let ExternType::Global(ty) = import.ty() else { bail!("it should be a global") };
            let value = if name == "heapOffset" {
                requirements(module)?.heap_offset()
            } else {
                memory::max_size(maximum(module))
            };
            let global = Global::new(&mut *store, ty, Val::I32(value))?;
            linker.define(&*store, from, name, global)?;
        }
        // Only a host that looks into the memory by itself has to know.
        ("teavmMemory", "notifyHeapResized") => {
            linker.func_wrap(from, name, |_: Caller<'_, T>| {})?;
        }
        ("teavmConsole", "putcharStdout") => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, unit: i32| -> Result<()> {
                get(caller.data_mut()).put_out(unit as u16).context(UNWRITTEN)?;
                if unit == i32::from(b'\n') { weak::report_the_dead(&mut caller, &get) } else { Ok(()) }
            })?;
        }
        ("teavmConsole", "putcharStderr") => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, unit: i32| -> Result<()> {
                get(caller.data_mut()).put_err(unit as u16).context(UNWRITTEN)
            })?;
        }
        ("teavmDate", "currentTimeMillis") => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>| -> Result<f64> {
                weak::report_the_dead(&mut caller, &get)?;
                let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                Ok(since_epoch.unwrap_or_default().as_millis() as f64)
            })?;
        }
        ("teavmMath", "random") => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>| -> f64 {
                math::random(&mut get(caller.data_mut()).random)
            })?;
        }
        ("teavmMath", name) => {
            if let Some(function) = math::unary(name) {
                linker.func_wrap(from, name, move |_: Caller<'_, T>, x: f64| -> f64 { function(x) })?;
            } else if let Some(function) = math::binary(name) {
                linker.func_wrap(from, name, move |_: Caller<'_, T>, x: f64, y: f64| -> f64 { function(x, y) })?;
            }
        }
        ("teavm", "createWeakRef" | "deref" | "createStringWeakRef" | "stringDeref") => {
            let ExternType::Func(ty) = import.ty() else { bail!("it should be a function") };
            let result = single_result(&ty)?;
            let call = match name {
                "createWeakRef" => weak::create,
                "deref" => weak::deref,
                "createStringWeakRef" => weak::create_string,
                _ => weak::string_deref,
            };
            linker.func_new(from, name, ty, move |caller, params, results| {
                results[0] = call(caller, get, params, &result)?;
                Ok(())
            })?;
        }
        _ => {}
    }
    Ok(())
}

/// The result of a function that takes references and returns one.
fn single_result(ty: &FuncType) -> Result<ValType> {
    let mut results = ty.results();
    match (ty.params().len(), results.next(), results.next()) {
        (1.., Some(result), None) => Ok(result),
        _ => bail!("it should take a reference and return one, but is {ty}"),
    }
}

fn requirements(module: &Module) -> Result<Requirements> {
    Requirements::parse(module.custom_section(memory::SECTION))
}

/// The greatest size of the imported memory, in pages.
fn maximum(module: &Module) -> Option<u64> {
    module.imports().find_map(|import| match import.ty() {
        ExternType::Memory(ty) => Some(ty.maximum()),
        _ => None,
    })?
}
