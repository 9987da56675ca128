//! The smallest command around wasmtime: compiles a module, instantiates it and calls `_start`. Legato's start-up is
//! measured against it.

use legato_lab::engines::{Engine, Wasmtime};
use std::io::Write;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    anyhow::ensure!(!arguments.is_empty(), "usage: legato-lab-wasmtime FILE [ARGS...]");
    let engine = Wasmtime::new(&[])?;
    let module = engine.compile(&wat::parse_file(&arguments[0])?)?;
    let run = engine.start(&module, &arguments)?;
    std::io::stdout().write_all(&run.output)?;
    Ok(())
}
