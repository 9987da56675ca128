//! The calls through an engine.

use anyhow::Result;
use legato::{Engine, Instance, Linker, Module, Store, Trap};
use legato_wasi::{Access, I32Exit, Output, OutputPipe, RaisedSignal, WasiCtx, WasiCtxBuilder};

fn start(text: &str) -> Result<(Store<WasiCtx>, Instance, OutputPipe)> {
    let out = OutputPipe::new();
    let mut builder = WasiCtxBuilder::new();
    builder.arg("program").stdout(Output::Pipe(out.clone()));
    let (store, instance) = start_in(&mut builder, text)?;
    Ok((store, instance, out))
}

fn start_in(builder: &mut WasiCtxBuilder, text: &str) -> Result<(Store<WasiCtx>, Instance)> {
    let engine = Engine::default();
    let module = Module::new(&engine, text)?;
    let mut store = Store::new(&engine, builder.build());
    let mut linker = Linker::new(&engine);
    legato_wasi::add_to_linker(&mut linker, |ctx: &mut WasiCtx| ctx)?;
    let instance = linker.instantiate(&mut store, &module)?;
    Ok((store, instance))
}

fn call(store: &mut Store<WasiCtx>, instance: &Instance, name: &str) -> Result<i32> {
    instance.get_typed_func::<(), i32>(&mut *store, name)?.call(store, ())
}

#[test]
fn output_arguments_and_exit() {
    let (mut store, instance, out) = start(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (import "wasi_snapshot_preview1" "proc_raise" (func $raise (param i32) (result i32)))
          (import "wasi_snapshot_preview1" "sock_shutdown" (func $shutdown (param i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "\08\00\00\00\06\00\00\00hello\n")
          (func (export "write") (result i32)
            (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)) (then unreachable))
            (i32.load (i32.const 100)))
          (func (export "fault") (result i32)
            (call $write (i32.const 1) (i32.const 65530) (i32.const 1) (i32.const 100)))
          (func (export "args") (result i32)
            (drop (call $sizes (i32.const 200) (i32.const 204))) (i32.load (i32.const 204)))
          (func (export "exit") (result i32) (call $exit (i32.const 9)) (i32.const 0))
          (func (export "raise") (result i32) (call $raise (i32.const 6)))
          (func (export "socket") (result i32) (call $shutdown (i32.const 0) (i32.const 0))))"#,
    )
    .unwrap();
    assert_eq!(call(&mut store, &instance, "write").unwrap(), 6);
    assert_eq!(out.contents(), b"hello\n");
    assert_eq!(call(&mut store, &instance, "fault").unwrap(), 21);
    assert_eq!(call(&mut store, &instance, "args").unwrap(), 8);
    assert_eq!(call(&mut store, &instance, "socket").unwrap(), 57);
    let error = call(&mut store, &instance, "exit").unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&I32Exit(9)), "{error:?}");
    let error = call(&mut store, &instance, "raise").unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&RaisedSignal(6)), "{error:?}");
}

/// Waiting for a clock or for a descriptor is no way to outlive a deadline.
#[test]
fn whoever_waits_is_interrupted() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let dir = tempfile::tempdir().unwrap();
    mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut builder = WasiCtxBuilder::new();
    builder.preopened_dir(dir.path(), "/", Access::ReadWrite).unwrap();
    let (mut store, instance) = start_in(
        &mut builder,
        r#"(module
          (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "path_open"
            (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "pipe")
          ;; A subscription to a clock's 2^64 - 1 nanoseconds, one to the pipe, and a piece of memory to read to.
          (data (i32.const 116) "\01\00\00\00\00\00\00\00\00\00\00\00\ff\ff\ff\ff\ff\ff\ff\ff")
          (data (i32.const 156) "\01")
          (data (i32.const 200) "\2c\01\00\00\04\00\00\00")
          (func (export "open") (result i32)
            (if (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 0)
                  (i64.const 0x8000042) (i64.const 0) (i32.const 0) (i32.const 164))
              (then unreachable))
            (i32.load (i32.const 164)))
          (func (export "sleep") (result i32)
            (call $poll (i32.const 100) (i32.const 400) (i32.const 1) (i32.const 500)))
          (func (export "poll") (result i32)
            (call $poll (i32.const 148) (i32.const 400) (i32.const 1) (i32.const 500)))
          (func (export "read") (result i32)
            (call $read (i32.load (i32.const 164)) (i32.const 200) (i32.const 1) (i32.const 500))))"#,
    )
    .unwrap();
    assert_eq!(call(&mut store, &instance, "open").unwrap(), 4);
    for name in ["sleep", "poll"] {
        let deadline = store.set_deadline(std::time::Duration::from_millis(20));
        let error = call(&mut store, &instance, name).unwrap_err();
        assert_eq!(error.downcast_ref(), Some(&Trap::Interrupt), "{name}: {error:?}");
        assert!(!store.interrupt_handle().is_requested(), "{name}");
        drop(deadline);
    }
    std::fs::write(dir.path().join("pipe"), b"four").unwrap();
    assert_eq!(call(&mut store, &instance, "read").unwrap(), 0);
}

#[test]
fn a_module_without_memory_is_told_so() {
    let (mut store, instance, _) = start(
        r#"(module
          (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
          (func (export "run") (result i32) (call $random (i32.const 0) (i32.const 0))))"#,
    )
    .unwrap();
    let error = call(&mut store, &instance, "run").unwrap_err();
    assert!(format!("{error:#}").contains("must export its memory"), "{error:#}");
}

#[test]
fn every_call_links() {
    let types = [
        ("args_get", "i32 i32"),
        ("args_sizes_get", "i32 i32"),
        ("environ_get", "i32 i32"),
        ("environ_sizes_get", "i32 i32"),
        ("clock_res_get", "i32 i32"),
        ("clock_time_get", "i32 i64 i32"),
        ("fd_advise", "i32 i64 i64 i32"),
        ("fd_allocate", "i32 i64 i64"),
        ("fd_close", "i32"),
        ("fd_datasync", "i32"),
        ("fd_fdstat_get", "i32 i32"),
        ("fd_fdstat_set_flags", "i32 i32"),
        ("fd_fdstat_set_rights", "i32 i64 i64"),
        ("fd_filestat_get", "i32 i32"),
        ("fd_filestat_set_size", "i32 i64"),
        ("fd_filestat_set_times", "i32 i64 i64 i32"),
        ("fd_pread", "i32 i32 i32 i64 i32"),
        ("fd_prestat_get", "i32 i32"),
        ("fd_prestat_dir_name", "i32 i32 i32"),
        ("fd_pwrite", "i32 i32 i32 i64 i32"),
        ("fd_read", "i32 i32 i32 i32"),
        ("fd_readdir", "i32 i32 i32 i64 i32"),
        ("fd_renumber", "i32 i32"),
        ("fd_seek", "i32 i64 i32 i32"),
        ("fd_sync", "i32"),
        ("fd_tell", "i32 i32"),
        ("fd_write", "i32 i32 i32 i32"),
        ("path_create_directory", "i32 i32 i32"),
        ("path_filestat_get", "i32 i32 i32 i32 i32"),
        ("path_filestat_set_times", "i32 i32 i32 i32 i64 i64 i32"),
        ("path_link", "i32 i32 i32 i32 i32 i32 i32"),
        ("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32"),
        ("path_readlink", "i32 i32 i32 i32 i32 i32"),
        ("path_remove_directory", "i32 i32 i32"),
        ("path_rename", "i32 i32 i32 i32 i32 i32"),
        ("path_symlink", "i32 i32 i32 i32 i32"),
        ("path_unlink_file", "i32 i32 i32"),
        ("poll_oneoff", "i32 i32 i32 i32"),
        ("proc_raise", "i32"),
        ("random_get", "i32 i32"),
        ("sched_yield", ""),
        ("sock_accept", "i32 i32 i32"),
        ("sock_recv", "i32 i32 i32 i32 i32 i32"),
        ("sock_send", "i32 i32 i32 i32 i32"),
        ("sock_shutdown", "i32 i32"),
    ];
    let imports: String = types
        .iter()
        .map(|(name, params)| {
            format!("(import \"wasi_snapshot_preview1\" \"{name}\" (func (param {params}) (result i32)))\n")
        })
        .collect();
    let exit = r#"(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))"#;
    start(&format!("(module {imports} {exit})")).unwrap();
}
