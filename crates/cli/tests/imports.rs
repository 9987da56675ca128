//! Who provides what a module imports: hosts, preloaded modules, stubs.

mod support;

use std::fs;

use support::Lab;

#[test]
fn all_missing_imports_are_named_at_once() {
    let lab = Lab::new();
    let text = r#"(module
        (import "env" "one" (func (param i32) (result i64)))
        (import "wasi_snapshot_preview1" "frobnicate" (func))
        (import "env" "two" (global i32))
        (import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))
        (func (export "_start")))"#;
    let outcome = lab.run(&[], text, &[]).expect(
        1,
        "",
        &[
            "module.wat imports what nobody provides:",
            "env.one  (func (param i32) (result i64))",
            "env.two  (global i32)",
            "--preload env=FILE",
            "wasi_snapshot_preview1.frobnicate  (func)",
            "WASI preview 1 has no such call",
        ],
    );
    assert!(!outcome.err.contains("sched_yield"), "{outcome:?}");
    // A global cannot be stubbed.
    assert!(!outcome.err.contains("--stub-unknown-imports"), "{outcome:?}");
}

#[test]
fn a_preloaded_module_provides_imports() {
    let lab = Lab::new();
    lab.file("base.wat", r#"(module (func (export "one") (result i32) (i32.const 1)))"#);
    lab.file(
        "env.wat",
        r#"(module
            (import "base" "one" (func $one (result i32)))
            (global $count (mut i32) (i32.const 40))
            (func (export "_initialize") (global.set $count (i32.const 41)))
            (func (export "next") (result i32)
              (global.set $count (i32.add (global.get $count) (call $one)))
              (global.get $count)))"#,
    );
    let text = r#"(module
        (import "env" "next" (func $next (result i32)))
        (func (export "_start"))
        (func (export "answer") (result i32) (call $next)))"#;
    let both = ["--preload", "base=base.wat", "--preload", "env=env.wat", "--invoke", "answer"];
    lab.run(&both, text, &[]).expect(0, "42\n", &[]);
    let turned = ["--preload", "env=env.wat", "--preload", "base=base.wat"];
    lab.run(&turned, text, &[]).expect(
        1,
        "",
        &["env.wat imports what nobody provides", "base.one", "--preload base=base.wat has to come before env.wat"],
    );
    let other = ["--preload", "base=base.wat", "--preload", "env=base.wat"];
    lab.run(&other, text, &[]).expect(
        1,
        "",
        &["imports what nobody provides", "env.next", "base.wat does not export it"],
    );
    // Nobody is told to load a module before itself.
    let itself = ["--preload", "base=env.wat"];
    lab.run(&itself, text, &[]).expect(
        1,
        "",
        &["env.wat imports what nobody provides", "base.one", "--preload base=FILE"],
    );
    lab.run(&["--preload", "env=absent.wat"], text, &[]).expect(1, "", &["cannot read absent.wat"]);
    lab.run(&["--preload", "env.wat"], text, &[]).expect(2, "", &["expected NAME=FILE"]);
}

#[test]
fn a_stub_traps_by_name() {
    let lab = Lab::new();
    let text = r#"(module
        (import "env" "magic" (func $magic (param i32)))
        (func (export "_start"))
        (func $use (export "use") (call $magic (i32.const 1))))"#;
    lab.run(&[], text, &[]).expect(1, "", &["env.magic", "With --stub-unknown-imports it runs until"]);
    lab.run(&["--stub-unknown-imports"], text, &[]).expect(0, "", &[]);
    lab.run(&["--stub-unknown-imports", "--invoke", "use"], text, &[]).expect(
        134,
        "",
        &["trap: `env.magic` was called", "use"],
    );
}

/// A MoonBit program prints and reads characters: code units, in halves where they are surrogates.
#[test]
fn moonbit_prints_and_reads_characters() {
    let lab = Lab::new();
    lab.file(
        "echo.wat",
        r#"(module
            (import "spectest" "print_char" (func $print (param i32)))
            (import "spectest" "read_char" (func $read (result i32)))
            (func (export "_start") (local $char i32)
              (call $print (i32.const 0xd83c)) (call $print (i32.const 0xdf19))
              (call $print (i32.const 0xd83c)) (call $print (i32.const 10))
              (loop $next
                (local.set $char (call $read))
                (if (i32.ge_s (local.get $char) (i32.const 0))
                  (then (call $print (local.get $char)) (br $next))))))"#,
    );
    lab.legato_with_input(&["run", "echo.wat"], "Grüße, 世界 🎼!\n").expect(0, "🌙\u{fffd}\nGrüße, 世界 🎼!\n", &[]);
}

/// Strings cross by the character: what helps a module in text form to make and to print them.
const STRINGS: &str = r#"
    (import "spectest" "print_char" (func $print_char (param i32)))
    (import "__moonbit_fs_unstable" "begin_create_string" (func $begin (result externref)))
    (import "__moonbit_fs_unstable" "string_append_char" (func $append (param externref i32)))
    (import "__moonbit_fs_unstable" "finish_create_string" (func $finish (param externref) (result externref)))
    (import "__moonbit_fs_unstable" "begin_read_string" (func $read (param externref) (result externref)))
    (import "__moonbit_fs_unstable" "string_read_char" (func $read_char (param externref) (result i32)))
    (import "__moonbit_fs_unstable" "begin_read_string_array" (func $each (param externref) (result externref)))
    (import "__moonbit_fs_unstable" "string_array_read_string" (func $next (param externref) (result externref)))
    (import "__moonbit_fs_unstable" "finish_read_string" (func $read_all (param externref)))
    (import "__moonbit_fs_unstable" "finish_read_string_array" (func $had_all (param externref)))
    (memory 1)
    (func $string (param $at i32) (param $length i32) (result externref) (local $new externref)
      (local.set $new (call $begin))
      (loop $more
        (if (local.get $length) (then
          (call $append (local.get $new) (i32.load8_u (local.get $at)))
          (local.set $at (i32.add (local.get $at) (i32.const 1)))
          (local.set $length (i32.sub (local.get $length) (i32.const 1)))
          (br $more))))
      (call $finish (local.get $new)))
    ;; Reads one character. What has been read is given up; the string is not.
    (func $begin_to_read (param $string externref)
      (local.set $string (call $read (local.get $string)))
      (drop (call $read_char (local.get $string)))
      (call $read_all (local.get $string))
      (if (i32.ge_s (call $read_char (local.get $string)) (i32.const 0)) (then unreachable)))
    (func $print (param $string externref) (local $char i32)
      (call $begin_to_read (local.get $string))
      (local.set $string (call $read (local.get $string)))
      (loop $more
        (local.set $char (call $read_char (local.get $string)))
        (if (i32.ge_s (local.get $char) (i32.const 0)) (then
          (call $print_char (local.get $char))
          (br $more))))
      (call $print_char (i32.const 10)))
    ;; Reads the first string of a list. The end, which begins with an f, comes early then.
    (func $begin_list (param $list externref)
      (local.set $list (call $each (local.get $list)))
      (drop (call $next (local.get $list)))
      (call $had_all (local.get $list))
      (if (i32.ne (i32.const 102) (call $read_char (call $read (call $next (local.get $list))))) (then unreachable)))
    ;; Prints so many strings of a list.
    (func $print_all (param $list externref) (param $count i32)
      (call $begin_list (local.get $list))
      (local.set $list (call $each (local.get $list)))
      (loop $more
        (call $print (call $next (local.get $list)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br_if $more (local.get $count)))
      (call $had_all (local.get $list)))"#;

/// A module in text form that imports functions of MoonBit's host about the world.
fn moonbit(imports: &[(&str, &str)], data: &str, body: &str) -> String {
    let imports: Vec<_> = imports
        .iter()
        .map(|(name, ty)| format!("(import \"__moonbit_fs_unstable\" \"{name}\" (func ${name} {ty}))"))
        .collect();
    format!("(module {} {STRINGS} (data (i32.const 0) {data:?}) (func (export \"_start\") {body}))", imports.join("\n"))
}

#[test]
fn moonbit_sees_arguments_and_environment() {
    let lab = Lab::new();
    let text = moonbit(
        &[
            ("args_get", "(result externref)"),
            ("get_env_var", "(param externref) (result externref)"),
            ("get_env_var_exists", "(param externref) (result i32)"),
            ("set_env_var", "(param externref externref)"),
            ("get_env_vars", "(result externref)"),
        ],
        "KEYabsent",
        "(call $print_all (call $args_get) (i32.const 4))
         (call $print (call $get_env_var (call $string (i32.const 0) (i32.const 3))))
         (call $print_char (i32.add (i32.const 48)
           (call $get_env_var_exists (call $string (i32.const 3) (i32.const 6)))))
         (call $set_env_var (call $string (i32.const 3) (i32.const 6)) (call $string (i32.const 0) (i32.const 3)))
         (call $print_char (i32.add (i32.const 48)
           (call $get_env_var_exists (call $string (i32.const 3) (i32.const 6)))))
         (call $print_all (call $get_env_vars) (i32.const 5))",
    );
    let out =
        "module.wat\na\nb c\nffi_end_of_/string_array\nvalue\n01KEY\nvalue\nabsent\nKEY\nffi_end_of_/string_array\n";
    lab.run(&["--env", "KEY=value"], &text, &["a", "b c"]).expect(0, out, &[]);
}

#[test]
fn moonbit_reads_and_writes_files_below_its_directories_alone() {
    let lab = Lab::new();
    fs::create_dir(lab.path().join("data")).unwrap();
    lab.file("data/in", "content");
    lab.file("secret", "secret");
    let text = moonbit(
        &[
            ("read_file_to_string", "(param externref) (result externref)"),
            ("write_string_to_file", "(param externref externref)"),
            ("read_file_to_bytes_new", "(param externref) (result i32)"),
            ("get_error_message", "(result externref)"),
            ("read_dir_new", "(param externref) (result i32)"),
            ("get_dir_files", "(result externref)"),
        ],
        "/d/in/d/out/d/../secret/d/d",
        "(call $print (call $read_file_to_string (call $string (i32.const 0) (i32.const 5))))
         (call $write_string_to_file (call $string (i32.const 5) (i32.const 6))
           (call $read_file_to_string (call $string (i32.const 0) (i32.const 5))))
         (drop (call $read_file_to_bytes_new (call $string (i32.const 11) (i32.const 12))))
         (call $print (call $get_error_message))
         (if (call $read_dir_new (call $string (i32.const 23) (i32.const 2))) (then (unreachable)))
         (call $print_all (call $get_dir_files) (i32.const 3))",
    );
    let outcome = lab.run(&["--dir", "data::/d"], &text, &[]);
    assert_eq!(outcome.status, 0, "{outcome:?}");
    assert!(outcome.out.starts_with("content\n"), "{outcome:?}");
    assert!(outcome.out.ends_with("\nin\nout\nffi_end_of_/string_array\n"), "{outcome:?}");
    assert!(!outcome.out.contains("secret"), "{outcome:?}");
    assert_eq!(fs::read_to_string(lab.path().join("data/out")).unwrap(), "content");

    fs::remove_file(lab.path().join("data/out")).unwrap();
    lab.run(&["--dir-ro", "data::/d"], &text, &[]).expect(1, "content\n", &["cannot write /d/out", "only read"]);
    assert!(!lab.path().join("data/out").exists());
    lab.run(&[], &text, &[]).expect(1, "", &["cannot read /d/in", "no directory that the program was given"]);
}

#[test]
fn moonbit_exits_and_tells_the_time() {
    let lab = Lab::new();
    let text = r#"(module
        (import "__moonbit_time_unstable" "now" (func $now (result i64)))
        (import "__moonbit_time_unstable" "instant_now" (func $instant (result externref)))
        (import "__moonbit_time_unstable" "instant_elapsed_as_secs_f64" (func $elapsed (param externref) (result f64)))
        (import "__moonbit_sys_unstable" "exit" (func $exit (param i32)))
        (func (export "_start")
          ;; Later than 2020, and clocks do not run backwards.
          (if (i64.lt_s (call $now) (i64.const 1577836800000)) (then (unreachable)))
          (if (f64.lt (call $elapsed (call $instant)) (f64.const 0)) (then (unreachable)))
          (call $exit (i32.const 7))))"#;
    lab.run(&[], text, &[]).expect(7, "", &[]);
    let wrong = r#"(module
        (import "__moonbit_fs_unstable" "begin_read_string" (func $read (param externref) (result externref)))
        (func (export "_start") (drop (call $read (ref.null extern)))))"#;
    lab.run(&[], wrong, &[]).expect(1, "", &["a null reference was given"]);
}
