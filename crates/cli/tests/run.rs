//! Programs under `legato run`.

mod support;

use std::fs;
use std::time::{Duration, Instant};

use support::Lab;

/// Copies standard input to standard output.
const ECHO: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (loop $more
      (i32.store (i32.const 0) (i32.const 100))
      (i32.store (i32.const 4) (i32.const 1000))
      (if (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
      (i32.store (i32.const 4) (i32.load (i32.const 8)))
      (if (i32.load (i32.const 8))
        (then
          (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
          (br $more))))))"#;

#[test]
fn input_and_output() {
    let lab = Lab::new();
    lab.file("echo.wat", ECHO);
    let text: String = (0..500).map(|line| format!("line {line}\n")).collect::<String>() + "unfinished";
    lab.legato_with_input(&["run", "echo.wat"], &text).expect(0, &text, &[]);
}

#[test]
fn arguments_and_environment() {
    let lab = Lab::new();
    // Prints the arguments' bytes, then the environment's, each with their zeros.
    let text = r#"(module
      (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "environ_sizes_get" (func $env_sizes (param i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "environ_get" (func $env (param i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (func $print
        (i32.store (i32.const 0) (i32.const 4096))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
      (func (export "_start")
        (drop (call $sizes (i32.const 16) (i32.const 4)))
        (drop (call $args (i32.const 1024) (i32.const 4096)))
        (call $print)
        (drop (call $env_sizes (i32.const 16) (i32.const 4)))
        (drop (call $env (i32.const 1024) (i32.const 4096)))
        (call $print)))"#;
    lab.run(&["--env", "A=1", "--env", "LEGATO_TEST"], text, &["one", "--dir", "-x"]).expect(
        0,
        "module.wat\0one\0--dir\0-x\0A=1\0LEGATO_TEST=from outside\0",
        &[],
    );
}

#[test]
fn exit_statuses() {
    let lab = Lab::new();
    let exit = |status: i32| {
        format!(
            r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
               (memory (export "memory") 0)
               (func (export "_start") (call $exit (i32.const {status})) unreachable))"#
        )
    };
    lab.run(&[], &exit(0), &[]).expect(0, "", &[]);
    lab.run(&[], &exit(7), &[]).expect(7, "", &[]);
    lab.run(&[], &exit(-1), &[]).expect(255, "", &[]);
    lab.run(&[], &exit(256), &[]).expect(1, "", &[]);
    let raise = r#"(module (import "wasi_snapshot_preview1" "proc_raise" (func $raise (param i32) (result i32)))
      (memory (export "memory") 0) (func (export "_start") (drop (call $raise (i32.const 15)))))"#;
    lab.run(&[], raise, &[]).expect(143, "", &["raised signal 15"]);
}

#[test]
fn entries() {
    let lab = Lab::new();
    lab.run(&[], "(module)", &[]).expect(0, "", &[]);
    lab.run(&[], r#"(module (func (export "_initialize")))"#, &[]).expect(0, "", &[]);
    lab.run(&[], r#"(module (func unreachable) (start 0))"#, &[]).expect(134, "", &["unreachable"]);
    lab.run(&[], r#"(module (func (export "add") (param i32 i32)) (func (export "sub")))"#, &[]).expect(
        2,
        "",
        &["exports no `_start` or `_initialize`", "--invoke", "`add`, `sub`"],
    );
    lab.run(&[], r#"(module (func (export "_start") (param i32)))"#, &[]).expect(2, "", &["takes parameters"]);
}

#[test]
fn invoking() {
    let lab = Lab::new();
    let text = r#"(module
      (global $ready (mut i32) (i32.const 0))
      (func (export "_initialize") (global.set $ready (i32.const 1)))
      (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
      (func (export "ready") (result i32) (global.get $ready))
      (func (export "both") (param i64 f64) (result f64 i64) (local.get 1) (local.get 0))
      (func (export "small") (result i31ref) (ref.i31 (i32.const -3)))
      (func (export "is_null") (param anyref) (result i32) (ref.is_null (local.get 0))))"#;
    let run = |args: &[&str]| lab.run(&["--invoke", args[0]], text, &args[1..]);
    run(&["add", "2", "-5"]).expect(0, "-3\n", &[]);
    run(&["add", "0xffffffff", "2"]).expect(0, "1\n", &[]);
    run(&["ready"]).expect(0, "1\n", &[]);
    run(&["both", "-9000000000", "2.5"]).expect(0, "2.5\n-9000000000\n", &[]);
    run(&["small"]).expect(0, "i31 -3\n", &[]);
    run(&["is_null", "null"]).expect(0, "1\n", &[]);
    run(&["add", "1"]).expect(2, "", &["takes 2 arguments (i32, i32), not 1"]);
    run(&["add", "1", "x"]).expect(2, "", &["`x` is no value of type i32"]);
    run(&["mul"]).expect(2, "", &["no function of this name"]);
}

#[test]
fn traps_say_where() {
    let lab = Lab::new();
    let text = r#"(module
      (func $inner (param i32) (result i32) (i32.div_u (i32.const 1) (local.get 0)))
      (func $outer (result i32) (call $inner (i32.const 0)))
      (func (export "_start") (drop (call $outer))))"#;
    lab.run(&[], text, &[]).expect(134, "", &["integer divide by zero", "inner", "outer"]);
    let recursion = r#"(module (func $again (export "_start") (call $again) (call $again)))"#;
    lab.run(&[], recursion, &[]).expect(134, "", &["call stack exhausted; --stack SIZE"]);
    lab.run(&["--stack", "64K"], recursion, &[]).expect(134, "", &["call stack exhausted"]);
    let thrown = r#"(module (tag $t (param i32)) (func $thrower (export "_start") (throw $t (i32.const 5))))"#;
    lab.run(&[], thrown, &[]).expect(134, "", &["uncaught exception"]);
}

#[test]
fn the_compiler_checks_its_work_if_asked() {
    let lab = Lab::new();
    lab.file("list.wat", include_str!("../../../examples/wat/list.wat"));
    let checked = lab.legato(&["run", "--verify-code", "list.wat"]);
    assert_eq!(
        (checked.status, checked.out.as_str()),
        (0, include_str!("../../../examples/wat/list.expected")),
        "{checked:?}"
    );
    let compiled = lab.legato(&["compile", "--verify-code", "list.wat", "-o", "list.legato"]);
    assert_eq!(compiled.status, 0, "{compiled:?}");
}

#[test]
fn deep_recursion_takes_the_stack_it_is_given() {
    let lab = Lab::new();
    let text = r#"(module (func $sum (export "sum") (param i32) (result i32)
      (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 0))
        (else (i32.add (i32.const 1) (call $sum (i32.sub (local.get 0) (i32.const 1))))))))"#;
    lab.run(&["--invoke", "sum"], text, &["50000"]).expect(0, "50000\n", &[]);
    lab.run(&["--stack", "256M", "--invoke", "sum"], text, &["2000000"]).expect(0, "2000000\n", &[]);
    lab.run(&["--stack", "64K", "--invoke", "sum"], text, &["50000"]).expect(134, "", &["call stack exhausted"]);
}

#[test]
fn output_before_a_trap_is_not_lost() {
    let lab = Lab::new();
    let text = r#"(module
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 0) "\08\00\00\00\05\00\00\00hello")
      (func (export "_start")
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 20))) unreachable))"#;
    lab.run(&[], text, &[]).expect(134, "hello", &["unreachable"]);
}

#[test]
fn time_limits() {
    let lab = Lab::new();
    let started = Instant::now();
    let endless = r#"(module (func $spin (export "_start") (loop $l (br $l))))"#;
    lab.run(&["--timeout", "200ms"], endless, &[]).expect(124, "", &["did not end within 200ms", "spin"]);
    let in_start = "(module (func (loop $l (br $l))) (start 0))";
    lab.run(&["--timeout", "100ms"], in_start, &[]).expect(124, "", &["did not end within"]);
    // Waiting in the host counts, too.
    let sleeping = r#"(module
      (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "_start")
        (i32.store (i32.const 16) (i32.const 1))
        (i64.store (i32.const 24) (i64.const 60000000000))
        (drop (call $poll (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 200)))))"#;
    lab.run(&["--timeout", "100ms"], sleeping, &[]).expect(124, "", &["did not end within"]);
    assert!(started.elapsed() < Duration::from_secs(30));
    lab.run(&["--timeout", "60s"], r#"(module (func (export "_start")))"#, &[]).expect(0, "", &[]);
}

/// Builds a list of 16-byte cells, and keeps it or not.
fn allocate(keep: bool) -> String {
    let link = if keep { "(global.get $list)" } else { "(ref.null $cell)" };
    format!(
        r#"(module (type $cell (struct (field i64) (field (ref null $cell))))
           (global $list (mut (ref null $cell)) (ref.null $cell))
           (func (export "_start") (local $n i32)
             (loop $more
               (global.set $list (struct.new $cell (i64.const 1) {link}))
               (local.set $n (i32.add (local.get $n) (i32.const 1)))
               (br_if $more (i32.lt_u (local.get $n) (i32.const 3000000))))))"#
    )
}

#[test]
fn heap_limits_and_log() {
    let lab = Lab::new();
    for references in ["collector=generational", "collector=mark-sweep", "collector=mark-sweep,references=thin-handles"]
    {
        lab.run(&["--heap", references, "--heap", "max=4M,min=1M"], &allocate(true), &[]).expect(
            134,
            "",
            &["allocation"],
        );
        lab.run(&["--heap", references, "--heap", "max=4M,min=1M"], &allocate(false), &[]).expect(0, "", &[]);
    }
    let logged = lab.run(&["--gc-log", "--heap", "min=1M"], &allocate(false), &[]);
    assert_eq!(logged.status, 0, "{logged:?}");
    assert!(logged.err.lines().count() > 5, "{logged:?}");
    let (machine, lines) = logged.err.split_once('\n').unwrap();
    assert!(machine.starts_with("gc heap: max ") && machine.contains(" (memory limit: "), "{logged:?}");
    assert!(lines.lines().all(|line| line.starts_with("gc #") && line.contains(" ms")), "{logged:?}");
    let isla_vista = ["--gc-log", "--heap", "min=1M,max=64M,sizing=isla-vista,pressure=vmstat"];
    let logged = lab.run(&isla_vista, &allocate(false), &[]);
    let (machine, lines) = logged.err.split_once('\n').unwrap();
    assert!(machine.starts_with("gc heap: max 65536K; "), "{logged:?}");
    if cfg!(target_os = "linux") {
        assert!(machine.contains("memory pressure by vmstat (/proc/vmstat), else "), "{logged:?}");
        assert!(lines.lines().count() > 5 && lines.lines().all(|line| line.contains(" (asked in 0.")), "{logged:?}");
    }
}

#[test]
fn memory_limit() {
    let lab = Lab::new();
    let text = r#"(module (memory 1) (memory $two 1) (func (export "grow") (param i32) (result i32 i32)
      (memory.grow (local.get 0)) (memory.grow $two (local.get 0))))"#;
    lab.run(&["--invoke", "grow"], text, &["10"]).expect(0, "1\n1\n", &[]);
    lab.run(&["--max-memory", "1M", "--invoke", "grow"], text, &["10"]).expect(0, "1\n-1\n", &[]);
    lab.run(&["--max-memory", "64K", "--invoke", "grow"], text, &["0"]).expect(
        1,
        "",
        &["--max-memory is 65536 bytes", "a memory of 65536 bytes"],
    );
    // Tables count too, with four bytes for each element.
    let text = r#"(module (memory 1) (table 0 externref) (func (export "grow") (param i32) (result i32 i32)
      (table.grow (ref.null extern) (local.get 0)) (memory.grow (i32.const 1))))"#;
    lab.run(&["--invoke", "grow"], text, &["1000000"]).expect(0, "0\n1\n", &[]);
    lab.run(&["--max-memory", "1M", "--invoke", "grow"], text, &["1000000"]).expect(0, "-1\n1\n", &[]);
    lab.run(&["--max-memory", "128K", "--invoke", "grow"], text, &["16384"]).expect(0, "0\n-1\n", &[]);
}

/// Opens the path given as data and prints its first bytes, or `errno`.
fn cat(path: &str) -> String {
    format!(
        r#"(module
      (import "wasi_snapshot_preview1" "path_open"
        (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (memory (export "memory") 1)
      (data (i32.const 1000) "{path}")
      (func (export "_start") (local $errno i32)
        (local.set $errno (call $open (i32.const 3) (i32.const 1) (i32.const 1000) (i32.const {})
          (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 100)))
        (if (local.get $errno) (then (call $exit (local.get $errno))))
        (i32.store (i32.const 0) (i32.const 2000))
        (i32.store (i32.const 4) (i32.const 100))
        (drop (call $read (i32.load (i32.const 100)) (i32.const 0) (i32.const 1) (i32.const 4)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#,
        path.len()
    )
}

#[test]
fn directories_are_a_sandbox() {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("inside")).unwrap();
    lab.file("inside/file", "contents");
    lab.file("secret", "secret");
    std::os::unix::fs::symlink("../secret", lab.path().join("inside/link")).unwrap();
    let (perm, badf) = (63, 8);
    lab.run(&["--dir", "inside::/data"], &cat("file"), &[]).expect(0, "contents", &[]);
    lab.run(&["--dir-ro", "inside"], &cat("file"), &[]).expect(0, "contents", &[]);
    for path in ["../secret", "link", "/etc/passwd"] {
        lab.run(&["--dir", "inside"], &cat(path), &[]).expect(perm, "", &[]);
    }
    lab.run(&[], &cat("file"), &[]).expect(badf, "", &[]);
}

/// A guest's library opens for writing with those of the rights it wants that the directory says it passes on.
#[test]
fn a_read_only_directory_refuses_writing_at_once() {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("inside")).unwrap();
    lab.file("inside/file", "contents");
    let text = r#"(module
      (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $stat (param i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "path_open"
        (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (memory (export "memory") 1)
      (data (i32.const 1000) "file")
      (func (export "_start")
        (if (call $stat (i32.const 3) (i32.const 0)) (then unreachable))
        (call $exit (call $open (i32.const 3) (i32.const 1) (i32.const 1000) (i32.const 4) (i32.const 0)
          (i64.and (i64.const 0x42) (i64.load (i32.const 16))) (i64.const 0) (i32.const 0) (i32.const 100)))))"#;
    lab.run(&["--dir", "inside"], text, &[]).expect(0, "", &[]);
    let not_capable = 76;
    lab.run(&["--dir-ro", "inside"], text, &[]).expect(not_capable, "", &[]);
}

#[test]
fn precompiled_files() {
    let lab = Lab::new();
    lab.file("echo.wat", ECHO);
    lab.legato(&["compile", "echo.wat", "-o", "echo.legato"]).expect(0, "", &[]);
    lab.legato_with_input(&["run", "--precompiled", "echo.legato"], "through\n").expect(0, "through\n", &[]);
    lab.legato(&["compile", "echo.legato", "-o", "again"]).expect(1, "", &["compiled already"]);
    lab.legato(&["compile", "echo.wat", "-o", "absent/out"]).expect(1, "", &["cannot write absent/out"]);
    lab.legato(&["run", "--precompiled", "--heap", "collector=mark-sweep", "echo.legato"]).expect(
        1,
        "",
        &["cannot load echo.legato", "another heap"],
    );
}

#[test]
fn machine_code_runs_only_when_asked_for() {
    let lab = Lab::new();
    lab.file("echo.wat", ECHO);
    // Whatever its name.
    for name in ["echo.legato", "echo.wasm", "echo"] {
        lab.legato(&["compile", "echo.wat", "-o", name]).expect(0, "", &[]);
        let refused = format!(
            "error: {name} holds machine code, which would run unchecked: run it with --precompiled if you trust it\n"
        );
        lab.legato_with_input(&["run", name], "through\n").expect(2, "", &[&refused]);
        lab.legato_with_input(&["run", "--precompiled", name], "through\n").expect(0, "through\n", &[]);
    }
    let refused =
        "error: echo.wat is not precompiled: run it without --precompiled, or compile it first with `legato compile`";
    lab.legato(&["run", "--precompiled", "echo.wat"]).expect(2, "", &[refused]);
    // What stands behind the file is the program's.
    lab.legato(&["run", "echo.legato", "--precompiled"]).expect(2, "", &["run it with --precompiled"]);
}

#[test]
fn precompiled_files_are_inspected_without_being_run() {
    let lab = Lab::new();
    lab.file("echo.wat", ECHO);
    // For any heap, not only the default one.
    for heap in ["collector=generational", "collector=mark-sweep,references=thin-handles", "arrays=zrays"] {
        lab.legato(&["compile", "--heap", heap, "echo.wat", "-o", "echo.legato"]).expect(0, "", &[]);
        let inspected = lab.legato(&["inspect", "echo.legato"]);
        assert_eq!(inspected.status, 0, "{inspected:?}");
        assert!(inspected.out.contains("precompiled") && inspected.out.contains("fd_read"), "{inspected:?}");
    }
}

#[test]
fn damaged_precompiled_files_are_refused() {
    let lab = Lab::new();
    lab.file("echo.wat", ECHO);
    lab.legato(&["compile", "echo.wat", "-o", "echo.legato"]).expect(0, "", &[]);
    let bytes = fs::read(lab.path().join("echo.legato")).unwrap();
    let check = |damaged: &[u8], says: &str| {
        lab.file("damaged.legato", damaged);
        lab.legato(&["run", "--precompiled", "damaged.legato"]).expect(1, "", &["cannot load damaged.legato", says]);
        lab.legato(&["inspect", "damaged.legato"]).expect(1, "", &["cannot read damaged.legato", says]);
    };
    for length in [8, 9, 12, 20, 28, bytes.len() / 2, bytes.len() - 1] {
        check(&bytes[..length], "precompiled");
    }
    for at in [30, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        check(&damaged, "damaged precompiled module: its checksum is wrong");
    }
    let mut older = bytes.clone();
    older[8] -= 1;
    check(&older, "another version");
}
