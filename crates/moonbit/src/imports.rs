//! What a MoonBit module imports, found by name.

use std::io::ErrorKind;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use legato::{Caller, ExternType, ImportType, Linker, Module, Trap, Val};
use legato_wasi::{I32Exit, PathKind, WasiCtx};

use crate::files;
use crate::values::{Bytes, BytesBuilder, Closure, Cursor, Opaque, StringBuilder, Text, Texts, give, take};
use crate::{MoonBitCtx, console};

/// What a list of strings ends with, when a program reads it.
const END_OF_STRINGS: &str = "ffi_end_of_/string_array";

/// Whether the module was compiled from MoonBit: whether it imports from one of the modules that MoonBit's host
/// provides.
pub fn is_moonbit_module(module: &Module) -> bool {
    module.imports().any(|import| match (import.module(), import.name()) {
        ("spectest", name) => matches!(name, "print_char" | "read_char"),
        (module, _) => module == "moonbit:ffi" || is_unstable(module),
    })
}

fn is_unstable(module: &str) -> bool {
    module.starts_with("__moonbit_") && module.ends_with("_unstable")
}

/// Defines what `module` imports of MoonBit's host. `get` finds the contexts in the store's data.
///
/// Imports that the host does not know, or that are defined already, are left to others.
///
/// # Errors
///
/// If an import whose type is the module's own is no function.
pub fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    module: &Module,
    get: impl Fn(&mut T) -> (&mut MoonBitCtx, &mut WasiCtx) + Copy + Send + Sync + 'static,
) -> Result<()> {
    for import in module.imports() {
        // The same function may be imported twice.
        if linker.is_defined(import.module(), import.name()) {
            continue;
        }
        let defined = match import.module() {
            "spectest" | "moonbit:ffi" => console(linker, &import, get),
            "__moonbit_sys_unstable" | "__moonbit_time_unstable" => system(linker, &import),
            "__moonbit_fs_unstable" => strings(linker, &import)
                .and_then(|()| bytes(linker, &import))
                .and_then(|()| environment(linker, &import, get))
                .and_then(|()| whole_files(linker, &import, get))
                .and_then(|()| files_by_status(linker, &import, get)),
            _ => Ok(()),
        };
        defined.with_context(|| format!("cannot provide `{}.{}`", import.module(), import.name()))?;
    }
    Ok(())
}

fn console<T: 'static>(
    linker: &mut Linker<T>,
    import: &ImportType<'_>,
    get: impl Fn(&mut T) -> (&mut MoonBitCtx, &mut WasiCtx) + Copy + Send + Sync + 'static,
) -> Result<()> {
    let (from, name) = (import.module(), import.name());
    match (from, name) {
        ("spectest", "print_char") => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, code: i32| -> Result<()> {
                let (ctx, wasi) = get(caller.data_mut());
                ctx.console.print(wasi, code as u32).context("cannot write the program's output")
            })?;
        }
        ("spectest", "read_char") => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>| -> Result<i32> {
                let interrupts = caller.interrupt_handle();
                let (_, wasi) = get(caller.data_mut());
                wasi.interrupted_by(interrupts.clone());
                match console::read(wasi) {
                    Err(error) if error.kind() == ErrorKind::Interrupted && interrupts.answer() => {
                        Err(Trap::Interrupt.into())
                    }
                    read => Ok(read?.map_or(-1, |char| char as i32)),
                }
            })?;
        }
        ("moonbit:ffi", "make_closure") => {
            let ExternType::Func(ty) = import.ty() else { bail!("it should be a function") };
            linker.func_new(from, name, ty, move |mut caller, params, results| {
                let closure = Closure::new(&mut caller, params)?;
                results[0] = Val::ExternRef(give(&mut caller, closure)?);
                Ok(())
            })?;
        }
        _ => {}
    }
    Ok(())
}

fn system<T: 'static>(linker: &mut Linker<T>, import: &ImportType<'_>) -> Result<()> {
    let (from, name) = (import.module(), import.name());
    match name {
        "exit" => {
            linker
                .func_wrap(from, name, |_: Caller<'_, T>, status: i32| -> Result<()> { Err(I32Exit(status).into()) })?;
        }
        "is_windows" => {
            linker.func_wrap(from, name, |_: Caller<'_, T>| -> i32 { 0 })?;
        }
        // Milliseconds since 1970.
        "now" => {
            linker.func_wrap(from, name, |_: Caller<'_, T>| -> i64 {
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
            })?;
        }
        "instant_now" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>| give(&mut caller, Instant::now()))?;
        }
        "instant_elapsed_as_secs_f64" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, instant: Opaque| -> Result<f64> {
                Ok(take::<_, Instant>(&mut caller, instant)?.elapsed().as_secs_f64())
            })?;
        }
        _ => {}
    }
    Ok(())
}

/// Strings and lists of them, which cross by the element.
fn strings<T: 'static>(linker: &mut Linker<T>, import: &ImportType<'_>) -> Result<()> {
    let (from, name) = (import.module(), import.name());
    match name {
        "begin_create_string" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>| give(&mut caller, StringBuilder(Vec::new())))?;
        }
        "string_append_char" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, builder: Opaque, unit: i32| -> Result<()> {
                take::<_, StringBuilder>(&mut caller, builder)?.0.push(unit as u16);
                Ok(())
            })?;
        }
        "finish_create_string" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, builder: Opaque| -> Result<Opaque> {
                let units = std::mem::take(&mut take::<_, StringBuilder>(&mut caller, builder)?.0);
                give(&mut caller, Text(units.into()))
            })?;
        }
        "begin_read_string" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, text: Opaque| -> Result<Opaque> {
                let units = take::<_, Text>(&mut caller, text)?.0.clone();
                give(&mut caller, Cursor::new(units))
            })?;
        }
        "string_read_char" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, cursor: Opaque| -> Result<i32> {
                Ok(take::<_, Cursor<u16>>(&mut caller, cursor)?.read().map_or(-1, i32::from))
            })?;
        }
        "begin_read_string_array" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, texts: Opaque| -> Result<Opaque> {
                let texts = take::<_, Texts>(&mut caller, texts)?.0.clone();
                give(&mut caller, Cursor::new(texts))
            })?;
        }
        "string_array_read_string" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, cursor: Opaque| -> Result<Opaque> {
                let text = take::<_, Cursor<Text>>(&mut caller, cursor)?.read();
                give(&mut caller, text.unwrap_or_else(|| Text::from(END_OF_STRINGS)))
            })?;
        }
        "finish_read_string" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, cursor: Opaque| -> Result<()> {
                take::<_, Cursor<u16>>(&mut caller, cursor)?.finish();
                Ok(())
            })?;
        }
        "finish_read_string_array" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, cursor: Opaque| -> Result<()> {
                take::<_, Cursor<Text>>(&mut caller, cursor)?.finish();
                Ok(())
            })?;
        }
        _ => {}
    }
    Ok(())
}

/// Byte arrays, which cross by the byte.
fn bytes<T: 'static>(linker: &mut Linker<T>, import: &ImportType<'_>) -> Result<()> {
    let (from, name) = (import.module(), import.name());
    match name {
        "begin_create_byte_array" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>| give(&mut caller, BytesBuilder(Vec::new())))?;
        }
        "byte_array_append_byte" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, builder: Opaque, byte: i32| -> Result<()> {
                take::<_, BytesBuilder>(&mut caller, builder)?.0.push(byte as u8);
                Ok(())
            })?;
        }
        "finish_create_byte_array" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, builder: Opaque| -> Result<Opaque> {
                let bytes = std::mem::take(&mut take::<_, BytesBuilder>(&mut caller, builder)?.0);
                give(&mut caller, Bytes(bytes.into()))
            })?;
        }
        "begin_read_byte_array" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, bytes: Opaque| -> Result<Opaque> {
                let bytes = take::<_, Bytes>(&mut caller, bytes)?.0.clone();
                give(&mut caller, Cursor::new(bytes))
            })?;
        }
        "byte_array_read_byte" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, cursor: Opaque| -> Result<i32> {
                Ok(take::<_, Cursor<u8>>(&mut caller, cursor)?.read().map_or(-1, i32::from))
            })?;
        }
        "finish_read_byte_array" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>, cursor: Opaque| -> Result<()> {
                take::<_, Cursor<u8>>(&mut caller, cursor)?.finish();
                Ok(())
            })?;
        }
        _ => {}
    }
    Ok(())
}

/// Arguments and environment.
fn environment<T: 'static>(
    linker: &mut Linker<T>,
    import: &ImportType<'_>,
    get: impl Fn(&mut T) -> (&mut MoonBitCtx, &mut WasiCtx) + Copy + Send + Sync + 'static,
) -> Result<()> {
    let (from, name) = (import.module(), import.name());
    let variable = |wasi: &WasiCtx, key: &str| {
        wasi.environment().find(|(name, _)| *name == key).map(|(_, value)| value.to_string())
    };
    match name {
        "args_get" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>| -> Result<Opaque> {
                let texts = files::texts(get(caller.data_mut()).1.arguments());
                give(&mut caller, texts)
            })?;
        }
        // Where relative paths begin.
        "current_dir" => {
            linker.func_wrap(from, name, |mut caller: Caller<'_, T>| give(&mut caller, Text::from("/")))?;
        }
        "get_env_var" | "env_get_var" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, key: Opaque| -> Result<Opaque> {
                let key = take::<_, Text>(&mut caller, key)?.to_utf8();
                let value = variable(get(caller.data_mut()).1, &key).unwrap_or_default();
                give(&mut caller, Text::from(value.as_str()))
            })?;
        }
        "get_env_var_exists" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, key: Opaque| -> Result<i32> {
                let key = take::<_, Text>(&mut caller, key)?.to_utf8();
                Ok(variable(get(caller.data_mut()).1, &key).is_some().into())
            })?;
        }
        "get_env_vars" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>| -> Result<Opaque> {
                let (_, wasi) = get(caller.data_mut());
                let flat: Vec<_> = wasi.environment().flat_map(|(name, value)| [name, value]).collect();
                let texts = files::texts(&flat);
                give(&mut caller, texts)
            })?;
        }
        "set_env_var" => {
            linker.func_wrap(
                from,
                name,
                move |mut caller: Caller<'_, T>, key: Opaque, value: Opaque| -> Result<()> {
                    let key = take::<_, Text>(&mut caller, key)?.to_utf8();
                    let value = take::<_, Text>(&mut caller, value)?.to_utf8();
                    get(caller.data_mut()).1.set_variable(&key, Some(&value));
                    Ok(())
                },
            )?;
        }
        "unset_env_var" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, key: Opaque| -> Result<()> {
                let key = take::<_, Text>(&mut caller, key)?.to_utf8();
                get(caller.data_mut()).1.set_variable(&key, None);
                Ok(())
            })?;
        }
        _ => {}
    }
    Ok(())
}

/// The calls about files that end the program where they fail.
fn whole_files<T: 'static>(
    linker: &mut Linker<T>,
    import: &ImportType<'_>,
    get: impl Fn(&mut T) -> (&mut MoonBitCtx, &mut WasiCtx) + Copy + Send + Sync + 'static,
) -> Result<()> {
    let (from, name) = (import.module(), import.name());
    let path =
        |caller: &mut Caller<'_, T>, path: Opaque| Ok::<_, anyhow::Error>(take::<_, Text>(caller, path)?.to_utf8());
    match name {
        "read_file_to_string" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, file: Opaque| -> Result<Opaque> {
                let file = path(&mut caller, file)?;
                let content =
                    get(caller.data_mut()).1.read_file(&file).with_context(|| format!("cannot read {file}"))?;
                give(&mut caller, Text::from(String::from_utf8_lossy(&content).as_ref()))
            })?;
        }
        "read_file_to_bytes" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, file: Opaque| -> Result<Opaque> {
                let file = path(&mut caller, file)?;
                let content =
                    get(caller.data_mut()).1.read_file(&file).with_context(|| format!("cannot read {file}"))?;
                give(&mut caller, Bytes(content.into()))
            })?;
        }
        "write_string_to_file" | "write_bytes_to_file" => {
            let is_string = name == "write_string_to_file";
            linker.func_wrap(
                from,
                name,
                move |mut caller: Caller<'_, T>, file: Opaque, content: Opaque| -> Result<()> {
                    let file = path(&mut caller, file)?;
                    let content = if is_string {
                        take::<_, Text>(&mut caller, content)?.to_utf8().into_bytes().into()
                    } else {
                        take::<_, Bytes>(&mut caller, content)?.0.clone()
                    };
                    let (_, wasi) = get(caller.data_mut());
                    wasi.write_file(&file, &content).with_context(|| format!("cannot write {file}"))
                },
            )?;
        }
        "read_dir" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, dir: Opaque| -> Result<Opaque> {
                let dir = path(&mut caller, dir)?;
                let names = get(caller.data_mut()).1.read_dir(&dir).with_context(|| format!("cannot read {dir}"))?;
                give(&mut caller, files::texts(&names))
            })?;
        }
        "path_exists" | "is_file" | "is_dir" => {
            let wanted = match name {
                "is_file" => Some(PathKind::File),
                "is_dir" => Some(PathKind::Directory),
                _ => None,
            };
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, file: Opaque| -> Result<i32> {
                let file = path(&mut caller, file)?;
                let found = get(caller.data_mut()).1.path_kind(&file).ok();
                Ok((found.is_some() && (wanted.is_none() || found == wanted)).into())
            })?;
        }
        "create_dir" | "remove_file" | "remove_dir" => {
            let change = change(name);
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, file: Opaque| -> Result<()> {
                let file = path(&mut caller, file)?;
                change(get(caller.data_mut()).1, &file).with_context(|| format!("cannot make or remove {file}"))
            })?;
        }
        _ => {}
    }
    Ok(())
}

/// The calls that make or remove, by the beginning of their names.
fn change(name: &str) -> fn(&WasiCtx, &str) -> std::io::Result<()> {
    match name.trim_end_matches("_new") {
        "create_dir" => WasiCtx::create_dir,
        "remove_file" => WasiCtx::remove_file,
        _ => WasiCtx::remove_dir,
    }
}

/// The calls about files that answer with a status; what they bring is asked for after.
fn files_by_status<T: 'static>(
    linker: &mut Linker<T>,
    import: &ImportType<'_>,
    get: impl Fn(&mut T) -> (&mut MoonBitCtx, &mut WasiCtx) + Copy + Send + Sync + 'static,
) -> Result<()> {
    let (from, name) = (import.module(), import.name());
    let path =
        |caller: &mut Caller<'_, T>, path: Opaque| Ok::<_, anyhow::Error>(take::<_, Text>(caller, path)?.to_utf8());
    match name {
        "read_file_to_bytes_new" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, file: Opaque| -> Result<i32> {
                let file = path(&mut caller, file)?;
                let (ctx, wasi) = get(caller.data_mut());
                Ok(ctx.files.status(wasi.read_file(&file), |results, content| {
                    results.content = Bytes(content.into());
                    0
                }))
            })?;
        }
        "write_bytes_to_file_new" => {
            linker.func_wrap(
                from,
                name,
                move |mut caller: Caller<'_, T>, file: Opaque, content: Opaque| -> Result<i32> {
                    let file = path(&mut caller, file)?;
                    let content = take::<_, Bytes>(&mut caller, content)?.0.clone();
                    let (ctx, wasi) = get(caller.data_mut());
                    Ok(ctx.files.status(wasi.write_file(&file, &content), |_, ()| 0))
                },
            )?;
        }
        "read_dir_new" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, dir: Opaque| -> Result<i32> {
                let dir = path(&mut caller, dir)?;
                let (ctx, wasi) = get(caller.data_mut());
                Ok(ctx.files.status(wasi.read_dir(&dir), |results, names| {
                    results.names = names;
                    0
                }))
            })?;
        }
        "is_file_new" | "is_dir_new" => {
            let kind = if name == "is_file_new" { PathKind::File } else { PathKind::Directory };
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, file: Opaque| -> Result<i32> {
                let file = path(&mut caller, file)?;
                let (ctx, wasi) = get(caller.data_mut());
                Ok(ctx.files.status(files::is(wasi, &file, kind), |_, is| is.into()))
            })?;
        }
        "create_dir_new" | "remove_file_new" | "remove_dir_new" => {
            let change = change(name);
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>, file: Opaque| -> Result<i32> {
                let file = path(&mut caller, file)?;
                let (ctx, wasi) = get(caller.data_mut());
                Ok(ctx.files.status(change(wasi, &file), |_, ()| 0))
            })?;
        }
        "get_file_content" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>| -> Result<Opaque> {
                let content = get(caller.data_mut()).0.files.content();
                give(&mut caller, content)
            })?;
        }
        "get_dir_files" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>| -> Result<Opaque> {
                let names = get(caller.data_mut()).0.files.names();
                give(&mut caller, names)
            })?;
        }
        "get_error_message" => {
            linker.func_wrap(from, name, move |mut caller: Caller<'_, T>| -> Result<Opaque> {
                let error = get(caller.data_mut()).0.files.error();
                give(&mut caller, error)
            })?;
        }
        _ => {}
    }
    Ok(())
}
