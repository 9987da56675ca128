//! What host functions work on: one context for each kind of host.

use anyhow::Result;
use legato_moonbit::MoonBitCtx;
use legato_teavm::TeaVmCtx;
use legato_wasi::{Access, WasiCtx, WasiCtxBuilder};

use crate::args::RunArgs;
use crate::exit::UsageError;
use crate::limits::MemoryLimit;

/// The data of a program's store.
pub struct Host {
    pub wasi: WasiCtx,
    pub teavm: TeaVmCtx,
    pub moonbit: MoonBitCtx,
    pub limit: MemoryLimit,
}

impl Host {
    /// What the command line lets a program see and do.
    ///
    /// # Errors
    ///
    /// If something cannot be had: a directory, a variable of the environment.
    pub fn new(args: &RunArgs) -> Result<Host> {
        Ok(Host {
            wasi: wasi(args)?,
            teavm: TeaVmCtx::inherit_stdio(),
            moonbit: MoonBitCtx::default(),
            limit: MemoryLimit::new(args.max_memory),
        })
    }
}

fn wasi(args: &RunArgs) -> Result<WasiCtx> {
    let mut builder = WasiCtxBuilder::new();
    builder.inherit_stdio().end_by_broken_pipe(true);
    let name = args.file().file_name().unwrap_or(args.file().as_os_str());
    builder.arg(name.to_string_lossy());
    builder.args(args.args()?);
    for (key, value) in &args.env {
        let value = match value {
            Some(value) => value.clone(),
            None => std::env::var(key)
                .map_err(|_| UsageError(format!("--env {key}: this process has no such variable in UTF-8")))?,
        };
        builder.env(key, value);
    }
    let writable = args.dirs.iter().map(|dir| (dir, Access::ReadWrite));
    let read_only = args.read_only_dirs.iter().map(|dir| (dir, Access::ReadOnly));
    for (dir, access) in writable.chain(read_only) {
        builder
            .preopened_dir(&dir.host, &dir.guest, access)
            .map_err(|error| UsageError(format!("--dir {}: {error:#}", dir.host.display())))?;
    }
    Ok(builder.build())
}
