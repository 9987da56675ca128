//! The calls as host functions of an engine.

use anyhow::{Result, bail};
use legato::{Caller, Extern, Linker, Trap};

use crate::ctx::WasiCtx;
use crate::errno::Errno;
use crate::exit::RaisedSignal;
use crate::memory::GuestMemory;

/// The module name under which preview 1 is imported.
const MODULE: &str = "wasi_snapshot_preview1";

/// The name under which the guest must export its memory.
const MEMORY: &str = "memory";

/// How a call's outcome crosses to the guest.
fn raw(result: Result<(), Errno>) -> i32 {
    result.map_or_else(|errno| errno.raw().into(), |()| 0)
}

/// Makes a call that works on the guest's memory.
fn with_memory<T: 'static>(
    caller: &mut Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut WasiCtx,
    call: impl FnOnce(&mut WasiCtx, &mut GuestMemory<'_>) -> Result<(), Errno>,
) -> Result<i32> {
    let Some(Extern::Memory(memory)) = caller.get_export(MEMORY) else {
        bail!("a module that uses WASI must export its memory as `{MEMORY}`");
    };
    let (bytes, data) = memory.data_and_store_mut(caller);
    let ctx = get(data);
    match call(ctx, &mut GuestMemory::new(bytes)) {
        Err(Errno::Pipe) if ctx.pipe_ends_guest => Err(RaisedSignal::PIPE.into()),
        result => Ok(raw(result)),
    }
}

/// The same, of a call that may wait, and ends the guest where that is to stop meanwhile.
fn waiting<T: 'static>(
    caller: &mut Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut WasiCtx,
    call: impl FnOnce(&mut WasiCtx, &mut GuestMemory<'_>) -> Result<(), Errno>,
) -> Result<i32> {
    let interrupts = caller.interrupt_handle();
    get(caller.data_mut()).interrupted_by(interrupts.clone());
    match with_memory(caller, get, call)? {
        errno if errno == i32::from(Errno::Intr.raw()) && interrupts.answer() => Err(Trap::Interrupt.into()),
        errno => Ok(errno),
    }
}

/// The type in which an argument crosses: Wasm's integers have no sign.
macro_rules! wasm {
    (u32) => {
        i32
    };
    (u64) => {
        i64
    };
    (i64) => {
        i64
    };
}

macro_rules! define {
    ($linker:ident, $get:ident, plain: $($name:ident($($arg:ident: $ty:ident),*);)*) => {$(
        $linker.func_wrap(MODULE, stringify!($name), move |mut caller: Caller<'_, T>, $($arg: wasm!($ty)),*| -> i32 {
            raw($get(caller.data_mut()).$name($($arg as $ty),*))
        })?;
    )*};
    ($linker:ident, $get:ident, $with:ident: $($name:ident($($arg:ident: $ty:ident),*);)*) => {$(
        $linker.func_wrap(MODULE, stringify!($name), move |mut caller: Caller<'_, T>, $($arg: wasm!($ty)),*| -> Result<i32> {
            $with(&mut caller, $get, |ctx, memory| ctx.$name(memory, $($arg as $ty),*))
        })?;
    )*};
    ($linker:ident, unsupported: $($name:ident($($arg:ident: $ty:ident),*);)*) => {$(
        $linker.func_wrap(MODULE, stringify!($name), |_: Caller<'_, T>, $($arg: wasm!($ty)),*| -> i32 {
            let _ = ($($arg),*);
            raw(Err(Errno::Notsup))
        })?;
    )*};
}

/// Defines all of preview 1 as `wasi_snapshot_preview1`. `get` finds the context in the store's data.
///
/// The call into a guest that ends by `proc_exit` fails with [`I32Exit`](crate::I32Exit), by `proc_raise` with
/// [`RaisedSignal`](crate::RaisedSignal).
///
/// ```no_run
/// use legato::{Engine, Linker, Module, Store};
/// use legato_wasi::{I32Exit, WasiCtx, WasiCtxBuilder};
///
/// # fn main() -> anyhow::Result<()> {
/// let engine = Engine::default();
/// let module = Module::from_file(&engine, "hello.wasm")?;
/// let mut builder = WasiCtxBuilder::new();
/// builder.inherit_stdio().arg("hello.wasm");
/// let mut store = Store::new(&engine, builder.build());
/// let mut linker = Linker::new(&engine);
/// legato_wasi::add_to_linker(&mut linker, |ctx: &mut WasiCtx| ctx)?;
/// let instance = linker.instantiate(&mut store, &module)?;
/// let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
/// if let Err(error) = start.call(&mut store, ()) {
///     match error.downcast_ref::<I32Exit>() {
///         Some(exit) => std::process::exit(exit.process_exit_code()),
///         None => return Err(error),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// If one of the names is defined already.
pub fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    get: impl Fn(&mut T) -> &mut WasiCtx + Copy + Send + Sync + 'static,
) -> Result<()> {
    define! { linker, get, waiting:
        fd_read(fd: u32, pieces: u32, count: u32, result: u32);
        poll_oneoff(input: u32, output: u32, count: u32, result: u32);
    }
    define! { linker, get, with_memory:
        args_get(pointers: u32, buffer: u32);
        args_sizes_get(count: u32, bytes: u32);
        environ_get(pointers: u32, buffer: u32);
        environ_sizes_get(count: u32, bytes: u32);
        clock_res_get(clock: u32, result: u32);
        clock_time_get(clock: u32, precision: u64, result: u32);
        fd_fdstat_get(fd: u32, result: u32);
        fd_filestat_get(fd: u32, result: u32);
        fd_pread(fd: u32, pieces: u32, count: u32, offset: u64, result: u32);
        fd_prestat_get(fd: u32, result: u32);
        fd_prestat_dir_name(fd: u32, buffer: u32, len: u32);
        fd_pwrite(fd: u32, pieces: u32, count: u32, offset: u64, result: u32);
        fd_readdir(fd: u32, buffer: u32, len: u32, cookie: u64, result: u32);
        fd_seek(fd: u32, delta: i64, whence: u32, result: u32);
        fd_tell(fd: u32, result: u32);
        fd_write(fd: u32, pieces: u32, count: u32, result: u32);
        path_create_directory(fd: u32, name: u32, len: u32);
        path_filestat_get(fd: u32, flags: u32, name: u32, len: u32, result: u32);
        path_filestat_set_times(fd: u32, flags: u32, name: u32, len: u32, atim: u64, mtim: u64, fst_flags: u32);
        path_link(old_fd: u32, flags: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32);
        path_open(fd: u32, flags: u32, name: u32, len: u32, oflags: u32, base: u64, inheriting: u64, fdflags: u32, result: u32);
        path_readlink(fd: u32, name: u32, len: u32, buffer: u32, buffer_len: u32, result: u32);
        path_remove_directory(fd: u32, name: u32, len: u32);
        path_rename(old_fd: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32);
        path_symlink(target: u32, target_len: u32, fd: u32, name: u32, len: u32);
        path_unlink_file(fd: u32, name: u32, len: u32);
        random_get(buffer: u32, len: u32);
    }
    define! { linker, get, plain:
        fd_advise(fd: u32, offset: u64, len: u64, advice: u32);
        fd_allocate(fd: u32, offset: u64, len: u64);
        fd_close(fd: u32);
        fd_datasync(fd: u32);
        fd_fdstat_set_flags(fd: u32, flags: u32);
        fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
        fd_filestat_set_size(fd: u32, size: u64);
        fd_filestat_set_times(fd: u32, atim: u64, mtim: u64, flags: u32);
        fd_renumber(from: u32, to: u32);
        fd_sync(fd: u32);
        sched_yield();
        sock_shutdown(fd: u32, how: u32);
    }
    define! { linker, unsupported:
        sock_accept(fd: u32, flags: u32, result: u32);
        sock_recv(fd: u32, pieces: u32, count: u32, flags: u32, size: u32, out_flags: u32);
        sock_send(fd: u32, pieces: u32, count: u32, flags: u32, size: u32);
    }
    linker.func_wrap(MODULE, "proc_exit", move |mut caller: Caller<'_, T>, status: i32| -> Result<()> {
        Err(get(caller.data_mut()).proc_exit(status as u32).into())
    })?;
    linker.func_wrap(MODULE, "proc_raise", move |mut caller: Caller<'_, T>, signal: i32| -> Result<i32> {
        match get(caller.data_mut()).proc_raise(signal as u32) {
            Ok(Some(raised)) => Err(raised.into()),
            Ok(None) => Ok(0),
            Err(errno) => Ok(errno.raw().into()),
        }
    })?;
    Ok(())
}
