//! The format of precompiled modules: a magic, the version of this library, a checksum, and the compiled module as
//! data.

mod check;

use anyhow::{Context, Result, ensure};
use legato_compiler::artifact::CompiledModule;

use crate::Engine;

/// Not the start of any Wasm or text file.
const MAGIC: &[u8; 8] = b"\x7fLEGATO\n";
/// Changes whenever what follows changes its meaning.
const FORMAT: u32 = 21;
/// Bytes of the checksum.
const SUM_BYTES: usize = 8;

pub(crate) fn is_precompiled(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// What stands before the checksum and the module: format, and this library's version by length and bytes.
pub(crate) fn header() -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let mut header = MAGIC.to_vec();
    header.extend(FORMAT.to_le_bytes());
    header.push(version.len() as u8);
    header.extend(version);
    header
}

/// A sum that any change of one word changes. It finds damage, not malice: whoever alters a file on purpose can sum it
/// up anew.
fn checksum(data: &[u8]) -> u64 {
    // FNV-1a's steps, a word at a time; each is a bijection, so that no difference is lost again.
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    let mut words = data.chunks_exact(8);
    let sum = words.by_ref().fold(0xcbf2_9ce4_8422_2325 ^ data.len() as u64, |sum, word| {
        step(sum, u64::from_le_bytes(word.try_into().expect("chunks of eight")))
    });
    words.remainder().iter().fold(sum, |sum, &byte| step(sum, byte.into()))
}

pub(crate) fn encode(module: &CompiledModule) -> Result<Vec<u8>> {
    let mut bytes = header();
    let start = bytes.len() + SUM_BYTES;
    bytes.extend([0; SUM_BYTES]);
    let mut bytes = postcard::to_extend(module, bytes).context("cannot encode the module")?;
    reseal(&mut bytes, start);
    Ok(bytes)
}

/// Writes the checksum of what lies from `start` on.
fn reseal(bytes: &mut [u8], start: usize) {
    let sum = checksum(&bytes[start..]);
    bytes[start - SUM_BYTES..start].copy_from_slice(&sum.to_le_bytes());
}

/// Makes the checksum of an altered file right again, so that tests reach what lies behind it. Leaves what has no
/// header alone.
pub(crate) fn reseal_altered(bytes: &mut [u8]) {
    let start = header().len() + SUM_BYTES;
    if bytes.len() >= start {
        reseal(bytes, start);
    }
}

/// The module in a precompiled file, whatever engine and machine it is for. Its declarations are sound in themselves;
/// its code and the tables of the code are as they are.
pub(crate) fn decode(bytes: &[u8]) -> Result<CompiledModule> {
    ensure!(is_precompiled(bytes), "not a precompiled module");
    let header = header();
    let found = bytes.get(..header.len());
    ensure!(found == Some(&header), "the module was precompiled by another version of this library: compile it again");
    let (sum, data) =
        bytes[header.len()..].split_at_checked(SUM_BYTES).context("damaged precompiled module: cut off")?;
    ensure!(sum == checksum(data).to_le_bytes(), "damaged precompiled module: its checksum is wrong");
    decode_contents(data)
}

/// The module alone, for whoever has a header and a checksum of their own.
pub(crate) fn encode_contents(module: &CompiledModule) -> Result<Vec<u8>> {
    postcard::to_stdvec(module).context("cannot encode the module")
}

/// What [`encode_contents`] made, with the promises of [`decode`].
pub(crate) fn decode_contents(data: &[u8]) -> Result<CompiledModule> {
    let module: CompiledModule = postcard::from_bytes(data).context("damaged precompiled module")?;
    check::declarations(&module.info).map_err(|what| anyhow::anyhow!("damaged precompiled module: {what}"))?;
    Ok(module)
}

/// As [`decode`], of a module that this engine can run.
pub(crate) fn decode_for(engine: &Engine, bytes: &[u8]) -> Result<CompiledModule> {
    for_engine(engine, decode(bytes)?)
}

/// The module, if this engine can run it.
pub(crate) fn for_engine(engine: &Engine, module: CompiledModule) -> Result<CompiledModule> {
    let plan = &engine.options().plan;
    ensure!(
        module.plan == *plan,
        "the module was precompiled for another heap: compile it again with the same --heap keys collector, references, \
         barrier, zeroing, count-accesses, arrays and the parameters of arrays"
    );
    let fits = module.info.checked_memories || !engine.options().checked_memories || module.info.memories.is_empty();
    if engine.memory_reservation().is_set() {
        ensure!(
            fits,
            "the module was precompiled for memories with a large reservation: compile it again with the same \
             --memory-reservation"
        );
    }
    ensure!(
        fits,
        "the module was precompiled for memories with a large reservation, and address space is limited (ulimit -v): \
         compile it again with --memory-reservation 1G, or run it with --memory-reservation 7G if there is room"
    );
    ensure!(module.context == module.info.context_layout(), "the module was precompiled for another context layout");
    Ok(module)
}
