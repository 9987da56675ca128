use super::*;
use legato::{Engine, Linker, Module, Store};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The program counts gaps in buckets: none is narrower than a nanosecond, none wider than one part in 64.
#[test]
fn buckets_are_exact_to_one_part_in_64() {
    let engine = Engine::default();
    let module = Module::new(&engine, program(&examples()).unwrap().wasm).unwrap();
    let mut linker = Linker::new(&engine);
    linker.define_unknown_imports_as_traps(&module).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = linker.instantiate(&mut store, &module).unwrap();
    let bucket = instance.get_typed_func::<i64, i32>(&mut store, "bucket").unwrap();
    let upper = instance.get_typed_func::<i32, i64>(&mut store, "upper").unwrap();

    let powers = (0..63).flat_map(|power| [-1, 0, 1].map(|more| (1i64 << power) + more));
    for gap in (0..5000).chain(powers).chain([0, 1_000_000, 999_999_937, i64::MAX]) {
        let at = bucket.call(&mut store, gap).unwrap();
        assert!((0..3776).contains(&at), "{gap} is in bucket {at}");
        let most = upper.call(&mut store, at).unwrap();
        assert!((gap..=gap.saturating_add(gap / 64)).contains(&most), "{gap} counts as {most}");
        // The next one begins right behind it.
        if most < i64::MAX {
            assert_eq!(bucket.call(&mut store, most + 1).unwrap(), at + 1, "behind {most}");
        }
    }
}
