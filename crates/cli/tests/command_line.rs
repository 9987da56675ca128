//! Wrong command lines and wrong files end in one clear sentence.

mod support;

use support::Lab;

#[test]
fn help_and_version() {
    let lab = Lab::new();
    let help = lab.legato(&["--help"]);
    assert_eq!(help.status, 0);
    for command in ["run", "compile", "inspect"] {
        assert!(help.out.contains(command), "{help:?}");
    }
    let run = lab.legato(&["run", "--help"]);
    assert_eq!(run.status, 0);
    for part in [
        "--dir",
        "--heap",
        "--timeout",
        "--invoke",
        "--compilation",
        "--compile-log",
        "--gc-log",
        "--gc-stats",
        "--gc-report",
        "Examples:",
        "thin-handles",
        "134",
    ] {
        assert!(run.out.contains(part), "{part}: {run:?}");
    }
    let version = lab.legato(&["--version"]);
    assert_eq!(version.out, format!("legato {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_arguments() {
    let lab = Lab::new();
    lab.file("ok.wat", "(module)");
    let wrong: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["walk"], "walk"),
        (&["run"], "FILE"),
        (&["run", "--timeout", "10", "ok.wat"], "such as 500ms"),
        (&["run", "--timeout", "-1s", "ok.wat"], "such as 500ms"),
        (&["run", "--stack", "much", "ok.wat"], "such as 65536"),
        (&["run", "--heap", "max", "ok.wat"], "KEY=VALUE"),
        (&["run", "--heap", "colour=red", "ok.wat"], "unknown key 'colour'"),
        (&["run", "--heap", "max=lots", "ok.wat"], "max is 'lots'"),
        (&["run", "--heap", "max=1K", "ok.wat"], "at least"),
        (&["run", "--heap", "max=5G", "ok.wat"], "32-bit references"),
        (&["run", "--dir", "absent", "ok.wat"], "cannot open the directory absent"),
        (&["run", "--dir", "::/x", "ok.wat"], "HOST"),
        (&["run", "--env", "NO_SUCH_VARIABLE", "ok.wat"], "no such variable"),
        (&["run", "--invoke", "f", "ok.wat"], "exports no function"),
        (&["run", "--unknown", "ok.wat"], "--unknown"),
        (&["run", "--compilation", "never", "ok.wat"], "lazy, eager"),
        (&["compile", "ok.wat"], "--output"),
    ];
    for (args, says) in wrong {
        let outcome = lab.legato(args);
        assert_eq!(outcome.status, 2, "{args:?}: {outcome:?}");
        assert!(outcome.err.contains(says), "{args:?}: {outcome:?}");
        assert!(!outcome.err.contains("panicked"), "{args:?}: {outcome:?}");
    }
}

#[test]
fn wrong_files() {
    let lab = Lab::new();
    lab.file("empty.wasm", "");
    lab.file("text.wasm", "hello");
    lab.file("binary", [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0xff]);
    lab.file("cut.wasm", b"\0asm\x01\0\0\0\x01\x05");
    lab.file("component.wasm", b"\0asm\x0d\0\x01\0");
    lab.file("old.wasm", b"\0asm\x09\0\0\0");
    lab.file("syntax.wat", "(module\n  (func (result i32)\n    i32.konst 1))");
    lab.file("type.wat", "(module (func (result i32) i64.const 1))");
    lab.file("threads.wat", "(module (memory 1 1 shared))");
    lab.file("import.wat", r#"(module (import "env" "magic" (func (param i32))))"#);
    let wrong: &[(&str, &[&str])] = &[
        ("absent.wasm", &["cannot read absent.wasm", "No such file"]),
        (".", &["is a directory"]),
        ("empty.wasm", &["empty.wasm is empty"]),
        ("text.wasm", &["text.wasm is no WebAssembly", "68 65 6c 6c"]),
        ("binary", &["binary is no WebAssembly", "7f 45 4c 46"]),
        ("cut.wasm", &["cut.wasm", "unexpected"]),
        ("component.wasm", &["component"]),
        ("old.wasm", &["old.wasm", "version"]),
        ("syntax.wat", &["syntax.wat:3:5", "i32.konst"]),
        ("type.wat", &["type.wat", "type mismatch"]),
        ("threads.wat", &["threads.wat", "threads must be enabled"]),
        (
            "import.wat",
            &["import.wat imports what nobody provides", "env.magic  (func (param i32))", "--preload env=FILE"],
        ),
    ];
    for (file, says) in wrong {
        let outcome = lab.legato(&["run", file]);
        assert_eq!(outcome.status, 1, "{file}: {outcome:?}");
        for part in *says {
            assert!(outcome.err.contains(part), "{file}: `{part}` is missing: {outcome:?}");
        }
        assert!(!outcome.err.contains("panicked"), "{file}: {outcome:?}");
    }
}

#[test]
fn inspecting() {
    let lab = Lab::new();
    lab.file(
        "m.wat",
        r#"(module $pairs
          (import "env" "print" (func $print (param i32)))
          (rec (type $pair (sub (struct (field i32)))) (type $list (array (mut (ref null $pair)))))
          (memory (export "memory") 1 2)
          (tag (export "broken") (param i32))
          (func (export "make") (param i32) (result (ref $pair)) local.get 0 struct.new $pair)
          (func $again (return_call $print (i32.const 1)))
          (start $again))"#,
    );
    let outcome = lab.legato(&["inspect", "m.wat"]);
    assert_eq!(outcome.status, 0, "{outcome:?}");
    for part in [
        "pairs",
        "1 of structs",
        "1 of arrays",
        "1 recursion groups",
        "1 imported, 2 defined",
        "struct.new",
        "return_call",
        "env.print",
        "(func (param i32))",
        "memory",
        "(memory 1 2)",
        "broken",
        "make",
        "start",
        "tail-call",
    ] {
        assert!(outcome.out.contains(part), "`{part}` is missing: {}", outcome.out);
    }
    lab.file("broken.wasm", b"\0asm\x01\0\0\0\x01\x05");
    lab.legato(&["inspect", "broken.wasm"]).expect(1, "", &["broken.wasm is not a valid WebAssembly module"]);
}

#[test]
fn inspecting_damaged_modules() {
    let lab = Lab::new();
    lab.file(
        "m.wat",
        r#"(module $name (type $s (sub (struct (field i32)))) (import "a" "b" (func (param (ref null $s))))
          (memory (export "m") 1) (tag (export "t") (param i32)) (table 1 funcref) (global i32 (i32.const 1))
          (func (export "f") (drop (struct.new $s (i32.const 1)))) (data "data") (elem func 1))"#,
    );
    let module = wat::parse_file(lab.path().join("m.wat")).unwrap();
    for at in 8..module.len() {
        let mut damaged = module.clone();
        damaged[at] ^= if at % 2 == 0 { 0xff } else { 0x10 };
        lab.file("damaged.wasm", &damaged);
        let outcome = lab.legato(&["inspect", "damaged.wasm"]);
        assert!(matches!(outcome.status, 0 | 1) && !outcome.err.contains("panicked"), "byte {at}: {outcome:?}");
    }
}
