//! Deep stacks under nursery collections: frames that wait keep their references, however control comes back to them.

use legato::{Caller, Config, Engine, Func, Instance, Module, Store, Trap};
use legato_test_matrix::pairs;

const PROGRAM: &str = r#"(module
  (type $s (struct (field $n i32)))
  (type $many (func (param i32) (result i32 i64 f32 f64 (ref null $s) i64 f64 i32)))
  (import "host" "call" (func $host (param i32) (result i32)))
  (tag $e (param i32 (ref null $s)))
  (global $garbage (mut (ref null $s)) (ref.null $s))
  ;; Fills a small nursery.
  (func $churn (param $i i32)
    (loop $l (global.set $garbage (struct.new $s (local.get $i)))
      (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1))))))
  ;; An object of which the compiler knows nothing: it inlines no function that calls itself.
  (func $make (param $n i32) (result (ref $s))
    (if (i32.lt_s (local.get $n) (i32.const 0)) (then (return (call $make (i32.const 0)))))
    (struct.new $s (local.get $n)))
  (func $check (param $s (ref null $s)) (param $n i32)
    (if (i32.ne (struct.get $s $n (local.get $s)) (local.get $n)) (then (unreachable))))

  ;; Collects at every depth on the way down, once more at the bottom, and at every tenth frame on the way up.
  (func $down (export "down") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (call $churn (i32.const 20000)) (return (i32.const 0))))
    (if (i32.eqz (i32.rem_u (local.get $depth) (i32.const 100))) (then (call $churn (i32.const 5000))))
    (local.set $r (call $down (i32.sub (local.get $depth) (i32.const 1))))
    (if (i32.eqz (i32.rem_u (local.get $depth) (i32.const 50))) (then (call $churn (i32.const 5000))))
    (call $check (local.get $s) (local.get $depth))
    (i32.add (local.get $r) (i32.const 1)))

  ;; Results of every kind over returns that collections have touched.
  (func $many (type $many) (local $s (ref null $s)) (local $t (ref null $s)) (local $a i32) (local $b i64) (local $c f32) (local $d f64) (local $f i64) (local $g f64) (local $h i32)
    (local.set $s (call $make (local.get 0)))
    (if (i32.eqz (local.get 0)) (then
      (call $churn (i32.const 20000))
      (return (i32.const 0) (i64.const 0) (f32.const 0) (f64.const 0) (struct.new $s (i32.const 0)) (i64.const 0) (f64.const 0) (i32.const 0))))
    (call $many (i32.sub (local.get 0) (i32.const 1)))
    (local.set $h) (local.set $g) (local.set $f) (local.set $t) (local.set $d) (local.set $c) (local.set $b) (local.set $a)
    (call $check (local.get $t) (i32.sub (local.get 0) (i32.const 1)))
    (i32.add (local.get $a) (i32.const 1)) (i64.add (local.get $b) (i64.const 2)) (f32.add (local.get $c) (f32.const 3))
    (f64.add (local.get $d) (f64.const 4)) (local.get $s) (i64.add (local.get $f) (i64.const 5)) (f64.add (local.get $g) (f64.const 6))
    (i32.add (local.get $h) (i32.const 7)))
  (func (export "many") (param $n i32) (result i32)
    (local $s (ref null $s)) (local $a i32) (local $b i64) (local $c f32) (local $d f64) (local $f i64) (local $g f64) (local $h i32)
    (call $many (local.get $n))
    (local.set $h) (local.set $g) (local.set $f) (local.set $s) (local.set $d) (local.set $c) (local.set $b) (local.set $a)
    (call $check (local.get $s) (local.get $n))
    (local.get $a) (i32.wrap_i64 (local.get $b)) (i32.trunc_f32_s (local.get $c)) (i32.trunc_f64_s (local.get $d))
    (i32.wrap_i64 (local.get $f)) (i32.trunc_f64_s (local.get $g)) (local.get $h)
    (i32.add) (i32.add) (i32.add) (i32.add) (i32.add) (i32.add))

  ;; Exceptions from the bottom, caught at every 300th frame, twice, and thrown on: the frames of the second time lie where those of
  ;; the first have been.
  (func $throwing (export "throwing") (param $depth i32) (result i32)
    (local $s (ref null $s)) (local $r i32) (local $t (ref null $s)) (local $again i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (call $churn (i32.const 20000)) (throw $e (i32.const 0) (local.get $s))))
    (if (i32.rem_u (local.get $depth) (i32.const 300)) (then
      (local.set $r (call $throwing (i32.sub (local.get $depth) (i32.const 1))))
      (call $check (local.get $s) (local.get $depth))
      (return (local.get $r))))
    (loop $twice
      (block $caught (result i32 (ref null $s))
        (try_table (catch $e $caught) (drop (call $throwing (i32.sub (local.get $depth) (i32.const 1)))))
        (unreachable))
      (local.set $t) (local.set $r)
      (call $check (local.get $t) (local.get $r))
      (br_if $twice (local.tee $again (i32.eqz (local.get $again)))))
    (loop $twice
      (drop (call $down (i32.const 200)))
      (call $check (local.get $s) (local.get $depth))
      (br_if $twice (local.tee $again (i32.eqz (local.get $again)))))
    (throw $e (local.get $depth) (local.get $s)))
  (func (export "caught") (param $depth i32) (result i32)
    (block $caught (result i32 (ref null $s))
      (try_table (catch $e $caught) (drop (call $throwing (local.get $depth))))
      (unreachable))
    (drop))

  ;; Tail calls with arguments on the stack, deep below.
  (func $tail (param $n i32) (param i64 i64 i64 i64 i64 i64 i64 i64) (param $s (ref null $s)) (result i32)
    (call $churn (i32.const 500))
    (call $check (local.get $s) (local.get $n))
    (if (i32.eqz (local.get $n)) (then (return_call $host (i32.const 2))))
    (return_call $other (i32.sub (local.get $n) (i32.const 1)) (struct.new $s (i32.sub (local.get $n) (i32.const 1)))))
  (func $other (param $n i32) (param $s (ref null $s)) (result i32)
    (if (i32.eqz (local.get $n)) (then (return_call $host (i32.const 1))))
    (return_call $tail (i32.sub (local.get $n) (i32.const 1)) (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4)
      (i64.const 5) (i64.const 6) (i64.const 7) (i64.const 8) (struct.new $s (i32.sub (local.get $n) (i32.const 1)))))
  (func $tails (export "tails") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (return (call $other (i32.const 100) (local.get $s)))))
    (local.set $r (call $tails (i32.sub (local.get $depth) (i32.const 1))))
    (if (i32.eqz (i32.rem_u (local.get $depth) (i32.const 64)))
      (then (local.set $r (i32.add (local.get $r) (call $other (i32.const 101) (local.get $s))))))
    (call $check (local.get $s) (local.get $depth))
    (local.get $r))

  ;; The host, deep below, calls back.
  (func $nested (export "nested") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (return (i32.const 0))))
    (if (i32.rem_u (local.get $depth) (i32.const 250))
      (then (local.set $r (call $nested (i32.sub (local.get $depth) (i32.const 1)))))
      (else (local.set $r (call $host (local.get $depth)))))
    (call $check (local.get $s) (local.get $depth))
    (i32.add (local.get $r) (i32.const 1)))
  (func (export "trap") (param $depth i32) (result i32) (local $s (ref null $s))
    (call $churn (i32.const 5000))
    (local.set $s (call $make (local.get $depth)))
    (drop (call $down (i32.const 300)))
    (call $check (local.get $s) (local.get $depth))
    (if (result i32) (i32.rem_u (local.get $depth) (i32.const 2))
      (then (unreachable))
      (else (call $trapping (i32.const 300)))))
  ;; A trap far below the frames of its activation that have been visited.
  (func $trapping (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (call $churn (i32.const 10000)) (unreachable)))
    (local.set $r (call $trapping (i32.sub (local.get $depth) (i32.const 1))))
    (call $check (local.get $s) (local.get $depth))
    (local.get $r))

  ;; Returns to some frames by way of a tail call of the host, which calls back.
  (func $hop (export "hop") (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth)) (then (call $churn (i32.const 10000)) (return (i32.const 0))))
    (local.set $r (call $hop (i32.sub (local.get $depth) (i32.const 1))))
    (call $check (local.get $s) (local.get $depth))
    ;; Somewhere here lies the barrier.
    (if (i32.lt_u (i32.sub (local.get $depth) (i32.const 100)) (i32.const 60)) (then (return_call $host (i32.const -1))))
    (i32.add (local.get $r) (i32.const 1)))

  ;; Frames with objects that a collection keeps young: they are made in the second half of the nursery.
  (func (export "kept") (param $depth i32) (result i32) (local $i i32)
    (loop $l
      (call $churn (i32.const 9000))
      (drop (call $keep (local.get $depth)))
      (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 30))))
    (local.get $depth))
  (func $keep (param $depth i32) (result i32) (local $s (ref null $s)) (local $r i32)
    (local.set $s (call $make (local.get $depth)))
    (if (i32.eqz (local.get $depth))
      (then (call $churn (i32.const 9000)) (call $churn (i32.const 9000)) (return (i32.const 0))))
    (local.set $r (call $keep (i32.sub (local.get $depth) (i32.const 1))))
    (call $check (local.get $s) (local.get $depth))
    (local.get $r)))"#;

/// Calls an export of the program on each heap; the host calls back `nested` after a trap of its own making.
fn on_every_heap(export: &str, argument: i32, expected: i32) {
    let modes = ["", "verify=on", "verify=on,stress=3001"];
    for heap in pairs(&["collector", "references", "barrier", "aging"], &modes) {
        let heap = heap.and("nursery=256K").unwrap_or(heap);
        let mut config = Config::new();
        let engine = Engine::new(config.max_wasm_stack(4 << 20).compiler_verifier(true).heap(heap.heap())).unwrap();
        let mut store = Store::new(&engine, ());
        let host = Func::wrap(&mut store, |mut caller: Caller<'_, ()>, depth: i32| -> anyhow::Result<i32> {
            if depth < 0 {
                // Deep enough for a watermark of its own.
                let down = caller.get_export("down").unwrap().into_func().unwrap();
                return down.typed::<i32, i32>(&caller).unwrap().call(&mut caller, 400);
            }
            caller.gc();
            if depth < 10 {
                return Ok(depth);
            }
            let mut call = |name: &str, argument: i32| {
                let function = caller.get_export(name).unwrap().into_func().unwrap();
                let function = function.typed::<i32, i32>(&caller).unwrap();
                function.call(&mut caller, argument)
            };
            for argument in [1, 2, 4, 1, 2] {
                let error = call("trap", argument).unwrap_err();
                assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::UnreachableCodeReached), "{error:?}");
            }
            call("nested", depth - 1)
        });
        let instance = Instance::new(&mut store, &Module::new(&engine, PROGRAM).unwrap(), &[host.into()]).unwrap();
        let run = instance.get_typed_func::<i32, i32>(&mut store, export).unwrap();
        for _ in 0..2 {
            let result = run.call(&mut store, argument).unwrap_or_else(|error| panic!("{heap}: {error:?}"));
            assert_eq!(result, expected, "{heap}");
        }
        store.verify_heap().unwrap_or_else(|error| panic!("{heap}: {error}"));
    }
}

#[test]
fn references_of_deep_frames_survive() {
    on_every_heap("down", 3000, 3000);
}

#[test]
fn results_of_every_kind_pass_the_barrier() {
    on_every_heap("many", 1000, 1000 * (1 + 2 + 3 + 4 + 5 + 6 + 7));
}

#[test]
fn exceptions_leave_deep_frames() {
    on_every_heap("caught", 1000, 900);
}

#[test]
fn tail_calls_take_deep_return_addresses_along() {
    on_every_heap("tails", 1000, 1 + 15 * 2);
}

#[test]
fn hosts_call_back_from_deep_below() {
    on_every_heap("nested", 1000, 1000);
}

#[test]
fn tail_calls_of_the_host_wait_with_the_return_address() {
    on_every_heap("hop", 400, 400 + 240 + 1);
}

#[test]
fn frames_with_young_references_are_visited_again() {
    on_every_heap("kept", 500, 500);
}
