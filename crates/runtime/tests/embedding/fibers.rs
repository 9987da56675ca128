//! Guests on a stack that is not the thread's own, as hosts with fibers have them.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};

use legato::{Caller, Compilation, Compiled, Config, Engine, Func, Instance, Module, Result, Store, Trap};

use crate::{engines, instance};

const STACK: usize = 4 << 20;

type Task = Box<dyn FnOnce()>;

thread_local! {
    static TASK: RefCell<Option<Task>> = const { RefCell::new(None) };
}

extern "C" fn begin() {
    let task = TASK.with(|task| task.borrow_mut().take());
    task.expect("a task")();
}

/// Runs `task` on this stack, to its end. It must not panic.
fn on_fiber(stack: &mut [u8], task: impl FnOnce() + 'static) {
    TASK.with(|place| *place.borrow_mut() = Some(Box::new(task)));
    let (mut here, mut there) = (MaybeUninit::<libc::ucontext_t>::zeroed(), MaybeUninit::zeroed());
    // SAFETY: both contexts and the stack live until `begin` has returned, which leads back here.
    unsafe {
        assert_eq!(libc::getcontext(there.as_mut_ptr()), 0);
        let there: &mut libc::ucontext_t = there.assume_init_mut();
        (there.uc_stack.ss_sp, there.uc_stack.ss_size) = (stack.as_mut_ptr().cast(), stack.len());
        there.uc_link = here.as_mut_ptr();
        libc::makecontext(there, begin, 0);
        assert_eq!(libc::swapcontext(here.as_mut_ptr(), there), 0);
    }
}

const GUEST: &str = r#"(module
    (import "host" "collect" (func $collect))
    (type $list (struct (field (ref null $list)) (field i32)))
    (tag $thrown (param i32))
    (func $deep (export "deep") (param $n i32) (result i32) (local $kept (ref $list))
        (local.set $kept (struct.new $list (ref.null $list) (local.get $n)))
        (if (i32.eqz (local.get $n)) (then (call $collect) (return (i32.const 0))))
        (i32.add (call $deep (i32.sub (local.get $n) (i32.const 1))) (struct.get $list 1 (local.get $kept))))
    (func $throw (param i32) (throw $thrown (local.get 0)))
    (func (export "catch") (result i32)
        (block $caught (result i32)
            (try_table (catch $thrown $caught) (call $throw (i32.const 42)))
            (i32.const 0)))
    (func $forever (export "forever") (result i32) (i32.add (i32.const 1) (call $forever)))
    (func (export "null") (result i32) (struct.get $list 1 (ref.null $list))))"#;

/// What a guest did on a stack.
#[derive(Debug, PartialEq)]
struct Seen {
    deep: Option<i32>,
    caught: Option<i32>,
    forever: Option<Trap>,
    null: Option<Trap>,
    deep_again: Option<i32>,
}

fn run(store: &mut Store<()>, instance: Instance) -> Seen {
    let deep = |store: &mut Store<()>| {
        let deep = instance.get_typed_func::<i32, i32>(&mut *store, "deep").ok()?;
        deep.call(store, 500).ok()
    };
    let call = |store: &mut Store<()>, name| {
        let func = instance.get_typed_func::<(), i32>(&mut *store, name)?;
        func.call(store, ())
    };
    let trap = |result: Result<i32>| result.err().and_then(|error| error.downcast_ref().copied());
    Seen {
        deep: deep(store),
        caught: call(store, "catch").ok(),
        forever: trap(call(store, "forever")),
        null: trap(call(store, "null")),
        deep_again: deep(store),
    }
}

#[test]
fn guests_run_on_other_stacks_than_the_threads() -> Result<()> {
    for engine in engines() {
        let mut store = Store::new(&engine, ());
        let collect = Func::wrap(&mut store, |mut caller: Caller<'_, ()>| caller.gc());
        let module = Module::new(&engine, GUEST)?;
        let instance = Instance::new(&mut store, &module, &[collect.into()])?;
        let expected = Seen {
            deep: Some(125_250),
            caught: Some(42),
            forever: Some(Trap::StackOverflow),
            null: Some(Trap::NullReference),
            deep_again: Some(125_250),
        };
        assert_eq!(run(&mut store, instance), expected);
        let (sender, receiver) = mpsc::channel();
        on_fiber(&mut vec![0; STACK], move || {
            let seen = run(&mut store, instance);
            // The fiber must not panic, and the receiver is there.
            let _ = sender.send((seen, store));
        });
        let (seen, mut store) = receiver.recv()?;
        assert_eq!(seen, expected, "on a fiber");
        // And back on the thread's own.
        assert_eq!(run(&mut store, instance), expected);
    }
    Ok(())
}

/// A new stack at higher addresses than the caller's.
fn stack_above() -> &'static mut [u8] {
    let frame = 0;
    let frame = (&raw const frame) as usize;
    for distance in (1..4096).map(|step| step * STACK) {
        let hint = (frame + distance) & !(STACK - 1);
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, where nothing is.
        let mapped = unsafe { libc::mmap(hint as *mut _, STACK, protection, flags, -1, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        if mapped as usize > frame {
            // SAFETY: just mapped, for good.
            return unsafe { std::slice::from_raw_parts_mut(mapped.cast(), STACK) };
        }
        // SAFETY: just mapped, and nobody knows it.
        assert_eq!(unsafe { libc::munmap(mapped, STACK) }, 0);
    }
    panic!("no addresses are free above this stack");
}

#[test]
fn nothing_is_compiled_on_a_stack_of_unknown_length() -> Result<()> {
    // By its distance from the thread's, such a stack seems to be as long as one likes.
    let stack = stack_above();
    let range = stack.as_ptr_range();
    let range = range.start as usize..range.end as usize;
    let (all, on_stack) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let observer = {
        let (all, on_stack) = (all.clone(), on_stack.clone());
        move |_: &Compiled<'_>| {
            let here = 0;
            all.fetch_add(1, Relaxed);
            on_stack.fetch_add(range.contains(&(&raw const here as usize)).into(), Relaxed);
        }
    };
    let mut config = Config::new();
    config.compilation(Compilation::Lazy).parallel_compilation(false).compile_observer(Arc::new(observer));
    let text = r#"(module (func $one (result i32) (i32.const 1))
        (func (export "two") (result i32) (i32.add (call $one) (i32.const 1))))"#;
    let (mut store, instance) = instance(&Engine::new(&config)?, (), text)?;
    let (sender, receiver) = mpsc::channel();
    on_fiber(stack, move || {
        let two = instance.get_typed_func::<(), i32>(&mut store, "two");
        let _ = sender.send(two.and_then(|two| two.call(&mut store, ())));
    });
    assert_eq!(receiver.recv()??, 2);
    assert!(all.load(Relaxed) >= 2);
    assert_eq!(on_stack.load(Relaxed), 0);
    Ok(())
}

#[test]
fn calls_of_one_store_lie_on_one_stack() -> Result<()> {
    let engine = &engines()[0];
    let mut store = Store::new(engine, None::<Instance>);
    let switch = Func::wrap(&mut store, |mut caller: Caller<'_, Option<Instance>>| -> Result<i32> {
        let instance = caller.data().unwrap();
        let one = instance.get_typed_func::<(), i32>(&mut caller, "one")?;
        let result = Arc::new(std::sync::Mutex::new(None));
        let (caller, told) = (&raw mut caller as usize, result.clone());
        on_fiber(&mut vec![0; STACK], move || {
            // SAFETY: whoever runs this waits for its end meanwhile.
            let caller = unsafe { &mut *(caller as *mut Caller<'_, Option<Instance>>) };
            *told.lock().unwrap() = Some(one.call(caller, ()));
        });
        let result = result.lock().unwrap().take();
        result.unwrap()
    });
    let text = r#"(module (import "host" "switch" (func $switch (result i32)))
        (func (export "one") (result i32) (i32.const 1))
        (func (export "run") (result i32) (call $switch)))"#;
    let module = Module::new(engine, text)?;
    let instance = Instance::new(&mut store, &module, &[switch.into()])?;
    *store.data_mut() = Some(instance);
    let run = instance.get_typed_func::<(), i32>(&mut store, "run")?;
    for _ in 0..2 {
        let error = run.call(&mut store, ()).unwrap_err();
        assert!(format!("{error:#}").contains("under way on another stack"), "{error:#}");
    }
    assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "one")?.call(&mut store, ())?, 1);
    Ok(())
}
