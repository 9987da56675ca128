//! Programs where address space is limited, as by `ulimit -v`, and names for `perf`.

mod support;

use support::{Lab, Outcome};

/// Objects by the million, of which one is kept.
const OBJECTS: &str = r#"
    (module
        (type $node (struct (field i32) (field (ref null $node))))
        (func $make (param i32) (result (ref $node)) (struct.new $node (local.get 0) (ref.null $node)))
        (func (export "run") (result i32)
            (local $left i32) (local $kept (ref null $node))
            (local.set $left (i32.const 2000000))
            (loop $again
                (local.set $kept (call $make (local.get $left)))
                (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                (br_if $again (local.get $left)))
            (struct.get $node 0 (local.get $kept))))
"#;

/// A memory that grows beyond what is reserved, and is accessed at both ends and beyond.
const MEMORY: &str = r#"
    (module
        (memory 1)
        (func (export "run") (result i32)
            (i32.store (i32.const 16) (i32.const 5))
            (drop (memory.grow (i32.const 40)))
            (i32.store (i32.const 2686972) (i32.const 6))
            (i32.add (i32.load (i32.const 16)) (i32.load (i32.const 2686972))))
        (func (export "beyond") (result i32) (i32.load offset=4000000000 (i32.const -4))))
"#;

/// Runs the command where it may have 4 GB of addresses.
fn limited(lab: &Lab, args: &[&str]) -> Outcome {
    limited_to(4_000_000, lab, args)
}

/// Runs the command where it may have so many KiB of addresses.
fn limited_to(kib: u64, lab: &Lab, args: &[&str]) -> Outcome {
    let script = format!(r#"ulimit -v {kib} && exec "$0" "$@""#);
    lab.start(lab.command("sh").arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_legato")).args(args)).end("")
}

#[test]
fn programs_run_under_a_limit_without_any_option() {
    let lab = Lab::new();
    lab.file("objects.wat", OBJECTS);
    lab.file("memory.wat", MEMORY);
    // With KiB, and the heap's largest maximum in KiB.
    for (kib, most) in [(80_000_000, 1 << 20), (40_000_000, 1 << 20), (10_000_000, 1 << 20), (2_000_000, 250_000)] {
        for compilation in ["lazy", "eager"] {
            let options = ["run", "--gc-log=log", "--compilation", compilation, "--invoke"];
            let run = |function, file| limited_to(kib, &lab, &[&options[..], &[function, file]].concat());
            let ran = run("run", "objects.wat");
            assert_eq!((ran.status, ran.out.as_str()), (0, "1\n"), "{kib}: {ran:?}");
            let log = std::fs::read_to_string(lab.path().join("log")).unwrap();
            let first = log.lines().next().unwrap();
            let maximum = first.strip_prefix("gc heap: max ").and_then(|rest| rest.split_once("K (memory limit: "));
            let (maximum, limit) = maximum.unwrap_or_else(|| panic!("{first}"));
            assert!((20_000..=most).contains(&maximum.parse().unwrap()), "{kib}: {first}");
            // Where memory is scarcer than addresses, that is what is named.
            assert!(limit == format!("address space {kib}K)") || maximum.parse::<u64>().unwrap() < most, "{first}");
            let ran = run("run", "memory.wat");
            assert_eq!((ran.status, ran.out.as_str()), (0, "11\n"), "{kib}: {ran:?}");
            let trapped = run("beyond", "memory.wat");
            assert_eq!(trapped.status, 134, "{kib}: {trapped:?}");
            assert!(trapped.err.contains("out of bounds memory access"), "{trapped:?}");
        }
    }
    for arrays in ["zrays", "arraylets", "mapped"] {
        let heap = format!("arrays={arrays}");
        let ran = limited(&lab, &["run", "--heap", &heap, "--invoke", "run", "objects.wat"]);
        assert_eq!((ran.status, ran.out.as_str()), (0, "1\n"), "{heap}: {ran:?}");
    }
    // Room for the command itself, not for a heap.
    let refused = limited_to(64_000, &lab, &["run", "--invoke", "run", "objects.wat"]);
    assert_ne!(refused.status, 0);
    assert!(refused.err.starts_with("legato: error: ") && refused.err.lines().count() == 1, "{refused:?}");
    assert!(refused.err.contains("of address space for a heap"), "{refused:?}");
}

#[test]
fn a_cache_keeps_code_for_memories_of_either_kind() {
    let lab = Lab::new();
    lab.file("memory.wat", MEMORY);
    let args = ["run", "--cache", "cache", "--compilation", "eager", "--invoke"];
    for function in ["run", "beyond", "run", "beyond"] {
        let args = [&args[..], &[function, "memory.wat"]].concat();
        let outcomes = [lab.legato(&args), limited(&lab, &args)];
        for outcome in outcomes {
            let status = if function == "run" { 0 } else { 134 };
            assert_eq!(outcome.status, status, "{outcome:?}");
        }
    }
}

#[test]
fn a_heap_with_a_small_maximum_runs_where_address_space_is_limited() {
    let lab = Lab::new();
    lab.file("objects.wat", OBJECTS);
    for max in ["1M", "64M", "1G"] {
        for collector in ["generational", "realtime", "mark-sweep"] {
            let heap = format!("max={max},collector={collector}");
            let ran = limited(&lab, &["run", "--heap", &heap, "--invoke", "run", "objects.wat"]);
            assert_eq!((ran.status, ran.out.as_str()), (0, "1\n"), "{heap}: {ran:?}");
        }
    }
    let ran = limited(&lab, &["run", "--heap", "max=64M,arrays=zrays", "--invoke", "run", "objects.wat"]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "1\n"), "{ran:?}");
    for heap in ["max=2G", "max=2G,arrays=zrays"] {
        let ran = limited(&lab, &["run", "--heap", heap, "--invoke", "run", "objects.wat"]);
        assert_ne!(ran.status, 0, "{ran:?}");
        assert!(ran.err.contains("bytes of address space for a heap") && ran.err.contains("max=1G"), "{ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
}

#[test]
fn a_program_without_objects_needs_no_addresses_for_a_heap() {
    let lab = Lab::new();
    lab.file("memory.wat", MEMORY);
    for heap in ["max=2G", "max=4G,arrays=zrays", "max=2G,collector=realtime"] {
        let options = ["run", "--heap", heap, "--memory-reservation=1M", "--gc-log", "--invoke"];
        let ran = limited(&lab, &[&options[..], &["run", "memory.wat"]].concat());
        assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (0, "11\n", ""), "{heap}");
    }
}

#[test]
fn a_memory_with_a_small_reservation_runs_there_too() {
    let lab = Lab::new();
    lab.file("memory.wat", MEMORY);
    let large = ["run", "--heap=max=16M", "--memory-reservation=7G", "--invoke", "run", "memory.wat"];
    let refused = limited(&lab, &large);
    assert_ne!(refused.status, 0);
    assert!(refused.err.contains("--memory-reservation"), "{refused:?}");
    for compilation in ["lazy", "eager"] {
        let options = ["run", "--heap=max=16M", "--memory-reservation=1M", "--compilation", compilation, "--invoke"];
        let ran = limited(&lab, &[&options[..], &["run", "memory.wat"]].concat());
        assert_eq!((ran.status, ran.out.as_str()), (0, "11\n"), "{ran:?}");
        let trapped = limited(&lab, &[&options[..], &["beyond", "memory.wat"]].concat());
        assert_eq!(trapped.status, 134, "{trapped:?}");
        assert!(trapped.err.contains("out of bounds memory access"), "{trapped:?}");
    }
}

#[test]
fn code_that_does_not_check_memories_gets_none_with_a_small_reservation() {
    let lab = Lab::new();
    lab.file("memory.wat", MEMORY);
    let compile = |options: &[&str], to: &str| {
        let compiled = lab.legato(&[&["compile", "memory.wat", "-o", to], options].concat());
        assert_eq!(compiled.status, 0, "{compiled:?}");
    };
    compile(&[], "unchecked");
    compile(&["--memory-reservation", "64K"], "checked");
    let run = |options: &[&str], file: &str| {
        lab.legato(&[&["run", "--precompiled", "--invoke", "run"], options, &[file]].concat())
    };
    let refused = run(&["--memory-reservation", "64K"], "unchecked");
    assert_ne!(refused.status, 0);
    assert!(refused.err.contains("--memory-reservation"), "{refused:?}");
    for options in [&[][..], &["--memory-reservation", "0"]] {
        assert_eq!(run(options, "checked").out, "11\n");
    }
    let run = |file: &str| limited(&lab, &["run", "--precompiled", "--invoke", "run", file]);
    let refused = run("unchecked");
    assert_ne!(refused.status, 0);
    assert!(refused.err.contains("address space is limited (ulimit -v)"), "{refused:?}");
    assert_eq!(run("checked").out, "11\n");
    // Without memories there is nothing to check.
    lab.file("objects.wat", OBJECTS);
    assert_eq!(lab.legato(&["compile", "objects.wat", "-o", "objects"]).status, 0);
    assert_eq!(run("objects").out, "1\n");
}

#[test]
fn perf_knows_the_names_of_functions() {
    let lab = Lab::new();
    lab.file("objects.wat", OBJECTS);
    // The last finds what the one before has kept.
    for (compilation, tier) in [("lazy", " (quick)"), ("eager", ""), ("lazy", "")] {
        let args = ["run", "--perf-map", "--compilation", compilation, "--invoke", "run", "objects.wat"];
        let running = lab.start(lab.command(env!("CARGO_BIN_EXE_legato")).args(args));
        let map = format!("/tmp/perf-{}.map", running.0.id());
        let ran = running.end("");
        assert_eq!((ran.status, ran.out.as_str()), (0, "1\n"), "{ran:?}");
        let lines = std::fs::read_to_string(&map).unwrap();
        std::fs::remove_file(&map).unwrap();
        for line in lines.lines() {
            let mut parts = line.splitn(3, ' ');
            let mut number = || u64::from_str_radix(parts.next().unwrap(), 16).unwrap();
            assert!(number() > 0 && number() > 0 && parts.next().is_some_and(|name| !name.is_empty()), "{line}");
        }
        // The other has no name of its own.
        let named = |function: &str| lines.lines().any(|line| line.ends_with(&format!(" {function}{tier}")));
        assert!(named("make") || named("wasm-function[1]"), "{lines}");
        assert!(lines.contains("legato entry"), "{lines}");
    }
}
