//! SIGINT and SIGTERM: the program ends, and what was asked about the collector is told.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use support::{Lab, Running};

const LEGATO: &str = env!("CARGO_BIN_EXE_legato");

/// Allocates for ever.
const ENDLESS: &str = r#"(module (type $cell (struct (field i64)))
  (global $last (mut (ref null $cell)) (ref.null $cell))
  (func (export "_start") (loop $more (global.set $last (struct.new $cell (i64.const 1))) (br $more))))"#;

/// Tells that it has begun, and sits in a call of the host that nobody can end: reads from a pipe that it has opened
/// for both.
const BLOCKED: &str = r#"(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "pipe")
  (data (i32.const 500) "\fc\01\00\00\06\00\00\00")
  (data (i32.const 508) "ready\n")
  (func (export "_start")
    (if (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 0) (i64.const 0x42) (i64.const 0)
          (i32.const 0) (i32.const 8))
      (then unreachable))
    (drop (call $write (i32.const 2) (i32.const 500) (i32.const 1) (i32.const 600)))
    (drop (call $read (i32.load (i32.const 8)) (i32.const 500) (i32.const 1) (i32.const 600)))))"#;

/// A folder with a pipe, which the program is given by these options.
fn with_pipe() -> Lab {
    let lab = Lab::new();
    assert!(Command::new("mkfifo").arg(lab.path().join("pipe")).status().unwrap().success());
    lab
}

const WITH_PIPE: &[&str] = &["--gc-stats=json", "--dir", ".::/"];

/// Tells that it has begun, and waits in a call of the host.
const SLEEPING: &str = r#"(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 500) "\fc\01\00\00\06\00\00\00")
  (data (i32.const 508) "ready\n")
  (func (export "_start")
    (drop (call $write (i32.const 2) (i32.const 500) (i32.const 1) (i32.const 600)))
    (i32.store (i32.const 16) (i32.const 1))
    (i64.store (i32.const 24) (i64.const 60000000000))
    (drop (call $poll (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 200)))))"#;

/// Sends signals one after the other: two at the same moment are one to the process.
#[track_caller]
fn send(signals: &[&str], child: &Child) {
    let kills: Vec<_> = signals.iter().map(|signal| format!("kill -{signal} {}", child.id())).collect();
    assert!(Command::new("sh").args(["-c", &kills.join(" && sleep 0.05 && ")]).status().unwrap().success());
}

/// The command, with signals as an interactive shell leaves them: whoever runs the tests in the background may have
/// them ignored.
fn heeding(mut command: Command) -> Command {
    // SAFETY: between fork and exec, calls nothing but what is safe in a signal handler.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

/// Starts a program, waits for its first line on standard error that begins so, and sends the signals. Returns all
/// that it says there, and its status.
fn stopped(
    lab: &Lab,
    options: &[&str],
    text: &str,
    line: &str,
    signals: &[&str],
) -> (String, std::process::ExitStatus) {
    lab.file("module.wat", text);
    let args = [&["run"], options, &["module.wat"]].concat();
    let Running(mut child) = lab.start(heeding(lab.command(LEGATO)).args(args));
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.lines().last().unwrap_or_default().starts_with(line) {
        assert!(err.read_line(&mut said).unwrap() > 0, "it has ended: {said}");
    }
    send(signals, &child);
    err.read_to_string(&mut said).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    (said, child.wait().unwrap())
}

#[test]
fn statistics_are_complete() {
    let lab = Lab::new();
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let watch = ["--gc-log", "--gc-stats=json", "--gc-report", "gc.html", "--heap", "min=1M,nursery=1M"];
        let (said, status) = stopped(&lab, &watch, ENDLESS, "gc #5 ", &[signal]);
        assert_eq!(status.code(), Some(128 + number), "{said}");
        let stats = said.lines().last().unwrap();
        let stats: serde_json::Value = serde_json::from_str(stats).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(stats["outcome"], format!("stopped by SIG{signal}"));
        // The last line of the log is the last collection.
        let logged = said.lines().rfind(|line| line.starts_with("gc #")).unwrap();
        assert!(logged.starts_with(&format!("gc #{} ", stats["collections"]["total"])), "{said}");
        assert_eq!(stats["heap"]["collections"], stats["collections"]["total"], "{said}");
        let page = fs::read_to_string(lab.path().join("gc.html")).unwrap();
        assert!(page.ends_with("</html>") && page.contains(&format!("stopped by SIG{signal}")));
    }
}

#[test]
fn a_program_in_a_call_of_the_host_is_left_there() {
    for (lab, options, text) in [(with_pipe(), WITH_PIPE, BLOCKED), (Lab::new(), &["--gc-stats=json"], SLEEPING)] {
        let started = Instant::now();
        let (said, status) = stopped(&lab, options, text, "ready", &["TERM"]);
        assert_eq!(status.code(), Some(143), "{said}");
        assert!(said.contains("stopped by SIGTERM"), "{said}");
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let lab = with_pipe();
    // On a busy machine the program may have ended by the first before the second comes.
    for _ in 0..10 {
        let (said, status) = stopped(&lab, WITH_PIPE, BLOCKED, "ready", &["INT", "TERM"]);
        if status.signal().is_some() {
            assert!(matches!(status.signal(), Some(2 | 15)), "{status}: {said}");
            assert_eq!(said, "ready\n");
            return;
        }
        assert_eq!(status.code(), Some(130), "{said}");
    }
    panic!("no second signal has ended the process");
}

#[test]
fn ignored_signals_stay_ignored() {
    let lab = Lab::new();
    lab.file("module.wat", SLEEPING);
    // As a shell starts a job in the background.
    let args = ["-c", "trap '' INT; exec \"$@\"", "sh", LEGATO, "run", "--gc-stats=json", "module.wat"];
    let Running(mut child) = lab.start(lab.command("sh").args(args));
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    err.read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    send(&["INT", "TERM"], &child);
    err.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143), "{said}");
    assert!(said.contains("stopped by SIGTERM"), "{said}");
}
