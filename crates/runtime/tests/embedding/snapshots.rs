//! Deep stacks while a snapshot is marked: the collector of tests visits frames in steps, and checks at the end of each
//! cycle that nothing was lost, however control has come back to the frames that were still to be visited.

use legato::{AsContextMut, Caller, Config, Engine, ExternRef, Func, Instance, Module, RootScope, Store, Trap, Val};
use legato_test_matrix::pairs;

/// Each call of `gc` ends a cycle and begins the next: on the way up from deep frames, at every so many-th of them.
const PROGRAM: &str = r#"(module
  (type $s (struct (field $n i32)))
  (import "host" "gc" (func $gc))
  (import "host" "call" (func $host (param i32) (result i32)))
  (tag $e)
  (global $every (export "every") (mut i32) (i32.const 1))
  (global $kept (mut (ref null $s)) (ref.null $s))
  (global $thrown (mut exnref) (ref.null exn))
  ;; An object of which the compiler knows nothing: it inlines no function that calls itself.
  (func $make (param $n i32) (result (ref $s))
    (if (i32.lt_s (local.get $n) (i32.const 0)) (then (return (call $make (i32.const 0)))))
    (struct.new $s (local.get $n)))
  ;; A frame with this object runs again.
  (func $again (param $s (ref null $s)) (param $n i32)
    (if (i32.eqz (i32.rem_u (local.get $n) (global.get $every))) (then
      (call $gc)
      ;; Where no frame keeps it any more.
      (global.set $kept (local.get $s))))
    (if (i32.ne (struct.get $s $n (local.get $s)) (local.get $n)) (then (unreachable))))

  ;; Writes over frames that are gone.
  (func $overwrite (param $depth i32) (param $s (ref null $s)) (result i32)
    (if (i32.eqz (local.get $depth)) (then (return (i32.const 0))))
    (i32.add (call $overwrite (i32.sub (local.get $depth) (i32.const 1)) (local.get $s))
      (struct.get $s $n (local.get $s))))

  (func $down (export "down") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (call $gc) (return (i32.const 0))))
    (local.set $r (call $down (i32.sub (local.get $depth) (i32.const 1))))
    (call $again (local.get $s) (local.get $depth))
    (i32.add (local.get $r) (i32.const 1)))

  ;; An exception from the bottom, caught at every 300th frame and thrown on.
  (func $throwing (export "throwing") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then
      ;; An allocation would end the cycle.
      (global.set $thrown (block $made (result exnref) (try_table (catch_all_ref $made) (throw $e)) (unreachable)))
      (call $gc)
      (throw_ref (global.get $thrown))))
    (if (i32.rem_u (local.get $depth) (i32.const 300)) (then
      (local.set $r (call $throwing (i32.sub (local.get $depth) (i32.const 1))))
      (call $again (local.get $s) (local.get $depth))
      (return (local.get $r))))
    (block $caught
      (try_table (catch $e $caught) (drop (call $throwing (i32.sub (local.get $depth) (i32.const 1)))))
      (unreachable))
    (drop (call $overwrite (i32.const 1000) (local.get $s)))
    (call $gc)
    (call $again (local.get $s) (local.get $depth))
    (if (i32.eq (local.get $depth) (i32.const 900)) (then (return (i32.const 900))))
    (throw_ref (global.get $thrown)))

  ;; Tail calls with arguments on the stack, deep below.
  (func $tail (param $n i32) (param i64 i64 i64 i64 i64 i64 i64 i64) (param $s (ref null $s)) (result i32)
    (call $again (local.get $s) (local.get $n))
    (if (i32.eqz (local.get $n)) (then (return_call $host (i32.const -1))))
    (return_call $other (i32.sub (local.get $n) (i32.const 1)) (struct.new $s (i32.sub (local.get $n) (i32.const 1)))))
  (func $other (param $n i32) (param $s (ref null $s)) (result i32)
    (call $again (local.get $s) (local.get $n))
    (if (i32.eqz (local.get $n)) (then (return_call $host (i32.const -1))))
    (return_call $tail (i32.sub (local.get $n) (i32.const 1)) (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4)
      (i64.const 5) (i64.const 6) (i64.const 7) (i64.const 8) (struct.new $s (i32.sub (local.get $n) (i32.const 1)))))
  (func $tails (export "tails") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (call $gc) (return (call $other (i32.const 20) (struct.new $s (i32.const 20))))))
    (local.set $r (call $tails (i32.sub (local.get $depth) (i32.const 1))))
    (if (i32.eqz (i32.rem_u (local.get $depth) (i32.const 64)))
      (then (drop (call $other (i32.const 21) (struct.new $s (i32.const 21))))))
    (call $again (local.get $s) (local.get $depth))
    (i32.add (local.get $r) (i32.const 1)))

  ;; Every frame is one of an activation of its own.
  (func $nested (export "nested") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (call $gc) (return (i32.const 0))))
    (local.set $r (call $host (i32.sub (local.get $depth) (i32.const 1))))
    (call $again (local.get $s) (local.get $depth))
    (i32.add (local.get $r) (i32.const 1)))

  ;; The host takes the trap of a deep activation, deep below others.
  (func $trap (export "trap") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (call $gc) (unreachable)))
    (local.set $r (call $trap (i32.sub (local.get $depth) (i32.const 1))))
    (call $again (local.get $s) (local.get $depth))
    (local.get $r))
  (func $trapped (export "trapped") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (return (call $host (i32.const -2)))))
    (local.set $r (call $trapped (i32.sub (local.get $depth) (i32.const 1))))
    (call $again (local.get $s) (local.get $depth))
    (i32.add (local.get $r) (i32.const 1))))"#;

/// Calls an export of the program on heaps that mark snapshots.
fn on_snapshots(export: &str, argument: i32, expected: i32) {
    for heap in pairs(&["references"], &["collector=snapshot", "collector=snapshot,stress=501,stress-polls=on"]) {
        let mut config = Config::new();
        let engine = Engine::new(config.max_wasm_stack(4 << 20).compiler_verifier(true).heap(heap.heap())).unwrap();
        let mut store = Store::new(&engine, ());
        let gc = Func::wrap(&mut store, |mut caller: Caller<'_, ()>| caller.gc());
        let host = Func::wrap(&mut store, |mut caller: Caller<'_, ()>, depth: i32| -> anyhow::Result<i32> {
            let mut call = |name: &str, argument: i32| {
                let function = caller.get_export(name).unwrap().into_func().unwrap();
                function.typed::<i32, i32>(&caller).unwrap().call(&mut caller, argument)
            };
            match depth {
                -1 => call("down", 200),
                -2 => {
                    let error = call("trap", 300).unwrap_err();
                    assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::UnreachableCodeReached), "{error:?}");
                    Ok(0)
                }
                depth => call("nested", depth),
            }
        });
        let module = Module::new(&engine, PROGRAM).unwrap();
        let instance = Instance::new(&mut store, &module, &[gc.into(), host.into()]).unwrap();
        let run = instance.get_typed_func::<i32, i32>(&mut store, export).unwrap();
        let every = instance.get_global(&mut store, "every").unwrap();
        for period in [1_000_000, 199, 70, 7] {
            every.set(&mut store, Val::I32(period)).unwrap();
            let result = run.call(&mut store, argument).unwrap_or_else(|error| panic!("{heap}: {error:?}"));
            assert_eq!(result, expected, "{heap}");
            store.gc();
        }
    }
}

#[test]
fn frames_are_visited_before_control_returns_to_them() {
    on_snapshots("down", 1000, 1000);
}

#[test]
fn frames_are_visited_before_they_catch_an_exception() {
    on_snapshots("throwing", 900, 900);
}

#[test]
fn tail_calls_take_the_barrier_along() {
    on_snapshots("tails", 400, 600);
}

#[test]
fn frames_are_visited_before_the_host_returns_to_them() {
    on_snapshots("nested", 300, 300);
}

#[test]
fn frames_are_visited_after_a_trap_of_others() {
    on_snapshots("trapped", 300, 300);
}

#[test]
fn roots_of_the_host_are_visited_though_it_drops_them() {
    for heap in pairs(&["references"], &["collector=snapshot"]) {
        let engine = Engine::new(Config::new().heap(heap.heap())).unwrap();
        let mut store = Store::new(&engine, ());
        let mut owned = Vec::new();
        for round in 0..3 {
            let before = owned.len();
            let mut scope = RootScope::new(&mut store);
            for index in 0..1000 {
                let object = ExternRef::new(&mut scope, index).unwrap();
                if index % 2 == round % 2 {
                    owned.push(object.to_owned_rooted(&mut scope).unwrap());
                }
            }
            // A cycle begins. What host code lets go while it is under way was there when it began.
            scope.as_context_mut().gc();
            owned.drain(..before / 2);
            drop(scope);
            let object = ExternRef::new(&mut store, 1000).unwrap();
            store.gc();
            assert!(object.data(&store).unwrap().is_some());
            store.gc();
            let expected = owned.len() + round + 1;
            assert_eq!(store.heap_stats().externals, expected as u64, "{heap}");
        }
    }
}
