//! What users of other commands expect of this one.

mod support;

use std::fs;
use std::process::Command;

use support::Lab;

const LEGATO: &str = env!("CARGO_BIN_EXE_legato");

/// Twice its argument.
const DOUBLE: &str = r#"(module (func (export "double") (param f64) (result f64) (f64.add (local.get 0) (local.get 0)))
  (func (export "same") (param f32) (result i32) (i32.reinterpret_f32 (local.get 0)))
  (func (export "_start")))"#;

/// Allocates some megabytes.
const ALLOCATING: &str = r#"(module (type $cell (struct (field i64)))
  (global $last (mut (ref null $cell)) (ref.null $cell))
  (func (export "_start") (local $n i32)
  (loop $more (global.set $last (struct.new $cell (i64.const 1))) (local.set $n (i32.add (local.get $n) (i32.const 1)))
    (br_if $more (i32.lt_u (local.get $n) (i32.const 1000000))))))"#;

#[test]
fn a_file_alone_is_run() {
    let lab = Lab::new();
    lab.file("double.wat", DOUBLE);
    lab.file("plain", DOUBLE);
    lab.legato(&["double.wat"]).expect(0, "", &[]);
    lab.legato(&["plain"]).expect(0, "", &[]);
    lab.legato(&["--invoke", "double", "double.wat", "-1.5"]).expect(0, "-3\n", &[]);
    lab.legato(&["absent.wasm"]).expect(1, "", &["cannot read absent.wasm"]);
    lab.legato(&["rum", "double.wat"]).expect(2, "", &["unrecognized subcommand 'rum'", "run"]);
    lab.legato(&["--timeout", "10", "double.wat"]).expect(2, "", &["such as 500ms"]);
}

#[test]
fn a_hyphen_is_standard_input() {
    let lab = Lab::new();
    lab.legato_with_input(&["run", "--invoke", "double", "-", "2"], DOUBLE).expect(0, "4\n", &[]);
    lab.legato_with_input(&["-"], DOUBLE).expect(0, "", &[]);
    lab.legato_with_input(&["compile", "-", "-o", "double.legato"], DOUBLE).expect(0, "", &[]);
    lab.legato(&["run", "--precompiled", "--invoke", "double", "double.legato", "3"]).expect(0, "6\n", &[]);
    let inspected = lab.legato_with_input(&["inspect", "-"], DOUBLE);
    assert!(inspected.status == 0 && inspected.out.contains("double"), "{inspected:?}");
    lab.legato_with_input(&["run", "-"], "").expect(1, "", &["- is empty"]);
    lab.legato_with_input(&["run", "-"], "hello").expect(1, "", &["is no WebAssembly"]);
}

#[test]
fn endless_files_are_refused() {
    let lab = Lab::new();
    for command in ["run", "inspect"] {
        lab.legato(&[command, "/dev/zero"]).expect(1, "", &["/dev/zero is no WebAssembly", "00 00 00 00"]);
    }
    lab.legato(&["wast", "/dev/zero"]).expect(1, "", &["/dev/zero is no script"]);
    // A text that never ends, and a module.
    for start in ["(module ", "\\0asm\\1\\0\\0\\0"] {
        let endless = format!("{{ printf '{start}'; exec tr '\\0' ' ' </dev/zero; }} | exec {LEGATO} run -");
        let mut shell = lab.command("sh");
        let outcome = lab.start(shell.args(["-c", &endless])).end("");
        outcome.expect(1, "", &["- is larger than the 1024 MiB that are read of a file"]);
    }
}

#[test]
fn scripts_of_the_specification() {
    let lab = Lab::new();
    let module = r#"(module (func (export "f") (result i32) (i32.const 1)))"#;
    lab.file("good.wast", format!(r#"{module} (assert_return (invoke "f") (i32.const 1))"#));
    lab.file(
        "bad.wast",
        format!("{module}\n(assert_return (invoke \"f\") (i32.const 1))\n(assert_return (invoke \"f\") (i32.const 2))"),
    );
    lab.legato(&["wast", "good.wast"]).expect(0, "good.wast: 2 directives passed, 0 failed\n", &[]);
    lab.legato(&["wast", "--heap", "collector=mark-sweep", "good.wast", "bad.wast"]).expect(
        1,
        "good.wast: 2 directives passed, 0 failed\nbad.wast: 2 directives passed, 1 failed\n",
        &["bad.wast:3: result 0 is I32(1), expected I32(2)", "1 of 5 directives failed"],
    );
    lab.legato_with_input(&["wast", "-"], "(module) (module)").expect(0, "-: 2 directives passed, 0 failed\n", &[]);
    lab.file("no.wast", "(modul)");
    lab.legato(&["wast", "no.wast"]).expect(1, "", &["no.wast is no script"]);
    lab.legato(&["wast", "absent.wast"]).expect(1, "", &["cannot read absent.wast"]);
}

#[test]
fn more_is_said_if_asked_for() {
    let lab = Lab::new();
    lab.file("double.wat", DOUBLE);
    let run = |args: &[&str], log: &str| {
        let mut command = lab.command(LEGATO);
        lab.start(command.args(args).env("LEGATO_LOG", log).env("LEGATO_CACHE", "double.wat")).end("")
    };
    let says = "legato: info: no code is cached: cannot make the directory double.wat";
    run(&["run", "double.wat"], "").expect(0, "", &[]);
    run(&["run", "-v", "double.wat"], "").expect(0, "", &[says]);
    run(&["-v", "double.wat"], "").expect(0, "", &[says]);
    run(&["run", "double.wat"], "legato=info").expect(0, "", &[says]);
    run(&["run", "double.wat"], "legato=error").expect(0, "", &[]);
    // What stands behind the file is the program's.
    run(&["run", "double.wat", "-v"], "").expect(0, "", &[]);
}

#[test]
fn completions_and_manual() {
    let lab = Lab::new();
    lab.file("double.wat", DOUBLE);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = lab.legato(&["completions", shell]);
        assert!(script.status == 0 && script.out.contains("precompiled"), "{script:?}");
    }
    // Where there is such a shell, it takes the script, and completes an option with it.
    let bash = "source <(\"$0\" completions bash) && COMP_WORDS=(legato run --preco) && COMP_CWORD=2 && \
                _legato legato --preco run && echo ${COMPREPLY[@]}";
    if Command::new("bash").arg("--version").output().is_ok_and(|output| output.status.success()) {
        let completed = lab.start(lab.command("bash").args(["-c", bash, LEGATO])).end("");
        completed.expect(0, "--precompiled\n", &[]);
    }
    lab.legato(&["completions", "sh"]).expect(2, "", &["bash"]);
    lab.legato(&["man", "manual/man1"]).expect(0, "", &[]);
    let page = |name: &str| fs::read_to_string(lab.path().join("manual/man1").join(name)).unwrap();
    assert!(page("legato.1").contains(".TH legato 1") && page("legato-run.1").contains("gc\\-report"));
    lab.legato(&["man", "double.wat"]).expect(1, "", &["cannot write the manual to double.wat"]);
}

#[test]
fn options_of_the_heap_from_the_environment() {
    let lab = Lab::new();
    lab.file("m.wat", ALLOCATING);
    let run = |heap: &str, options: &[&str]| {
        let mut command = lab.command(LEGATO);
        command.env("LEGATO_HEAP", heap).args(["run", "--gc-stats=json"]).args(options).arg("m.wat");
        lab.start(&mut command).end("")
    };
    let settings = |heap: &str, options: &[&str]| {
        let outcome = run(heap, options);
        let stats = outcome.err.lines().last().unwrap_or_default();
        let stats: serde_json::Value = serde_json::from_str(stats).unwrap_or_else(|_| panic!("{outcome:?}"));
        ["max", "collector"].map(|key| stats["configuration"][key].as_str().unwrap().to_string())
    };
    assert_eq!(settings("", &[]), ["auto", "generational"]);
    assert_eq!(settings("max=64M,collector=mark-sweep", &[]), ["64M", "mark-sweep"]);
    assert_eq!(settings("max=64M,collector=mark-sweep", &["--heap", "max=32M"]), ["32M", "mark-sweep"]);
    run("max", &[]).expect(2, "", &["error: LEGATO_HEAP: max: expected KEY=VALUE"]);
    run("colour=red", &[]).expect(2, "", &["error: LEGATO_HEAP: colour=red: ", "unknown key"]);
    run("max=1K", &[]).expect(2, "", &["error: LEGATO_HEAP: ", "at least"]);
    run("max=1M", &["--heap", "min=2M"]).expect(2, "", &["error: LEGATO_HEAP and --heap: ", "min is 2M"]);
}

#[test]
fn the_log_goes_to_a_file() {
    let lab = Lab::new();
    lab.run(&["--gc-log=gc.log", "--heap", "min=1M,nursery=1M"], ALLOCATING, &[]).expect(0, "", &[]);
    let log = fs::read_to_string(lab.path().join("gc.log")).unwrap();
    assert!(log.lines().filter(|line| line.starts_with("gc #")).count() > 5, "{log}");
    lab.run(&["--gc-log=absent/gc.log"], ALLOCATING, &[]).expect(
        1,
        "",
        &["cannot write the log absent/gc.log (--gc-log)"],
    );
}

#[test]
fn numbers_as_the_text_format_writes_them() {
    let lab = Lab::new();
    let run = |name: &str, number: &str| lab.run(&["--invoke", name], DOUBLE, &[number]);
    run("double", "0x1.8p1").expect(0, "6\n", &[]);
    run("double", "-0x0.1p-2").expect(0, "-0.03125\n", &[]);
    run("double", "inf").expect(0, "inf\n", &[]);
    run("same", "nan:0x200000").expect(0, &format!("{}\n", 0x7fa0_0000), &[]);
    run("double", "0x1.8q1").expect(2, "", &["`0x1.8q1` is no value of type f64"]);
}

#[test]
fn compiling_keeps_the_module_and_leaves_nothing_behind() {
    let lab = Lab::new();
    lab.file("double.wat", DOUBLE);
    std::os::unix::fs::symlink("double.wat", lab.path().join("link")).unwrap();
    fs::hard_link(lab.path().join("double.wat"), lab.path().join("second")).unwrap();
    for output in ["double.wat", "./double.wat", "link", "second"] {
        lab.legato(&["compile", "double.wat", "-o", output]).expect(2, "", &[output, "is the module itself"]);
    }
    assert_eq!(fs::read_to_string(lab.path().join("double.wat")).unwrap(), DOUBLE);
    // A file may have 1 block of 512 bytes: writing fails in its middle, as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" compile double.wat -o out";
    lab.start(lab.command("sh").args(["-c", script, LEGATO])).end("").expect(1, "", &["cannot write out"]);
    let mut names: Vec<_> = fs::read_dir(lab.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["double.wat", "link", "second"]);
}

#[test]
fn exhaustion_names_the_limit_and_the_option() {
    let lab = Lab::new();
    let keeping = r#"(module (type $cell (struct (field (ref null $cell)))) (global $all (mut (ref null $cell)) (ref.null $cell))
      (func (export "_start") (loop $more (global.set $all (struct.new $cell (global.get $all))) (br $more))))"#;
    lab.run(&["--heap", "max=4M"], keeping, &[]).expect(
        134,
        "",
        &["legato: wasm trap: allocation failure: out of memory: ", "at most 4194304 bytes", "--heap max=SIZE", "4G"],
    );
    let large = r#"(module (type $bytes (array i8)) (func (export "_start")
      (drop (array.new_default $bytes (i32.const 100000000)))))"#;
    let negative = r#"(module (type $bytes (array (mut i8)))
        (func (export "_start") (drop (array.new_default $bytes (i32.const -5)))))"#;
    let outcome = lab.run(&[], negative, &[]).expect(
        134,
        "",
        &["array too long: 4294967291 elements", "(as a number with a sign, -5)\n"],
    );
    assert!(!outcome.err.contains("--heap"), "{}", outcome.err);
    lab.run(&["--heap", "max=4M"], large, &[]).expect(134, "", &["allocation size too large", "at most 4194304 bytes"]);
    let global = r#"(module (type $bytes (array i8)) (func (export "_start"))
      (global (ref $bytes) (array.new_default $bytes (i32.const 100000000))))"#;
    lab.run(&["--heap", "max=4M"], global, &[]).expect(
        134,
        "",
        &["legato: the value of a global: wasm trap: allocation size too large: ", "4194304 bytes; --heap max=SIZE"],
    );
}

#[test]
fn settings_without_effect_are_refused() {
    let lab = Lab::new();
    for (heap, says) in [
        ("max=100T", "max is 100T, but must be at most 4G"),
        ("max=16M,min=32M", "min is 32M, but must be at most max, which is 16M"),
        ("collector=mark-sweep,nursery=1M", "nursery=1M is a parameter of collector=generational, but"),
        ("arrays=contiguous,leaf=1K", "leaf=1K is a parameter of arrays=arraylets or arrays=zrays, but"),
        ("full=stop,quantum=1ms", "quantum=1ms is a parameter of full=incremental, but full is stop"),
        ("stress-polls=on", "stress is not set"),
    ] {
        let outcome = lab.run(&["--heap", heap], "(module)", &[]).expect(2, "", &[says]);
        assert_eq!(
            outcome.err.lines().filter(|line| !line.is_empty()).count(),
            2,
            "one sentence, and --help: {outcome:?}"
        );
    }
    lab.run(&["--cache", "off", "--cache-size", "1M"], "(module)", &[]).expect(2, "", &["--cache-size", "off"]);
    let help = lab.legato(&["help", "run"]).out;
    for part in
        ["from 256K to 4G [auto]", "a quarter of max at most", "[default: 8M]", "[default: 512M]", "LEGATO_HEAP"]
    {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn the_heap_options_of_the_guides_are_taken() {
    let lab = Lab::new();
    lab.file("empty.wat", "(module)");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = vec![std::fs::read_to_string(root.join("README.md")).unwrap()];
    for guide in std::fs::read_dir(root.join("docs/guides")).unwrap() {
        texts.push(std::fs::read_to_string(guide.unwrap().path()).unwrap());
    }
    let mut tried = 0;
    for text in &texts {
        for (at, _) in text.match_indices("--heap ") {
            let options = text[at + 7..].split([' ', '`', '\n', '|']).next().unwrap();
            if options.contains('=') && !options.contains("KEY") {
                let ran = lab.legato(&["run", "--heap", options, "empty.wat"]);
                assert!(!ran.err.contains("--heap"), "{options}: {ran:?}");
                tried += 1;
            }
        }
    }
    assert!(tried > 10, "{tried} options in the guides");
}
