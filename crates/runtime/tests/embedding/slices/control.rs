//! How control moves while a cycle has frames still to visit: returns, exceptions, traps, interruptions, calls of the
//! host and from there. Values that frames alone hold, and that are moved elsewhere as soon as these frames run again,
//! live on.

use std::sync::Mutex;
use std::time::Duration;

use legato::{AnyRef, Caller, InterruptHandle, Result, Rooted, Trap};

use super::{Host, Program, collectors, in_slices, nothing};

/// Each function takes a number and a depth. At the depth, a cycle begins; what else happens there tells them apart.
/// Every 16th frame holds a value of its number, and puts it into the list when control comes back to it: so frames end
/// faster than slices would come to them.
const FUNCTIONS: &str = r#"
  (tag $e)
  (func $keeps (param $n i32) (result i32) (i32.eqz (i32.and (local.get $n) (i32.const 15))))
  (func $hold (param $value (ref null $v))
    (global.set $list (struct.new $node (local.get $value) (global.get $list))))
  (func $value (param $n i32) (result (ref null $v))
    (if (call $keeps (local.get $n)) (then (return (call $new (i32.shr_u (local.get $n) (i32.const 4))))))
    (ref.null $v))
  (func $return (export "return") (param $n i32) (param $depth i32) (local $value (ref null $v))
    (local.set $value (call $value (local.get $n)))
    (if (i32.eq (local.get $n) (local.get $depth))
      (then (call $align))
      (else (call $return (i32.add (local.get $n) (i32.const 1)) (local.get $depth))))
    (if (call $keeps (local.get $n)) (then (call $hold (local.get $value)))))
  (func $throw (export "throw") (param $n i32) (param $depth i32) (local $value (ref null $v))
    (local.set $value (call $value (local.get $n)))
    (if (i32.eq (local.get $n) (local.get $depth)) (then (call $align) (throw $e)))
    (if (i32.eqz (call $keeps (local.get $n)))
      (then (call $throw (i32.add (local.get $n) (i32.const 1)) (local.get $depth)) (return)))
    (block $caught
      (try_table (catch $e $caught) (call $throw (i32.add (local.get $n) (i32.const 1)) (local.get $depth)))
      (unreachable))
    (call $hold (local.get $value))
    (if (local.get $n) (then (throw $e))))
  ;; A number of the host's function, deep below: what it does is said there.
  (func $below (export "below") (param $n i32) (param $depth i32) (local $value (ref null $v))
    (local.set $value (call $value (local.get $n)))
    (if (i32.eq (local.get $n) (local.get $depth))
      (then (call $host (local.get $n) (local.get $value)))
      (else (call $below (i32.add (local.get $n) (i32.const 1)) (local.get $depth))))
    (if (call $keeps (local.get $n)) (then (call $hold (local.get $value)))))
  (func $trap (export "trap") (param $n i32) (param $depth i32) (local $value (ref null $v))
    (local.set $value (call $value (local.get $n)))
    (if (i32.eq (local.get $n) (local.get $depth)) (then (call $align) (unreachable)))
    (call $trap (i32.add (local.get $n) (i32.const 1)) (local.get $depth))
    (call $hold (local.get $value)))
  ;; Without an end: slices come at polls.
  (func $spin (export "spin") (param $n i32) (param $depth i32) (local $value (ref null $v))
    (local.set $value (call $value (local.get $n)))
    (if (i32.eq (local.get $n) (local.get $depth)) (then (call $align) (loop $on (br $on))))
    (call $spin (i32.add (local.get $n) (i32.const 1)) (local.get $depth))
    (call $hold (local.get $value)))
  ;; Every frame is one of an activation of its own.
  (func (export "nested") (param $n i32) (param $depth i32) (local $value (ref null $v))
    (local.set $value (call $value (local.get $n)))
    (if (i32.eq (local.get $n) (local.get $depth))
      (then (call $align))
      (else (call $host (i32.add (local.get $n) (i32.const 1)) (local.get $value))))
    (if (call $keeps (local.get $n)) (then (call $hold (local.get $value)))))"#;

/// Activations, one in the other.
const NESTED: i32 = 201;

/// Calls a function at different depths.
fn run(name: &str, depths: &[i32], host: Host) {
    run_with(name, depths, host, |_| ());
}

/// As [`run`], with something done before each call.
fn run_with(name: &str, depths: &[i32], host: Host, before: impl Fn(&Program)) {
    let polls = in_slices(&[]).into_iter().map(|row| row.with("stress-polls=on"));
    for row in collectors().into_iter().chain(polls) {
        let run = || -> Result<()> {
            let mut program = Program::with_list(&row, FUNCTIONS, host)?;
            let run = program.func::<(i32, i32), ()>(name)?;
            for &depth in depths {
                before(&program);
                run.call(&mut program.store, (0, depth))?;
                program.check_list(0, depth / 16 + 1)?;
            }
            Ok(())
        };
        run().unwrap_or_else(|error| panic!("{row}: {error:?}"));
    }
}

/// Calls a function of the guest from the host.
fn call(caller: &mut Caller<'_, ()>, name: &str, number: i32, depth: i32) -> Result<()> {
    let function = caller.get_export(name).unwrap().into_func().unwrap();
    function.typed::<(i32, i32), ()>(&*caller)?.call(caller, (number, depth))
}

#[test]
fn frames_that_are_returned_to() {
    run("return", &[2001, 101, 3001], nothing);
}

#[test]
fn frames_that_catch_an_exception() {
    run("throw", &[2001, 101, 3001], nothing);
}

#[test]
fn frames_below_a_trap() {
    run("below", &[2001, 101, 3001], |mut caller: Caller<'_, ()>, _, value: Option<Rooted<AnyRef>>| {
        let error = call(&mut caller, "trap", 1, 500).unwrap_err();
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::UnreachableCodeReached), "{error:?}");
        assert!(value.is_none_or(|value| value.is_struct(&caller).unwrap()));
        Ok(())
    });
}

#[test]
fn frames_below_an_interruption() {
    /// Of the store that runs.
    static HANDLE: Mutex<Option<InterruptHandle>> = Mutex::new(None);
    run_with("below", &[2001, 101], spin, |program| {
        *HANDLE.lock().unwrap() = Some(program.store.interrupt_handle());
    });
    fn spin(mut caller: Caller<'_, ()>, _: i32, _: Option<Rooted<AnyRef>>) -> Result<()> {
        let handle = HANDLE.lock().unwrap().take().unwrap();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            handle.interrupt();
        });
        let error = call(&mut caller, "spin", 1, 100).unwrap_err();
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::Interrupt), "{error:?}");
        thread.join().unwrap();
        Ok(())
    }
}

#[test]
fn frames_of_nested_calls_of_the_host() {
    run("nested", &[NESTED], |mut caller: Caller<'_, ()>, number, value: Option<Rooted<AnyRef>>| {
        call(&mut caller, "nested", number, NESTED)?;
        // What the host has been given is where it was.
        assert!(value.is_none_or(|value| value.is_struct(&caller).unwrap()));
        Ok(())
    });
}
