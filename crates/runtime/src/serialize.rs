//! The format of precompiled modules: a magic, the version of this library, and the compiled module as data.

use anyhow::{Context, Result, ensure};
use legato_compiler::artifact::CompiledModule;

use crate::Engine;

/// Not the start of any Wasm or text file.
const MAGIC: &[u8; 8] = b"\x7fLEGATO\n";
/// Changes whenever what follows changes its meaning.
const FORMAT: u32 = 3;

pub(crate) fn is_precompiled(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// What stands before the module: format, and this library's version by length and bytes.
fn header() -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let mut header = MAGIC.to_vec();
    header.extend(FORMAT.to_le_bytes());
    header.push(version.len() as u8);
    header.extend(version);
    header
}

pub(crate) fn encode(module: &CompiledModule) -> Result<Vec<u8>> {
    postcard::to_extend(module, header()).context("cannot encode the module")
}

pub(crate) fn decode(engine: &Engine, bytes: &[u8]) -> Result<CompiledModule> {
    ensure!(is_precompiled(bytes), "not a precompiled module");
    let header = header();
    let found = bytes.get(..header.len());
    ensure!(found == Some(&header), "the module was precompiled by another version of this library: compile it again");
    let module: CompiledModule = postcard::from_bytes(&bytes[header.len()..]).context("damaged precompiled module")?;
    let plan = &engine.options().plan;
    ensure!(
        module.plan == *plan,
        "the module was precompiled for another heap: compile it again with the same --heap keys collector, references, \
         barrier, zeroing, count-accesses, arrays and the parameters of arrays"
    );
    ensure!(module.context == module.info.context_layout(), "the module was precompiled for another context layout");
    Ok(module)
}
