//! Guests on a stack that is not the thread's own, as hosts with fibers have them.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use std::cell::RefCell;
use std::mem::MaybeUninit;

use legato::{Caller, Func, Instance, Module, Result, Store, Trap};

use crate::engines;

const STACK: usize = 4 << 20;

type Task = Box<dyn FnOnce()>;

thread_local! {
    static TASK: RefCell<Option<Task>> = const { RefCell::new(None) };
}

extern "C" fn begin() {
    let task = TASK.with(|task| task.borrow_mut().take());
    task.expect("a task")();
}

/// Runs `task` on a stack of its own, to its end. It must not panic.
fn on_fiber(task: impl FnOnce() + 'static) {
    TASK.with(|place| *place.borrow_mut() = Some(Box::new(task)));
    let mut stack = vec![0_u8; STACK];
    let (mut here, mut there) = (MaybeUninit::<libc::ucontext_t>::zeroed(), MaybeUninit::zeroed());
    // SAFETY: both contexts and the stack live until `begin` has returned, which leads back here.
    unsafe {
        assert_eq!(libc::getcontext(there.as_mut_ptr()), 0);
        let there: &mut libc::ucontext_t = there.assume_init_mut();
        (there.uc_stack.ss_sp, there.uc_stack.ss_size) = (stack.as_mut_ptr().cast(), STACK);
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
        let (sender, receiver) = std::sync::mpsc::channel();
        on_fiber(move || {
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
