//! The cache of compiled code: a second run finds what the first has compiled, and nothing that is wrong with the cache
//! ever hinders a program.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use support::{Lab, Outcome};

const LEGATO: &str = env!("CARGO_BIN_EXE_legato");

/// A function that adds a number: another module for each number. Its stores are for entries of more than a block.
fn adder(number: i32) -> String {
    let store = |at: i32| format!("(i32.store (i32.const {}) (local.get 0))", at * 8);
    let stores: String = (0..300).map(store).collect();
    format!(
        r#"(module (memory 1) (func (export "add") (param i32) (result i32)
             {stores} (i32.add (local.get 0) (i32.const {number}))))"#
    )
}

/// Runs `adder(1)` so that each step of the cache is told.
fn add(lab: &Lab, options: &[&str]) -> Outcome {
    lab.run(&[&["-vv", "--invoke", "add"], options].concat(), &adder(1), &["41"])
}

/// Whether the code came from the cache, of a run that went well.
#[track_caller]
fn hit(outcome: &Outcome) -> bool {
    assert_eq!((outcome.status, outcome.out.as_str()), (0, "42\n"), "{outcome:#?}");
    assert!(!outcome.err.contains("panicked"), "{outcome:#?}");
    outcome.err.contains(" is used\n")
}

/// The files of the cache.
fn files(lab: &Lab) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(lab.path().join("cache")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// The one entry that there is.
#[track_caller]
fn entry(lab: &Lab) -> PathBuf {
    let files = files(lab);
    assert_eq!(files.len(), 1, "{files:?}");
    files.into_iter().next().unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn age(path: &Path, seconds: u64) {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(then).unwrap();
}

#[test]
fn a_second_run_finds_the_code_of_the_first() {
    let lab = Lab::new();
    let first = add(&lab, &[]);
    assert!(!hit(&first) && first.err.contains("is cached as"), "{first:#?}");
    assert!(hit(&add(&lab, &[])));
    // Nobody is told who has not asked; what does not change the code finds it.
    lab.run(&["--invoke", "add", "--heap", "max=64M", "--timeout", "1m"], &adder(1), &["1"]).expect(0, "2\n", &[]);
    assert_eq!(entry(&lab).metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(lab.path().join("cache").metadata().unwrap().mode() & 0o777, 0o700);
    // Another module, other code for the same module, and code that is to be verified.
    lab.run(&["--invoke", "add"], &adder(2), &["1"]).expect(0, "3\n", &[]);
    assert!(!hit(&add(&lab, &["--heap", "collector=mark-sweep"])));
    assert_eq!(files(&lab).len(), 3);
    assert!(!hit(&add(&lab, &["--verify-code"])));
    assert_eq!(files(&lab).len(), 3);
    assert!(hit(&add(&lab, &[])));
}

#[test]
fn invalid_modules_stay_invalid() {
    let lab = Lab::new();
    for _ in 0..2 {
        lab.run(&[], "(module (func (result i32)))", &[]).expect(1, "", &["type mismatch"]);
    }
    assert!(files(&lab).is_empty());
}

#[test]
fn where_the_cache_is() {
    let lab = Lab::new();
    let wat = lab.file("m.wat", adder(1));
    let run = |directory: Option<&str>, args: &[&str]| {
        let mut command = lab.command(LEGATO);
        command.env_remove("LEGATO_CACHE").env_remove("XDG_CACHE_HOME").env("HOME", lab.path().join("home"));
        if let Some(directory) = directory {
            command.env("XDG_CACHE_HOME", directory);
        }
        let args = [&["run", "--invoke", "add"], args, &[wat.to_str().unwrap(), "1"]].concat();
        lab.start(command.args(args)).end("").expect(0, "2\n", &[]);
    };
    let entries = |path: &str| fs::read_dir(lab.path().join(path)).map_or(0, Iterator::count);
    run(None, &["--cache", "off"]);
    assert!(!lab.path().join("home").exists() && !lab.path().join("off").exists());
    run(None, &[]);
    assert_eq!(entries("home/.cache/legato"), 1);
    run(Some(lab.path().join("xdg").to_str().unwrap()), &[]);
    assert_eq!(entries("xdg/legato"), 1);
    // The specification has relative paths ignored.
    run(Some("relative"), &[]);
    assert!(!lab.path().join("relative").exists());
    run(None, &["--cache", "own"]);
    assert_eq!(entries("own"), 1);
    let mut nowhere = lab.command(LEGATO);
    nowhere.env_remove("LEGATO_CACHE").env_remove("XDG_CACHE_HOME").env_remove("HOME");
    let nowhere = lab.start(nowhere.args(["run", "-v", "--invoke", "add", "m.wat", "1"])).end("");
    nowhere.expect(0, "2\n", &["no code is cached: there is no default directory"]);
}

#[test]
fn damaged_entries_are_compiled_anew_and_replaced() {
    let lab = Lab::new();
    assert!(!hit(&add(&lab, &[])));
    let path = entry(&lab);
    let whole = fs::read(&path).unwrap();
    let check = |damaged: &[u8], what: &str| {
        fs::write(&path, damaged).unwrap();
        let outcome = add(&lab, &[]);
        assert!(!hit(&outcome), "{what}: {outcome:#?}");
        assert_eq!(outcome.err.matches("is not used").count(), 1, "{what}: {outcome:#?}");
        assert_eq!(entry(&lab), path, "{what}");
        assert!(fs::read(&path).unwrap() == whole, "{what}: it was not replaced");
    };
    for length in [0, 1, 8, 40, 84, 85, whole.len() / 2, whole.len() - 1] {
        check(&whole[..length], &format!("{length} bytes"));
    }
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        check(&damaged, &format!("byte {at}"));
    }
    check(&[&whole[..], b"x"].concat(), "a byte more");
    check(&vec![0; whole.len()], "zeros");
    let mut other_version = whole.clone();
    other_version[8] += 1;
    check(&other_version, "the container's version");
    assert!(hit(&add(&lab, &[])));
}

#[test]
fn another_modules_entry_is_not_used() {
    let lab = Lab::new();
    assert!(!hit(&add(&lab, &[])));
    let path = entry(&lab);
    lab.run(&["--invoke", "add"], &adder(2), &["1"]).expect(0, "3\n", &[]);
    let other = files(&lab).into_iter().find(|file| *file != path).unwrap();
    fs::rename(other, &path).unwrap();
    let outcome = add(&lab, &[]);
    assert!(!hit(&outcome) && outcome.err.contains("another module's"), "{outcome:#?}");
}

#[test]
fn another_build_of_legato_compiles_anew() {
    let lab = Lab::new();
    lab.file("m.wat", adder(1));
    let other = lab.path().join("legato");
    // By another process: while this one has a file open for writing, what other tests start has it too, and nothing
    // that is written to can be run.
    assert!(lab.command("cp").args([LEGATO, "legato"]).status().unwrap().success());
    let run = || lab.start(lab.command(&other).args(["run", "-vv", "--invoke", "add", "m.wat", "41"])).end("");
    assert!(!hit(&run()));
    assert!(hit(&run()));
    // Installed anew.
    age(&other, 100);
    assert!(!hit(&run()));
    assert!(!hit(&add(&lab, &[])));
    assert_eq!(files(&lab).len(), 3);
}

#[test]
fn what_others_could_have_written_is_never_used() {
    let lab = Lab::new();
    assert!(!hit(&add(&lab, &[])));
    let (path, directory) = (entry(&lab), lab.path().join("cache"));
    for mode in [0o620, 0o602, 0o666] {
        set_mode(&path, mode);
        let outcome = add(&lab, &[]);
        assert!(!hit(&outcome) && outcome.err.contains("others may write to it"), "{outcome:#?}");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600, "it was not replaced");
    }
    for mode in [0o720, 0o702, 0o1777] {
        set_mode(&directory, mode);
        let outcome = add(&lab, &[]);
        assert!(!hit(&outcome), "{outcome:#?}");
        let says = format!("no code is cached: {} is not trusted: others may write to it", directory.display());
        assert_eq!(outcome.err.matches(&says).count(), 1, "{outcome:#?}");
        // It is no error.
        lab.run(&["--invoke", "add"], &adder(1), &["1"]).expect(0, "2\n", &[]);
        lab.legato(&["cache", "size"]).expect(1, "", &["is not trusted"]);
    }
    set_mode(&directory, 0o700);
    assert!(hit(&add(&lab, &[])));
    // Neither is what only looks like an entry.
    fs::rename(&path, lab.path().join("elsewhere")).unwrap();
    symlink(lab.path().join("elsewhere"), &path).unwrap();
    assert!(!hit(&add(&lab, &[])));
    assert!(path.symlink_metadata().unwrap().is_file(), "it was not replaced");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(!hit(&add(&lab, &[])));
    fs::remove_dir(&path).unwrap();
    assert!(lab.command("mkfifo").arg(&path).status().unwrap().success());
    assert!(!hit(&add(&lab, &[])));
}

#[test]
fn another_users_files_are_never_used() {
    let lab = Lab::new();
    assert!(!hit(&add(&lab, &[])));
    let path = entry(&lab);
    // Only root can give files away. Others have root's directories to try.
    if chown(&path, Some(54_321), None).is_err() {
        let outcome = add(&lab, &["--cache", "/usr"]);
        assert!(!hit(&outcome) && outcome.err.contains("no code is cached: /usr is not trusted: it belongs to user 0"));
        return;
    }
    let outcome = add(&lab, &[]);
    assert!(!hit(&outcome) && outcome.err.contains("it belongs to user 54321"), "{outcome:#?}");
    assert_eq!(path.metadata().unwrap().uid(), lab.path().metadata().unwrap().uid(), "it was not replaced");
    assert!(hit(&add(&lab, &[])));
    chown(lab.path().join("cache"), Some(54_321), None).unwrap();
    let outcome = add(&lab, &[]);
    assert!(!hit(&outcome) && outcome.err.contains("cache is not trusted: it belongs to user 54321"), "{outcome:#?}");
}

#[test]
fn read_only_directories() {
    let lab = Lab::new();
    // A directory in which nobody can write, not even root.
    if cfg!(target_os = "linux") {
        let outcome = add(&lab, &["--cache", "/proc/self"]);
        assert!(!hit(&outcome) && outcome.err.contains("compiled code is not cached"), "{outcome:#?}");
        let outcome = add(&lab, &["--cache", "/proc/self/legato"]);
        assert!(!hit(&outcome) && outcome.err.contains("no code is cached: cannot make the directory"), "{outcome:#?}");
    }
    lab.file("file", "");
    let outcome = add(&lab, &["--cache", "file"]);
    assert!(!hit(&outcome) && outcome.err.contains("no code is cached: cannot make the directory file"));
    // What lies in one's own is as good as before.
    assert!(!hit(&add(&lab, &[])));
    set_mode(&lab.path().join("cache"), 0o555);
    assert!(hit(&add(&lab, &[])));
    lab.run(&["--invoke", "add"], &adder(2), &["1"]).expect(0, "3\n", &[]);
    set_mode(&lab.path().join("cache"), 0o755);
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let lab = Lab::new();
    lab.file("m.wat", adder(1));
    // A file may have 2 blocks of 512 bytes: writing fails in its middle, as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 2; exec \"$@\"";
    // Code that is compiled when it is called is written to memory that counts as a file.
    let eager = ["--compilation", "eager"];
    let run = ["-c", script, "sh", LEGATO, "run", "-v", "--compilation", "eager", "--invoke", "add", "m.wat", "41"];
    let outcome = lab.start(lab.command("sh").args(run)).end("");
    assert!(
        !hit(&outcome) && outcome.err.contains("compiled code is not cached: it cannot be written"),
        "{outcome:#?}"
    );
    assert!(files(&lab).is_empty());
    assert!(!hit(&add(&lab, &eager)));
    assert!(entry(&lab).metadata().unwrap().len() > 1024, "the entry would not have been too long");
    assert!(hit(&add(&lab, &eager)));
}

#[test]
fn the_least_recently_used_goes_first() {
    let lab = Lab::new();
    let run = |number: i32, size: &str| {
        let options = ["-vv", "--invoke", "add", "--cache-size", size, "--compilation", "eager"];
        let outcome = lab.run(&options, &adder(number), &["0"]);
        assert_eq!((outcome.status, outcome.out), (0, format!("{number}\n")), "{}", outcome.err);
        outcome.err
    };
    run(1, "512M");
    let first = entry(&lab);
    // Room for two and a half.
    let size = (first.metadata().unwrap().len() * 5 / 2).to_string();
    run(2, &size);
    // The first would go, if it were not used again.
    files(&lab).iter().for_each(|file| age(file, if *file == first { 200 } else { 100 }));
    assert!(run(1, &size).contains("is used"));
    run(3, &size);
    assert_eq!(files(&lab).len(), 2);
    assert!(run(1, &size).contains("is used"), "the one that was used has gone");
    assert!(run(2, &size).contains("is cached as"), "the one that was not used has stayed");
    assert!(run(4, "1000").contains("more than the cache may hold"));
    assert_eq!(files(&lab).len(), 2);
    // Files that nobody is going to finish go too; those being written stay, as does what is none of the cache's.
    for (name, seconds) in [("a.tmp", 7200), ("b.tmp", 60), ("notes", 7200)] {
        age(&lab.file(&format!("cache/{name}"), "x"), seconds);
    }
    run(5, "512M");
    let names: Vec<_> = ["a.tmp", "b.tmp", "notes"].map(|name| lab.path().join("cache").join(name).exists()).into();
    assert_eq!(names, [false, true, true]);
}

#[test]
fn many_processes_at_once() {
    let lab = Lab::new();
    lab.file("m.wat", adder(1));
    // The cache has room for one entry, so that they also remove each other's.
    assert!(!hit(&add(&lab, &[])));
    let size = (entry(&lab).metadata().unwrap().len() * 3 / 2).to_string();
    for round in 0..3 {
        fs::write(lab.path().join("n.wat"), adder(round + 2)).unwrap();
        let start = |file: &str| {
            let args = ["run", "--invoke", "add", "--cache-size", &size, file, "1"];
            lab.start(lab.command(LEGATO).args(args))
        };
        let running: Vec<_> = (0..6).map(|_| (start("m.wat"), start("n.wat"))).collect();
        for (m, n) in running {
            m.end("").expect(0, "2\n", &[]);
            n.end("").expect(0, &format!("{}\n", round + 3), &[]);
        }
        // Two that remove what is too much at the same time can leave less.
        assert!(files(&lab).len() <= 1, "{:?}", files(&lab));
    }
}

#[test]
fn size_and_clear() {
    let lab = Lab::new();
    let shown = lab.path().join("cache").display().to_string();
    lab.legato(&["cache", "size"]).expect(0, &format!("{shown}: 0 modules, 0.0 MB\n"), &[]);
    assert!(!hit(&add(&lab, &[])));
    lab.run(&["--invoke", "add"], &adder(2), &["1"]).expect(0, "3\n", &[]);
    lab.legato(&["cache", "size"]).expect(0, &format!("{shown}: 2 modules, 0.0 MB\n"), &[]);
    lab.file("cache/notes", "mine");
    lab.legato(&["cache", "clear"]).expect(0, &format!("{shown}: removed 2 modules, 0.0 MB\n"), &[]);
    assert_eq!(files(&lab), [lab.path().join("cache/notes")]);
    assert!(!hit(&add(&lab, &[])));
    lab.legato(&["cache", "size", "--cache", "other"]).expect(0, "other: 0 modules, 0.0 MB\n", &[]);
    lab.legato(&["cache", "size", "--cache", "off"]).expect(2, "", &["--cache is `off`"]);
    lab.legato(&["cache"]).expect(2, "", &["size", "clear"]);
    lab.legato(&["cache", "shrink"]).expect(2, "", &["shrink"]);
}

/// Where functions are compiled when they are called, each run adds those that no earlier one has called.
#[test]
fn what_is_compiled_when_it_is_called_is_kept() {
    let lab = Lab::new();
    let module = r#"(module
        (func $one (result i32) (i32.const 1)) (func $loop (param i32) (result i32)
            (loop (result i32) (local.set 0 (i32.mul (local.get 0) (i32.const 3)))
                (br_if 0 (i32.lt_u (local.get 0) (i32.const 1000))) (local.get 0)))
        (func (export "first") (param i32) (result i32) (call $loop (local.get 0)))
        (func (export "second") (param i32) (result i32) (i32.add (call $loop (local.get 0)) (call $one))))"#;
    // Functions that the program waited for, and what came from the cache. What is compiled ahead is so in no order,
    // and may not be done when the program is over.
    let run = |name: &str, result: &str| -> (Vec<String>, Vec<String>) {
        let outcome = lab.run(&["--compile-log", "--invoke", name], module, &["7"]);
        assert_eq!((outcome.status, outcome.out.as_str()), (0, result), "{outcome:#?}");
        let function = |line: &str| Some(line.split_once("function ")?.1.split([' ', ':']).next()?.to_string());
        let (kept, compiled): (Vec<_>, Vec<_>) =
            outcome.err.lines().partition(|line| line.contains(" from the cache, "));
        let called = compiled.into_iter().filter(|line| line.ends_with(", called"));
        (called.filter_map(function).collect(), kept.into_iter().filter_map(function).collect())
    };
    let (mut waited_for, kept) = run("first", "1701\n");
    assert_eq!(kept, [""; 0]);
    for name in ["first", "second", "second", "first"] {
        let result = if name == "first" { "1701\n" } else { "1702\n" };
        let (called, kept) = run(name, result);
        assert!(!kept.is_empty());
        assert!(waited_for.iter().all(|function| kept.contains(function)), "{waited_for:?} in {kept:?}");
        assert!(called.iter().all(|function| !kept.contains(function)), "{called:?} in {kept:?}");
        waited_for.extend(called);
    }
    assert_eq!(run("first", "1701\n").0, [""; 0]);
    // What was compiled as a whole comes first.
    lab.run(&["--compilation", "eager", "--invoke", "first"], module, &["7"]).expect(0, "1701\n", &[]);
    assert_eq!(run("second", "1702\n"), (vec![], vec![]), "nothing has been compiled or loaded by itself");
}
