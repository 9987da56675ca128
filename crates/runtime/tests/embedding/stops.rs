//! Traps, interruption, deadlines, stack overflow.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use legato::{
    Caller, Config, Engine, ExternRef, FrameInfo, Func, Instance, Linker, Module, Result, Store, Trap, WasmBacktrace,
};

use crate::{engine, engines, instance};

fn trap(error: &legato::Error) -> Trap {
    *error.downcast_ref::<Trap>().unwrap_or_else(|| panic!("no trap: {error:?}"))
}

#[test]
fn every_trap_has_its_message() -> Result<()> {
    for engine in engines() {
        // Each is named by its message and, behind a colon, what tells it from others.
        let (mut store, instance) = instance(
            &engine,
            (),
            r#"(module
                (type $array (array (mut i32)))
                (type $struct (struct (field i32)))
                (type $unary (func (param i32) (result i32)))
                (memory 1)
                (table 3 funcref) (elem (i32.const 1) $other)
                (func $other)
                (func (export "unreachable") (unreachable))
                (func (export "integer divide by zero") (drop (i32.div_s (i32.const 1) (i32.const 0))))
                (func (export "integer overflow") (drop (i64.div_s (i64.const 0x8000000000000000) (i64.const -1))))
                (func (export "invalid conversion to integer") (drop (i32.trunc_f32_s (f32.const nan))))
                (func (export "out of bounds memory access: load")
                    (drop (i32.load offset=4 (i32.const 65528)))
                    (drop (i32.load offset=4 (i32.const 65529))))
                (func (export "out of bounds memory access: the sum passes 32 bits")
                    (drop (i32.load offset=4 (i32.const -1))))
                (func (export "out of bounds memory access: store") (i64.store (i32.const 65529) (i64.const 1)))
                (func (export "out of bounds table access")
                    (drop (call_indirect (type $unary) (i32.const 1) (i32.const 3))))
                (func (export "indirect call type mismatch")
                    (drop (call_indirect (type $unary) (i32.const 1) (i32.const 1))))
                (func (export "uninitialized element")
                    (drop (call_indirect (type $unary) (i32.const 1) (i32.const 2))))
                (func (export "out of bounds array access")
                    (drop (array.get $array (array.new_default $array (i32.const 1)) (i32.const 1))))
                (func (export "null reference: field") (drop (struct.get $struct 0 (ref.null $struct))))
                (func (export "null reference: length") (drop (array.len (ref.null $array))))
                (func (export "cast failure: i31") (drop (ref.cast (ref $struct) (ref.i31 (i32.const 1)))))
                (func (export "cast failure: array")
                    (drop (ref.cast (ref $struct) (array.new_default $array (i32.const 1))))))"#,
        )?;
        let names: Vec<String> = instance.exports(&mut store).map(|export| export.name().to_string()).collect();
        // After a trap, a store goes on.
        for name in names.iter().chain(&names) {
            let func = instance.get_typed_func::<(), ()>(&mut store, name)?;
            let error = func.call(&mut store, ()).unwrap_err();
            let message = name.split(':').next().unwrap();
            assert!(trap(&error).to_string().contains(message), "{name}: {error:?}");
            assert_eq!(error.downcast_ref::<WasmBacktrace>().unwrap().frames().len(), 1);
        }
    }
    Ok(())
}

#[test]
fn a_backtrace_names_functions_and_instructions() -> Result<()> {
    const DIV_S: u8 = 0x6d;
    let wasm = wat::parse_str(
        r#"(module $traps
            (func $inner (param i32) (result i32) (i32.div_s (i32.const 7) (local.get 0)))
            (func $outer (export "outer") (param i32) (result i32) (i32.add (call $inner (local.get 0)) (i32.const 1))))"#,
    )?;
    // The optimiser puts one into the other.
    for optimize in [false, true] {
        let engine = Engine::new(Config::new().optimize(optimize))?;
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &Module::new(&engine, &wasm)?, &[])?;
        let outer = instance.get_typed_func::<i32, i32>(&mut store, "outer")?;
        assert_eq!(outer.call(&mut store, 7)?, 2);
        let error = outer.call(&mut store, 0).unwrap_err();
        assert_eq!(trap(&error), Trap::IntegerDivisionByZero);
        let frames = error.downcast_ref::<WasmBacktrace>().unwrap().frames();
        assert_eq!(frames.iter().map(FrameInfo::func_name).collect::<Vec<_>>(), [Some("inner"), Some("outer")]);
        assert!(frames.iter().all(|frame| frame.module_name() == Some("traps")));
        assert_eq!(wasm[frames[0].module_offset().unwrap()], DIV_S);
    }
    Ok(())
}

/// Sums elements of a sparse array until it traps.
const WALK: &str = r#"(module
    (type $a (array (mut i32)))
    (func $walk (param $x (ref $a)) (param $i i32) (result i32) (local $sum i32)
        (loop $l
            (local.set $sum (i32.add (local.get $sum) (array.get $a (local.get $x) (local.get $i))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.ne (local.get $i) (i32.const 0))))
        (local.get $sum))
    (func $outer (export "outer") (param $length i32) (result i32)
        (i32.add (i32.const 1) (call $walk (array.new_default $a (local.get $length)) (i32.const 0)))))"#;

#[test]
fn a_trap_in_a_loop_has_the_same_frames_where_elements_lie_in_leaves() -> Result<()> {
    let frames = |arrays: &'static str| -> Result<Vec<_>> {
        let engine = engine(&crate::heaps()[0], arrays);
        let (mut store, instance) = instance(&engine, (), WALK)?;
        let func = instance.get_typed_func::<i32, i32>(&mut store, "outer")?;
        let error = func.call(&mut store, 100_000).unwrap_err();
        assert_eq!(trap(&error), Trap::ArrayOutOfBounds);
        let backtrace = error.downcast_ref::<WasmBacktrace>().unwrap();
        let frame = |frame: &FrameInfo| (frame.func_name().map(str::to_owned), frame.module_offset());
        Ok(backtrace.frames().iter().map(frame).collect())
    };
    let (expected, found) = (frames("contiguous")?, frames("zrays")?);
    assert_eq!(expected.len(), 2);
    assert_eq!(found, expected);
    Ok(())
}

const ENDLESS: &str = r#"(module
    (global $g (mut i32) (i32.const 0))
    (func $spin (export "loop")
        (loop $again (global.set $g (i32.add (global.get $g) (i32.const 1))) (br $again)))
    (func $empty (export "empty") (loop $again (br $again)))
    (func $calls (export "calls") (loop $again (call $leaf) (call $leaf) (br $again)))
    (func $tail (export "tail") (return_call $tail))
    (func $leaf)
    (func (export "recursion") (loop $again (drop (call $deep (i32.const 100))) (br $again)))
    (func (export "fine") (result i32) (i32.const 1))
    (func $deep (export "deep") (param i32) (result i32)
        (if (result i32) (local.get 0)
            (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get 0) (i32.const 1)))))
            (else (i32.const 0))))
    (func $forever (export "forever") (result i32) (i32.add (i32.const 1) (call $forever)))
    (func $mutual (export "mutual") (param i64 i64 f64) (result i64)
        (i64.add (local.get 0) (call $mutual (local.get 1) (local.get 0) (local.get 2)))))"#;

#[test]
fn another_thread_interrupts() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(&engine, (), ENDLESS)?;
        for name in ["loop", "empty", "calls", "tail", "recursion"] {
            let func = instance.get_typed_func::<(), ()>(&mut store, name)?;
            let handle = store.interrupt_handle();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                handle.interrupt();
            });
            let error = func.call(&mut store, ()).unwrap_err();
            assert_eq!(trap(&error), Trap::Interrupt, "{name}");
            thread.join().unwrap();
            let fine = instance.get_typed_func::<(), i32>(&mut store, "fine")?;
            assert_eq!(fine.call(&mut store, ())?, 1, "the interruption is answered once");
        }
        let handle = store.interrupt_handle();
        drop(store);
        handle.interrupt();
    }
    Ok(())
}

#[test]
fn what_is_interrupted_before_it_begins_does_not_run() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(&engine, (), ENDLESS)?;
        // Neither a loop nor a frame that would ask.
        let fine = instance.get_typed_func::<(), i32>(&mut store, "fine")?;
        let handle = store.interrupt_handle();
        handle.interrupt();
        assert_eq!(trap(&fine.call(&mut store, ()).unwrap_err()), Trap::Interrupt);
        assert!(!handle.is_requested());
        assert_eq!(fine.call(&mut store, ())?, 1, "the interruption is answered once");
        handle.interrupt();
        handle.clear();
        assert_eq!(fine.call(&mut store, ())?, 1);
    }
    Ok(())
}

#[test]
fn deadlines_pass_or_are_cancelled() -> Result<()> {
    let engine = &engines()[0];
    let (mut store, instance) = instance(engine, (), ENDLESS)?;
    let spin = instance.get_typed_func::<(), ()>(&mut store, "loop")?;
    let start = Instant::now();
    let deadline = store.set_deadline(Duration::from_millis(30));
    assert_eq!(trap(&spin.call(&mut store, ()).unwrap_err()), Trap::Interrupt);
    assert!(start.elapsed() >= Duration::from_millis(30));
    drop(deadline);
    drop(store.set_deadline(Duration::from_millis(10)));
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "fine")?.call(&mut store, ())?, 1);
    let deep = instance.get_typed_func::<i32, i32>(&mut store, "deep")?;
    // One that passes behind the call that it was for does not stop the next one; what somebody else asks for does.
    for is_interrupted in [false, true] {
        let deadline = store.set_deadline(Duration::ZERO);
        while !store.interrupt_handle().is_requested() {
            std::thread::yield_now();
        }
        if is_interrupted {
            store.interrupt_handle().interrupt();
        }
        drop(deadline);
        let called = deep.call(&mut store, 10).map_err(|error| trap(&error));
        assert_eq!(called, if is_interrupted { Err(Trap::Interrupt) } else { Ok(10) });
    }
    Ok(())
}

#[test]
fn deep_recursion_is_a_trap() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(&engine, (), ENDLESS)?;
        let deep = instance.get_typed_func::<i32, i32>(&mut store, "deep")?;
        assert_eq!(deep.call(&mut store, 1000)?, 1000);
        assert_eq!(trap(&deep.call(&mut store, 100_000_000).unwrap_err()), Trap::StackOverflow);
        let forever = instance.get_typed_func::<(), i32>(&mut store, "forever")?;
        let error = forever.call(&mut store, ()).unwrap_err();
        assert_eq!(trap(&error), Trap::StackOverflow);
        let frames = error.downcast_ref::<WasmBacktrace>().unwrap().frames();
        assert_eq!(frames.len(), 256, "the innermost alone");
        assert!(frames.iter().all(|frame| frame.func_name() == Some("forever")));
        let mutual = instance.get_typed_func::<(i64, i64, f64), i64>(&mut store, "mutual")?;
        assert_eq!(trap(&mutual.call(&mut store, (1, 2, 3.0)).unwrap_err()), Trap::StackOverflow);
        assert_eq!(deep.call(&mut store, 1000)?, 1000);
    }
    Ok(())
}

#[test]
fn recursion_through_the_host_is_a_trap() -> Result<()> {
    for engine in engines() {
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "again", |mut caller: Caller<'_, ()>| -> Result<()> {
            let run = caller.get_export("run").unwrap().into_func().unwrap();
            run.call(&mut caller, &[], &mut [])
        })?;
        let module =
            Module::new(&engine, r#"(module (import "h" "again" (func $again)) (func (export "run") (call $again)))"#)?;
        let mut store = Store::new(&engine, ());
        let instance = linker.instantiate(&mut store, &module)?;
        let run = instance.get_typed_func::<(), ()>(&mut store, "run")?;
        assert_eq!(trap(&run.call(&mut store, ()).unwrap_err()), Trap::StackOverflow);
        assert_eq!(trap(&run.call(&mut store, ()).unwrap_err()), Trap::StackOverflow);
    }
    Ok(())
}

#[test]
fn the_stack_limit_is_the_configured_one() -> Result<()> {
    let depth = |bytes: usize| -> Result<i32> {
        let mut config = Config::new();
        config.max_wasm_stack(bytes);
        let engine = Engine::new(&config)?;
        let (mut store, instance) = instance(&engine, (), ENDLESS)?;
        let deep = instance.get_typed_func::<i32, i32>(&mut store, "deep")?;
        let (mut low, mut high) = (1, 1_000_000);
        while high - low > 100 {
            let middle = (low + high) / 2;
            if deep.call(&mut store, middle).is_ok() { low = middle } else { high = middle }
        }
        Ok(low)
    };
    let (small, large) = (depth(64 << 10)?, depth(256 << 10)?);
    assert!(large > 3 * small && large < 6 * small, "{small} and {large}");
    Ok(())
}

#[test]
fn stores_move_between_threads() -> Result<()> {
    for engine in engines() {
        let (mut store, instance) = instance(&engine, (), ENDLESS)?;
        for _ in 0..3 {
            let moved = std::thread::spawn(move || {
                let deep = instance.get_typed_func::<i32, i32>(&mut store, "deep").unwrap();
                assert_eq!(deep.call(&mut store, 500).unwrap(), 500);
                assert_eq!(trap(&deep.call(&mut store, 100_000_000).unwrap_err()), Trap::StackOverflow);
                store
            });
            store = moved.join().unwrap();
        }
    }
    Ok(())
}

#[test]
fn many_threads_overflow_the_stack_and_end() -> Result<()> {
    let engine = Engine::default();
    let module = Module::new(&engine, ENDLESS)?;
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut store = Store::new(&engine, ());
                    let instance = Instance::new(&mut store, &module, &[]).unwrap();
                    let forever = instance.get_typed_func::<(), i32>(&mut store, "forever").unwrap();
                    assert_eq!(trap(&forever.call(&mut store, ()).unwrap_err()), Trap::StackOverflow);
                });
            }
        });
    }
    Ok(())
}

/// The module's `run` calls the host function that is given.
fn calling(engine: &Engine, host: impl Fn(Caller<'_, ()>) -> Result<()> + Send + Sync + 'static) -> Result<()> {
    let module = Module::new(
        engine,
        r#"(module (import "h" "call" (func $call))
            (func $forever (export "forever") (result i32) (i32.add (i32.const 1) (call $forever)))
            (func (export "run") (call $call)))"#,
    )?;
    let mut store = Store::new(engine, ());
    let host = Func::wrap(&mut store, host);
    let instance = Instance::new(&mut store, &module, &[host.into()])?;
    instance.get_typed_func::<(), ()>(&mut store, "run")?.call(&mut store, ())
}

/// Where the system gives less stack than it said there was, compiled code faults before it comes to its limit.
#[test]
fn a_stack_that_ends_early_is_a_trap_on_every_thread() {
    const PAGE: usize = 64 << 10;
    let run = || {
        calling(&Engine::default(), |mut caller| {
            let here = 0u8;
            let page = ((&raw const here as usize - (256 << 10)) & !(PAGE - 1)) as *mut libc::c_void;
            let forever = caller.get_export("forever").unwrap().into_func().unwrap().typed::<(), i32>(&caller)?;
            // SAFETY: memory of this thread's stack that nothing has come to yet, and nothing but `forever` comes to.
            assert_eq!(unsafe { libc::mprotect(page, PAGE, libc::PROT_NONE) }, 0);
            let result = forever.call(&mut caller, ());
            // SAFETY: the same memory, accessible as before.
            assert_eq!(unsafe { libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE) }, 0);
            assert_eq!(trap(&result.unwrap_err()), Trap::StackOverflow);
            // Once more, to the limit.
            assert_eq!(trap(&forever.call(&mut caller, ()).unwrap_err()), Trap::StackOverflow);
            Ok(())
        })
        .unwrap();
    };
    std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(run)));
}

/// Set in the process that is to die.
const DIE: &str = "LEGATO_TEST_HOST_FAULT";

#[test]
fn a_fault_of_the_host_still_kills_the_process() -> Result<()> {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os(DIE).is_some() {
        return calling(&Engine::default(), |_| {
            // SAFETY: none: the process is to die of it.
            unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(0) };
            Ok(())
        });
    }
    let mut child = std::process::Command::new(std::env::current_exe()?);
    child.args(["--exact", "stops::a_fault_of_the_host_still_kills_the_process"]).env(DIE, "1");
    let output = child.output()?;
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
    Ok(())
}

#[test]
fn polls_under_stress_collect_and_still_interrupt() -> Result<()> {
    for heap in crate::heaps() {
        let engine = engine(&heap, "stress=10,stress-polls=on");
        let (mut store, instance) = instance(&engine, (), ENDLESS)?;
        // Without an object there is nothing to collect.
        ExternRef::new(&mut store, 0)?;
        let spin = instance.get_typed_func::<(), ()>(&mut store, "empty")?;
        for _ in 0..2 {
            let before = store.heap_stats().collections;
            let _deadline = store.set_deadline(Duration::from_millis(30));
            assert_eq!(trap(&spin.call(&mut store, ()).unwrap_err()), Trap::Interrupt);
            assert!(store.heap_stats().collections > before);
        }
    }
    Ok(())
}

#[test]
fn what_threads_share_may_be_shared() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Engine>();
    shared::<Module>();
    shared::<Linker<()>>();
    shared::<legato::InstancePre<()>>();
    shared::<legato::InterruptHandle>();
    shared::<legato::Func>();
    shared::<legato::Rooted<legato::AnyRef>>();
    shared::<legato::OwnedRooted<legato::ExternRef>>();
    shared::<legato::TypedFunc<i32, i32>>();
    sent::<Store<std::cell::Cell<i32>>>();
    fn unwound<T: UnwindSafe + RefUnwindSafe>() {}
    unwound::<Engine>();
    unwound::<Module>();
}
