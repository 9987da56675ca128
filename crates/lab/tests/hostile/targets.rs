//! The functions of [`legato_lab::hostile`], called with mutations of good inputs: each returns, soon.

use crate::engine;
use legato_lab::hostile;
use legato_lab::mutate::mutation;
use legato_lab::random::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long a target is tried at most, however slow the machine.
const LONGEST: Duration = Duration::from_secs(10);

/// Calls a target with its seeds, and with `count` mutations of them and of their mutations.
fn drive(target: fn(&[u8]), seeds: &[Vec<u8>], count: usize) {
    let start = Instant::now();
    let mut random = Random::new(5);
    let mut corpus = seeds.to_vec();
    let mutations = (0..count).map(|_| None);
    for (done, seed) in (0..seeds.len()).map(Some).chain(mutations).enumerate() {
        let data = match seed {
            Some(seed) => corpus[seed].clone(),
            None => mutation(&corpus[random.below(corpus.len())], &mut random),
        };
        if catch_unwind(AssertUnwindSafe(|| target(&data))).is_err() {
            panic!("the target panics, see above, for the bytes {:?}", String::from_utf8_lossy(&data));
        }
        // Mutations add up, but do not take over.
        if seed.is_none() && random.below(8) == 0 && corpus.len() < 4 * seeds.len() {
            corpus.push(data);
        }
        if start.elapsed() > LONGEST {
            assert!(done > count / 20, "{done} of {count} mutations in {LONGEST:?}");
            println!("{done} of {count} mutations");
            return;
        }
    }
}

/// The examples in text form, precompiled.
fn precompiled() -> Vec<Vec<u8>> {
    let engine = legato::Engine::default();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/wat");
    let mut all: Vec<_> = std::fs::read_dir(examples)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wat"))
        .map(|path| engine.precompile_module(&std::fs::read(path).unwrap()).unwrap())
        .collect();
    // Every kind of import, export, segment, constant and type.
    let much = r#"(module $much
        (rec (type $a (sub (struct (field (ref null $b)) (field i8)))) (type $b (array (mut (ref null $a)))))
        (type $c (sub $a (struct (field (ref null $b)) (field i8) (field (mut f64)))))
        (type $f (func (param i32 (ref null $a)) (result externref)))
        (import "host" "f" (func $imported (type $f)))
        (import "host" "m" (memory 1 2)) (import "host" "t" (table 1 funcref))
        (import "host" "g" (global $g i32)) (import "host" "e" (tag $tag (param i32)))
        (table (export "table") 2 4 (ref null $a)) (memory (export "memory") 1)
        (global (export "global") (mut (ref null $b)) (array.new $b (struct.new_default $a) (i32.const 3)))
        (export "tag" (tag $tag)) (export "f" (func $imported))
        (func $g (export "g") (param i32) (result i32)
          (block $caught (result i32)
            (try_table (catch $tag $caught) (call $start))
            (i32.const 1)))
        (func $start)
        (start $start)
        (elem (table 0) (i32.const 0) func $imported) (elem (ref null $a) (item (struct.new_default $c)))
        (data (i32.const 8) "active") (data "passive")
        (@custom "own" "section"))"#;
    all.push(engine.precompile_module(much.as_bytes()).unwrap());
    all
}

#[test]
fn damaged_precompiled_files_are_refused_or_loaded_and_dropped() {
    drive(hostile::loader, &precompiled(), 4000);
}

#[test]
fn damaged_precompiled_files_are_described_or_refused() {
    drive(hostile::inspect, &precompiled(), 8000);
}

/// Damage that a checksum does not show, at every byte of a file that has everything.
#[test]
fn every_byte_of_a_precompiled_file_may_be_wrong() {
    let file = precompiled().pop().unwrap();
    let start = Instant::now();
    for at in 0..file.len().min(3000) {
        for value in [0, 1, 0x7f, 0xff, file[at] ^ 1] {
            let mut damaged = file.clone();
            damaged[at] = value;
            hostile::inspect(&damaged);
        }
        if start.elapsed() > LONGEST {
            return;
        }
    }
}

#[test]
fn paths_stay_inside() {
    let long = "a/".repeat(3000);
    let seeds = [
        "0_file\n2_file\n4_in\n2_out-file\n0_out-file\n0_absolute\n0_../secret/file\n0_/etc/passwd\n",
        "0_dir/../../secret/file\n0_dir/here/here/../file\n0_circle\n2_circle\n0_out/file\n4_absolute\n",
        "7_../secret\tlink\n0_link/file\n6_link\tdir/link\n0_dir/link/file\n2_dir/link/file\n",
        "7_/\troot\n0_root/etc/passwd\n1_root/made\n8_root/made\n5_out\n8_out/file\n",
        "1_new\n1_new/more\n7_../../secret/file\tnew/more/link\n0_new/more/link\n3_new/more/link\thard\n0_hard\n",
        "3_out-file\thard\n3_file\tout/hard\n6_file\tout/moved\n6_out\tmoved\n6_dir\t../moved\n0_moved/file\n",
        "0_file\0hidden\n0_\u{1f3bc}\n1_\u{1f3bc}/\u{301}\n0_ \n0_....//secret\n0_./././/file\n0_file/..\n0_dir/\n",
        &format!("0_{long}file\n1_{long}\n7_{long}\tlink\n0_link\n"),
    ];
    // The byte that chooses the call, and the flags: to follow links, to create, ...
    let flags = |seed: &str, flags: char| seed.replace('_', &flags.to_string()).into_bytes();
    let seeds: Vec<_> = seeds.iter().flat_map(|seed| ['0', '1', '3', '9'].map(|all| flags(seed, all))).collect();
    drive(hostile::wasi_paths, &seeds, 2000);
}

/// What an engine refuses, it may have looked at: later modules are as good as ever.
#[test]
fn an_engine_lives_on_after_damaged_files() {
    let engine = engine();
    let mut random = Random::new(7);
    let file = engine.precompile_module(b"(module (func (export \"run\") (result i32) i32.const 7))").unwrap();
    for _ in 0..200 {
        let mut damaged = mutation(&file, &mut random);
        legato::Precompiled::reseal(&mut damaged);
        let _ = legato::Precompiled::read(&engine, &damaged);
    }
    assert!(matches!(
        crate::run(&engine, "(module (func (export \"run\") (result i32) i32.const 7))").unwrap()[..],
        [legato::Val::I32(7)]
    ));
}
