use super::body::Steps;
use super::program::generate;
use std::collections::HashSet;
use wasmparser::{Parser, Payload, Validator, WasmFeatures};

/// Every instruction that takes or gives a reference, and what else makes references move between places.
const INSTRUCTIONS: &[&str] = &[
    "StructNew",
    "StructNewDefault",
    "StructGet",
    "StructGetS",
    "StructGetU",
    "StructSet",
    "ArrayNew",
    "ArrayNewDefault",
    "ArrayNewFixed",
    "ArrayNewData",
    "ArrayNewElem",
    "ArrayGet",
    "ArrayGetS",
    "ArrayGetU",
    "ArraySet",
    "ArrayLen",
    "ArrayFill",
    "ArrayCopy",
    "ArrayInitData",
    "ArrayInitElem",
    "RefTestNonNull",
    "RefTestNullable",
    "RefCastNonNull",
    "RefCastNullable",
    "BrOnNull",
    "BrOnNonNull",
    "BrOnCast",
    "BrOnCastFail",
    "RefAsNonNull",
    "RefEq",
    "RefIsNull",
    "RefNull",
    "RefFunc",
    "RefI31",
    "I31GetS",
    "I31GetU",
    "AnyConvertExtern",
    "ExternConvertAny",
    "TypedSelect",
    "LocalGet",
    "LocalSet",
    "LocalTee",
    "GlobalGet",
    "GlobalSet",
    "TableGet",
    "TableSet",
    "TableSize",
    "TableGrow",
    "TableFill",
    "TableCopy",
    "TableInit",
    "ElemDrop",
    "DataDrop",
    "Call",
    "CallIndirect",
    "CallRef",
    "ReturnCall",
    "ReturnCallIndirect",
    "ReturnCallRef",
    "TryTable",
    "Throw",
    "ThrowRef",
    "Block",
    "Loop",
    "If",
    "Else",
    "Br",
    "BrIf",
    "Drop",
    "Return",
];

#[test]
fn programs_are_valid_and_have_every_instruction() {
    let mut seen = HashSet::new();
    for seed in 0..200 {
        let wasm = generate(seed, &mut Steps::default());
        Validator::new_with_features(WasmFeatures::all())
            .validate_all(&wasm)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for payload in Parser::new(0).parse_all(&wasm) {
            let Payload::CodeSectionEntry(body) = payload.unwrap() else { continue };
            for operator in body.get_operators_reader().unwrap() {
                let name = format!("{:?}", operator.unwrap());
                seen.insert(name.split([' ', '(', '{']).next().unwrap_or_default().to_string());
            }
        }
    }
    let missing: Vec<_> = INSTRUCTIONS.iter().filter(|instruction| !seen.contains(**instruction)).collect();
    assert!(missing.is_empty(), "never generated: {missing:?}; generated: {seen:?}");
}

#[test]
fn a_seed_determines_its_program() {
    assert_eq!(generate(5, &mut Steps::default()), generate(5, &mut Steps::default()));
    assert_ne!(generate(5, &mut Steps::default()), generate(6, &mut Steps::default()));
}

#[test]
fn steps_can_be_left_out() {
    let mut whole = Steps::default();
    let size = generate(3, &mut whole).len();
    let mut half = Steps { dropped: whole.taken.iter().copied().step_by(2).collect(), ..Steps::default() };
    let wasm = generate(3, &mut half);
    Validator::new_with_features(WasmFeatures::all()).validate_all(&wasm).expect("what is left is valid");
    assert!(wasm.len() < size);
    // Those that are left are among those of the whole.
    let known: HashSet<u64> = whole.taken.into_iter().collect();
    assert!(half.taken.iter().all(|step| known.contains(step)));
}
