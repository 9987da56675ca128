//! What the passes make of small functions: each module in `tests/passes` beside the MIR that is expected of it. After
//! a change that is meant, `LEGATO_BLESS=1 cargo test --test passes` writes the files anew; look at the difference.

use std::path::Path;

use legato_compiler::module::ParsedModule;
use legato_compiler::{CompileOptions, translate_module};

fn optimized(wat: &str) -> String {
    let wasm = wat::parse_str(wat).unwrap();
    let parsed = ParsedModule::parse(&wasm, Default::default()).unwrap();
    let options = CompileOptions {
        features: Default::default(),
        checked_memories: false,
        plan: legato_heap::HeapConfig::default().access_plan(),
        optimize: true,
        parallel: false,
        verify: true,
    };
    let functions = translate_module(&parsed, &options).unwrap();
    functions.iter().map(|function| function.to_text(&parsed.info)).collect()
}

#[test]
fn golden() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes");
    let bless = std::env::var_os("LEGATO_BLESS").is_some();
    let (mut seen, mut failures) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "wat") {
            continue;
        }
        seen += 1;
        let actual = optimized(&std::fs::read_to_string(&path).unwrap());
        let golden = path.with_extension("mir");
        if bless {
            std::fs::write(&golden, &actual).unwrap();
        } else if std::fs::read_to_string(&golden).ok().as_ref() != Some(&actual) {
            failures.push(format!("{}:\n{actual}", path.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(seen >= 10, "the modules are missing");
}
