//! What the command says of an exception that nobody caught, and of output that nobody reads.

mod support;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::Lab;

/// A program that `examples/build` made; `None` where it has not been built, which must not happen in CI.
fn example(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/out").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "{} has not been built", path.display());
    eprintln!("{name} has not been built: it is left out");
    None
}

#[test]
fn any_exception_tells_its_tag_and_payload_and_where() {
    let lab = Lab::new();
    let text = r#"(module
        (type $pair (struct (field i32)))
        (tag $plain (param i32))
        (tag $named (export "broken") (param i32 f64 (ref null $pair)))
        (func $thrower (throw $plain (i32.const 5)))
        (func $outer (export "_start") (call $thrower))
        (func (export "other") (throw $named (i32.const -1) (f64.const 2.5) (struct.new $pair (i32.const 1))))
        (func (export "empty") (throw $named (i32.const 0) (f64.const 0) (ref.null $pair))))"#;
    lab.run(&[], text, &[]).expect(134, "", &["uncaught exception: plain(5)", "thrower"]);
    lab.run(&["--invoke", "other"], text, &[]).expect(134, "", &["uncaught exception: broken(-1, 2.5, (ref", "struct"]);
    lab.run(&["--invoke", "empty"], text, &[]).expect(134, "", &["uncaught exception: broken(0, 0, null)"]);
    let start = "(module (tag) (func $begin (throw 0)) (start $begin))";
    lab.run(&[], start, &[]).expect(134, "", &["uncaught exception: tag()", "begin"]);
}

#[test]
fn an_exception_of_kotlin_tells_class_and_message() {
    // The first has no `hashCode` in the vtables of its exceptions, the second has.
    for (program, frame) in [("kotlin/trees.wasm", "<trees>!main"), ("kotlin/json.wasm", "<json>!main")] {
        let Some(program) = example(program) else { return };
        Lab::new().legato(&["run", program.to_str().unwrap(), "abc"]).expect(
            134,
            "",
            &["legato: uncaught exception: NumberFormatException: Invalid number format: 'abc'\n", frame],
        );
    }
}

#[test]
fn an_exception_of_kotlin_tells_its_causes_and_what_was_suppressed() {
    let Some(program) = example("kotlin/exceptions.wasm") else { return };
    let lab = Lab::new();
    let fails = |how: &str, said: &[&str]| {
        lab.legato(&["run", program.to_str().unwrap(), how]).expect(134, "", said);
    };
    fails(
        "causes",
        &[
            "Broken: level 20\n  caused by: Broken: level 19\n",
            "  caused by: Broken: level 4\n  and more causes\nerror",
        ],
    );
    let first = "Broken: a leak\n  suppressed: IllegalStateException: cold cannot be closed\n";
    fails("suppressed", &[first, "\n  suppressed: IllegalStateException: hot cannot be closed\nerror"]);
    fails("mute", &["uncaught exception: Mute (it cannot be told what it says)\nerror"]);
}

#[test]
fn an_exception_of_java_tells_class_and_message() {
    let Some(exceptions) = example("java/exceptions.wasm") else { return };
    let lab = Lab::new();
    lab.legato(&["run", "--invoke", "fail", exceptions.to_str().unwrap(), "3"]).expect(
        134,
        "about to fail\n",
        &[
            "legato: uncaught exception: java.lang.IllegalStateException: nobody wants me\n  caused by: ",
            "order 0\n  caused by: java.lang.RuntimeException: bottom\nerror while executing",
            "wasm function",
        ],
    );
}

#[test]
fn a_java_exception_without_message_and_name_says_so() {
    // Without names of types, as TeaVM leaves them out.
    let text = r#"(module
        (type (struct (field anyref)))
        (tag (export "teavm.javaException") (param (ref null 0)))
        (tag (export "other") (param i32))
        (func (export "teavm.exceptionMessage") (param (ref null 0)) (result anyref) (ref.null any))
        (func (export "_start") (throw 0 (struct.new 0 (ref.null any))))
        (func (export "other_tag") (throw 1 (i32.const 7))))"#;
    let lab = Lab::new();
    lab.run(&[], text, &[]).expect(134, "", &["uncaught exception: a Java exception without a message", "minifying"]);
    lab.run(&["--invoke", "other_tag"], text, &[]).expect(134, "", &["uncaught exception: other(7)"]);
    let caused = r#"(module
        (type (struct (field anyref) (field (ref null 0))))
        (tag (export "teavm.javaException") (param (ref null 0)))
        (func (export "teavm.exceptionMessage") (param (ref null 0)) (result anyref) (ref.null any))
        (func (export "_start")
            (throw 0 (struct.new 0 (ref.null any) (struct.new_default 0)))))"#;
    let nameless = "an exception without a name and message";
    lab.run(&[], caused, &[]).expect(134, "", &[&format!("exception: {nameless}\n  caused by: {nameless}\nerror")]);
}

#[test]
fn a_logger_of_java_prints_to_standard_error() {
    let Some(exceptions) = example("java/exceptions.wasm") else { return };
    Lab::new().legato(&["run", "--invoke", "log", exceptions.to_str().unwrap()]).expect(
        0,
        "",
        &["INFO: three tries\nWARNING: two of 3 failed\nSEVERE: gave up\njava.lang.IllegalStateException: too many\n"],
    );
}

/// A module whose objects look like Kotlin's, in parts that tests replace. `$string` makes a string of two pieces.
const KOTLIN: &str = r#"(module
    (type $units (array (mut i16)))
    (type $any_array (array (mut anyref)))
    (rec
      (type $to_string (func (param (ref null $any)) (result (ref null $text))))
      (type $vtable (struct (field (ref null $any_array)) (field (ref null $to_string)) (field (ref null $to_string))))
      (type $load (func (param i32) (result (ref null $text))))
      (type $rtti (struct (field (ref null $any_array)) (field (ref null $rtti)) (field i32) (field i32) (field i64)
        (field i32) (field (ref null $load)) (field (ref null $load))))
      (type $any (sub (struct (field (ref null $vtable)) (field (ref null $any_array)) (field (ref null RTTI))
        (field (mut i32)))))
      (type $text (sub $any (struct (field (ref null $vtable)) (field (ref null $any_array)) (field (ref null RTTI))
        (field (mut i32)) (field (mut (ref null $text))) (field (mut i32)) (field (mut (ref null $units))))))
      (type $throwable (sub $any (struct (field (ref null $vtable)) (field (ref null $any_array)) (field (ref null RTTI))
        (field (mut i32)) (field (mut (ref null $text))) (field (mut (ref null $throwable)))
        (field (mut (ref null $any)))))))
    (tag $thrown (param (ref null $throwable)))
    (global $says (mut i32) (i32.const 65))
    (elem declare func $said)
    (func $piece (param $before (ref null $text)) (param $unit i32) (result (ref $text))
      (struct.new $text (ref.null $vtable) (ref.null $any_array) (ref.null none) (i32.const 0)
        (local.get $before) (i32.const 2) (array.new_fixed $units 1 (local.get $unit))))
    ;; AB, then CD, and so on.
    (func $said (type $to_string)
      (global.set $says (i32.add (global.get $says) (i32.const 2)))
      BODY
      (call $piece (call $piece (ref.null $text) (i32.sub (global.get $says) (i32.const 2)))
        (i32.sub (global.get $says) (i32.const 1))))
    (func $new (param $cause (ref null $throwable)) (result (ref $throwable))
      (struct.new $throwable
        (struct.new $vtable (ref.null $any_array) (ref.null $to_string) METHOD)
        (ref.null $any_array)
        (struct.new $rtti (ref.null $any_array) (ref.null $rtti) (i32.const 1) (i32.const 2) (i64.const 3)
          (i32.const 4) (ref.null $load) (ref.null $load))
        (i32.const 0) (ref.null $text) (local.get $cause) (ref.null $any)))
    (func (export "_start") (throw $thrown (call $new (call $new (call $new (ref.null $throwable)))))))"#;

/// What the command says of an exception of such a module.
fn kotlin(rtti: &str, body: &str, method: &str) -> String {
    let text = KOTLIN.replace("RTTI", rtti).replace("BODY", body).replace("METHOD", method);
    let outcome = Lab::new().run(&[], &text, &[]).expect(134, "", &["legato: uncaught exception: "]);
    outcome.err.split_once("\nerror while").unwrap().0.to_string()
}

#[test]
fn what_only_resembles_kotlin_falls_back_to_the_tag() {
    let method = "(ref.func $said)";
    assert_eq!(kotlin("$rtti", "", method), "legato: uncaught exception: AB\n  caused by: CD\n  caused by: EF");
    let fallback = "legato: uncaught exception: thrown(";
    // No method, one that traps, throws, returns nothing or never ends a string; another type in the class's place.
    assert!(kotlin("$rtti", "", "(ref.null $to_string)").starts_with(fallback));
    assert!(kotlin("$rtti", "unreachable", method).starts_with(fallback));
    assert!(kotlin("$rtti", "(throw $thrown (ref.null $throwable))", method).starts_with(fallback));
    assert!(kotlin("$rtti", "(return (ref.null $text))", method).starts_with(fallback));
    assert!(kotlin("any", "", method).starts_with("legato: uncaught exception: AB"));
    let endless = "(local.set $text (call $piece (ref.null $text) (i32.const 120)))
        (struct.set $text 4 (local.get $text) (local.get $text)) (return (local.get $text))";
    let text = KOTLIN
        .replace("RTTI", "$rtti")
        .replace("(func $said (type $to_string)", "(func $said (type $to_string) (local $text (ref null $text))")
        .replace("BODY", endless)
        .replace("METHOD", method);
    let outcome = Lab::new().run(&[], &text, &[]);
    assert!(outcome.err.starts_with("legato: uncaught exception: xxxx"), "{}", &outcome.err[..200]);
    assert!(outcome.err.len() < 50_000, "{}", outcome.err.len());
}

#[test]
fn repeated_frames_are_folded() {
    let lab = Lab::new();
    let text = r#"(module
        (func $down (param i32) (result i32)
          (if (result i32) (local.get 0)
            (then (i32.add (i32.const 1) (call $down (i32.sub (local.get 0) (i32.const 1)))))
            (else unreachable)))
        (func $_ZN4core6option6unwrap17h0123456789abcdefE (export "_start") (drop (call $down (i32.const 100)))))"#;
    let outcome = lab.run(&[], text, &[]).expect(
        134,
        "",
        &["unreachable", "down", "... this frame 9", "more times", "core::option::unwrap\n"],
    );
    assert!(outcome.err.lines().count() < 10, "{}", outcome.err);
}

/// Runs a program until it has written something, then stops reading.
fn cut_off(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_legato"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// 128 + SIGPIPE, as a shell reports it.
const QUIETLY: (Option<i32>, String) = (Some(141), String::new());

#[test]
fn a_program_whose_output_nobody_reads_ends_quietly() {
    let lab = Lab::new();
    let wasi = r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "\08\00\00\00\06\00\00\00hello\n")
        (func (export "_start")
          (loop $again (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100))) (br $again))))"#;
    assert_eq!(cut_off(&["run", lab.file("wasi.wat", wasi).to_str().unwrap()]), QUIETLY);
    let printing = |from: &str, name: &str| {
        format!(
            "(module (import {from:?} {name:?} (func $print (param i32)))
               (func (export \"run\") (loop $again (call $print (i32.const 120)) (call $print (i32.const 10)) (br $again)))
               (export \"_start\" (func 1)))"
        )
    };
    let java = lab.file("java.wat", printing("teavmConsole", "putcharStdout"));
    assert_eq!(cut_off(&["run", java.to_str().unwrap()]), QUIETLY);
    let moonbit = lab.file("moonbit.wat", printing("spectest", "print_char"));
    assert_eq!(cut_off(&["run", moonbit.to_str().unwrap()]), QUIETLY);
    if let Some(events) = example("kotlin/collections.wasm") {
        let (status, errors) = cut_off(&["run", events.to_str().unwrap()]);
        // A short program may have ended before.
        assert!(matches!(status, Some(0 | 141)) && errors.is_empty(), "{status:?}: {errors}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error_however_the_program_ends() {
    let lab = Lab::new();
    let wasi = |end: &str| {
        format!(
            r#"(module
                (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
                (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
                (memory (export "memory") 1)
                (data (i32.const 0) "\08\00\00\00\06\00\00\00 a line")
                (func (export "_start")
                  ;; Where nothing has been let out for a while, a write lets it out, and fails.
                  (loop $again
                    (br_if $again (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100))))
                  {end}))"#
        )
    };
    let printing = |from: &str, name: &str| {
        format!(
            "(module (import {from:?} {name:?} (func $print (param i32)))
               (func (export \"run\") (call $print (i32.const 120)) (call $print (i32.const 10)))
               (export \"_start\" (func 1)))"
        )
    };
    let programs = [
        (wasi(""), 1),
        (wasi("(call $exit (i32.const 0))"), 1),
        // A program that has failed by itself has a status that says so.
        (wasi("(call $exit (i32.const 3))"), 3),
        (printing("teavmConsole", "putcharStdout"), 1),
        (printing("spectest", "print_char"), 1),
    ];
    for (program, status) in programs {
        let file = lab.file("program.wat", &program);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_legato"));
        let output = command.arg("run").arg(file).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{said}{program}");
        assert!(
            said.starts_with("legato: error: cannot write the program's output: No space") == (status == 1),
            "{said}"
        );
    }
}

#[test]
fn a_directory_is_given_once() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path().join("a")).unwrap();
    let text = r#"(module (func (export "_start")))"#;
    lab.run(&["--dir", "a::/d", "--dir-ro", ".::/d"], text, &[]).expect(2, "", &["two directories are given as /d"]);
    lab.run(&["--dir", "a", "--dir", "a"], text, &[]).expect(2, "", &["two directories are given as a"]);
    lab.run(&["--dir", "a::/d", "--dir", "a::/e"], text, &[]).expect(0, "", &[]);
}
