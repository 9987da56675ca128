//! From a seed to a module.

use crate::random::Random;
use anyhow::{Context, ensure};
use arbitrary::Unstructured;
use wasm_smith::Config;

/// Name of the export with the budget: an `i32` global.
pub const BUDGET: &str = "legato-lab budget";

/// Bytes of randomness that wasm-smith turns into one module.
const ENTROPY: usize = 1 << 14;
/// How often to try for a module that has functions.
const ATTEMPTS: usize = 100;
/// The budget of the start function.
const START_BUDGET: u32 = 2000;
/// No memory grows beyond this, so that growth succeeds or fails alike in both engines.
const MEMORY_BYTES: u64 = 16 << 16;

/// The module of a seed: valid, every export callable, ending by itself (see [`BUDGET`]).
///
/// # Errors
/// If wasm-smith cannot make one, which its documentation does not foresee for this configuration.
pub fn generate(seed: u64) -> anyhow::Result<Vec<u8>> {
    let mut random = Random::new(seed);
    // Sizes vary: many small functions find other errors than one long one.
    let funcs = 1 + random.below(10);
    let memories = random.below(3);
    let tables = random.below(3);
    let config = Config {
        max_instructions: 20 << random.below(6),
        min_funcs: funcs,
        max_funcs: funcs + 2,
        min_memories: memories as u32,
        max_memories: memories + 1,
        min_tables: tables as u32,
        max_tables: tables + 1,
        allow_floats: random.below(5) > 0,
        // Most accesses of generated code are out of bounds: code that guards against it gets further.
        disallow_traps: random.below(2) == 0,
        memory64_enabled: random.below(2) == 0,
        simd_enabled: random.below(3) == 0,
        ..config()
    };
    for _ in 0..ATTEMPTS {
        let entropy = random.bytes(ENTROPY);
        let module = wasm_smith::Module::new(config.clone(), &mut Unstructured::new(&entropy));
        let mut module = module.context("wasm-smith")?;
        let global = module.ensure_termination(START_BUDGET)?;
        // Where no function type came about, there are no functions.
        if let Some(wasm) = export_global(&module.to_bytes(), BUDGET, global)? {
            return Ok(wasm);
        }
    }
    anyhow::bail!("no module with functions in {ATTEMPTS} attempts")
}

fn config() -> Config {
    Config {
        // All of WebAssembly 3.0 but the relaxed vector instructions, whose results engines may choose.
        bulk_memory_enabled: true,
        exceptions_enabled: true,
        extended_const_enabled: true,
        gc_enabled: true,
        multi_value_enabled: true,
        reference_types_enabled: true,
        saturating_float_to_int_enabled: true,
        sign_extension_ops_enabled: true,
        tail_call_enabled: true,
        relaxed_simd_enabled: false,
        // And nothing beyond it.
        compact_imports_enabled: false,
        custom_descriptors_enabled: false,
        custom_page_sizes_enabled: false,
        multibyte_array_access_enabled: false,
        acquire_release_atomics_enabled: false,
        shared_everything_threads_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        // Deterministic, bounded, and with everything in sight.
        canonicalize_nans: true,
        export_everything: true,
        max_imports: 0,
        min_types: 6,
        min_globals: 2,
        max_globals: 12,
        max_types: 24,
        max_tags: 4,
        max_data_segments: 6,
        max_element_segments: 6,
        max_elements: 8,
        max_memory32_bytes: MEMORY_BYTES,
        max_memory64_bytes: u128::from(MEMORY_BYTES),
        memory_max_size_required: true,
        max_table_elements: 1000,
        table_max_size_required: true,
        limit_arrays_in_const_exprs: true,
        ..Config::default()
    }
}

/// The module with one more export: a global. `None` if it has no functions.
fn export_global(wasm: &[u8], name: &str, global: u32) -> anyhow::Result<Option<Vec<u8>>> {
    const EXPORTS: u8 = 7;
    const CODE: u8 = 10;
    const GLOBAL: u8 = 3;
    let mut result = wasm[..8].to_vec();
    let mut at = 8;
    let (mut exports, mut code) = (false, false);
    while at < wasm.len() {
        let id = wasm[at];
        let (size, start) = leb(wasm, at + 1)?;
        let end = start + size as usize;
        ensure!(end <= wasm.len(), "section {id} is longer than the module");
        code |= id == CODE;
        if id == EXPORTS {
            let (count, entries) = leb(wasm, start)?;
            let mut section = Vec::new();
            push_leb(&mut section, count + 1);
            section.extend_from_slice(&wasm[entries..end]);
            push_leb(&mut section, name.len() as u32);
            section.extend_from_slice(name.as_bytes());
            section.push(GLOBAL);
            push_leb(&mut section, global);
            result.push(id);
            push_leb(&mut result, section.len() as u32);
            result.extend_from_slice(&section);
            exports = true;
        } else {
            result.extend_from_slice(&wasm[at..end]);
        }
        at = end;
    }
    Ok((exports && code).then_some(result))
}

/// An unsigned LEB128 number, and where it ends.
fn leb(bytes: &[u8], mut at: usize) -> anyhow::Result<(u32, usize)> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(at).context("the module ends within a number")?;
        at += 1;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((value, at));
        }
    }
    anyhow::bail!("a number is too long")
}

fn push_leb(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_valid_and_reproducible() {
        let features = wasmparser::WasmFeatures::WASM3.difference(wasmparser::WasmFeatures::RELAXED_SIMD);
        for seed in 0..300 {
            let wasm = generate(seed).unwrap();
            assert_eq!(wasm, generate(seed).unwrap());
            wasmparser::Validator::new_with_features(features)
                .validate_all(&wasm)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}
