use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Options for a folder of examples with one program, and a command of that text in the place of `legato`.
fn options(folder: &Path, command: &str) -> Options {
    let legato = folder.join("legato");
    fs::write(&legato, format!("#!/bin/sh\n{command}\n")).unwrap();
    fs::set_permissions(&legato, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.join("wat")).unwrap();
    fs::write(folder.join("wat/one.wat"), "(module)").unwrap();
    fs::write(folder.join("wat/one.expected"), "one\n").unwrap();
    Options {
        warm: false,
        pairs: 2,
        filter: Vec::new(),
        examples: folder.to_path_buf(),
        legato: Some(legato),
        smallest: false,
        legato_only: true,
        #[cfg(feature = "peers")]
        node: None,
        markdown: false,
        json: false,
    }
}

#[test]
fn each_round_has_a_run_with_an_empty_cache_and_one_with_a_full_one() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let command = format!(
        "case $3 in off) echo $5;; *) if mkdir $3 2>&-; then echo first; else echo second; fi;; esac >> {}; echo one",
        log.display()
    );
    let report = run(&options(folder.path(), &command)).unwrap();
    assert!(report.is_complete(), "{report}");
    assert_eq!(report.tables.len(), 3);
    let row = &report.tables[0].rows[0];
    assert!(row.subject == "wat/one" && row.runs.iter().all(|runs| runs.len() == 2), "{report}");
    let log = fs::read_to_string(log).unwrap();
    let rounds: String = log.lines().map(|line| line.chars().next().unwrap()).collect();
    assert_eq!(rounds, "fseefsefs", "the round that does not count, and two in which the order changes");
    let text = report.to_string();
    assert!(text.contains("peak memory of the first run") && text.contains("V8 was not measured"), "{text}");
}

#[test]
fn a_wrong_answer_and_a_failure_are_no_results() {
    for (command, why) in [("echo two", "\"two\\n\", not \"one\\n\""), ("exit 3", "failed (status")] {
        let folder = tempfile::tempdir().unwrap();
        let report = run(&options(folder.path(), command)).unwrap();
        assert!(!report.all_met() && report.to_string().contains(why), "{report}");
    }
}

#[test]
fn a_filter_that_leaves_nothing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = Options { filter: vec!["two".into()], ..options(folder.path(), "true") };
    assert!(run(&nothing).unwrap_err().to_string().contains("two"));
}
