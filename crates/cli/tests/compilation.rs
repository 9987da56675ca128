//! `--compilation` and `--compile-log`.

mod support;

use support::Lab;

const MODULE: &str = r#"(module
    (func $never (unreachable))
    (func $twice (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
    (func (export "run") (result i32) (call $twice (i32.const 21)))
    (func (export "other") (call $never)))"#;

#[test]
fn a_log_has_a_line_for_each_function_that_was_called() {
    let lab = Lab::new();
    lab.file("module.wat", MODULE);
    let run = lab.legato(&["run", "--compile-log", "--invoke", "run", "module.wat"]);
    assert_eq!((run.status, run.out.as_str()), (0, "42\n"), "{run:?}");
    let line = |name: &str| run.err.lines().find(|line| line.starts_with("[compile] ") && line.contains(name));
    let twice = line("function 1 twice: quick, ").unwrap_or_else(|| panic!("{run:?}"));
    assert!(twice.contains(" ms, ") && twice.contains(" bytes, "), "{twice}");
    assert!(line("function 2: ").is_some(), "{run:?}");

    let run = lab.legato(&["run", "--compile-log=log", "--invoke", "run", "module.wat"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""), "{run:?}");
    assert!(
        std::fs::read_to_string(lab.path().join("log"))
            .unwrap()
            .lines()
            .any(|line| line.contains("function 1 twice: "))
    );
    let run = lab.legato(&["run", "--compile-log=absent/log", "--invoke", "run", "module.wat"]);
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.err.contains("cannot write absent/log"), "{run:?}");
}

#[test]
fn eager_compilation_is_of_the_whole_before() {
    let lab = Lab::new();
    lab.file("module.wat", MODULE);
    let run = lab.legato(&["run", "--compilation", "eager", "--compile-log", "--invoke", "run", "module.wat"]);
    assert_eq!((run.status, run.out.as_str()), (0, "42\n"), "{run:?}");
    // The others are inlined, and not called then.
    let lines: Vec<&str> = run.err.lines().filter(|line| line.starts_with("[compile] ")).collect();
    assert_eq!(lines.len(), 2, "{run:?}");
    for name in ["function 2: ", "function 3: "] {
        let line = lines.iter().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name} in {run:?}"));
        assert!(line.contains(": optimised, ") && line.ends_with(" bytes, before"), "{line}");
    }
}
