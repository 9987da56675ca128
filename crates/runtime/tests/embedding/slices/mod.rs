//! Programs between slices of one unit: a cycle is under way at every allocation.

mod control;
mod overwritten;
mod roots;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use legato::{
    AnyRef, Caller, CollectionKind, Collector, Config, Engine, Func, GcEvent, GcObserver, Instance, Module, Result,
    Rooted, Store, TypedFunc,
};
use legato_heap::collector::generational::Full;
use legato_test_matrix::{Row, pairs};

/// Types and functions of every program here.
const COMMON: &str = r#"
  (import "h" "cycles" (func $cycles (result i64)))
  ;; Goes on with the cycle under way for some units.
  (import "h" "step" (func $step))
  (import "h" "host" (func $host (param i32 anyref)))
  (type $v (struct (field $n i32)))
  (type $node (struct (field $value (ref null $v)) (field $next (ref null $node))))
  (type $refs (array (mut (ref null $v))))
  (type $arrays (array (mut (ref null $refs))))
  (type $box (struct (field $in (mut (ref null $v)))))
  (type $boxes (array (mut (ref null $box))))
  ;; A value of which the compiler knows nothing: it inlines no function that calls itself.
  (func $new (param $n i32) (result (ref $v))
    (if (i32.lt_s (local.get $n) (i32.const -1)) (then (return (call $new (i32.const -1)))))
    (struct.new $v (local.get $n)))
  (func $churn (export "churn") (param $count i32)
    (loop $more
      (drop (call $new (i32.const -1)))
      (br_if $more (i32.ge_s (local.tee $count (i32.sub (local.get $count) (i32.const 1))) (i32.const 0)))))
  ;; Goes on to the end of a cycle: the next one begins with the next allocation.
  (func $align (export "align") (local $before i64)
    (local.set $before (call $cycles))
    (loop $more
      (drop (call $new (i32.const -1)))
      (if (i64.eq (call $cycles) (local.get $before)) (then (call $step)))
      (br_if $more (i64.eq (call $cycles) (local.get $before)))))
  ;; Overwrites the cells of dead objects: in generational heaps, what is allocated is promoted to them. Otherwise an
  ;; object that a cycle has lost would live again in the next one, which would find it as it was.
  (global $others (mut (ref null $node)) (ref.null $node))
  (func $reuse (export "reuse") (local $count i32)
    (loop $more
      (global.set $others (struct.new $node (call $new (i32.const -1)) (global.get $others)))
      (br_if $more (i32.lt_u (local.tee $count (i32.add (local.get $count) (i32.const 1))) (i32.const 300))))
    (global.set $others (ref.null $node)))"#;

/// Counts the cycles that have ended.
struct Cycles(Arc<AtomicI64>);

impl GcObserver for Cycles {
    fn event(&mut self, event: &GcEvent) {
        self.0.fetch_add(i64::from(event.kind == CollectionKind::Cycle), Ordering::Relaxed);
    }
}

/// Heaps that collect in slices of one unit at each allocation, in all pairs of some axes. Other slices come by work:
/// one by the clock would mark the whole of these small heaps at once.
fn in_slices(axes: &[&str]) -> Vec<Row> {
    let is_in_slices = |row: &Row| match row.heap().collector {
        Collector::Realtime(_) => true,
        Collector::Generational(params) => matches!(params.full, Full::Incremental(_)),
        _ => false,
    };
    let rows = pairs(&[&["collector", "full"], axes].concat(), &["stress=1,min=256K,schedule=work"]);
    rows.into_iter().filter(is_in_slices).collect()
}

/// The heaps for what does not depend on the layout of arrays.
fn collectors() -> Vec<Row> {
    in_slices(&["nursery", "barrier", "aging"])
}

/// What the host overwrites, called with a group and an object.
type Host = fn(Caller<'_, ()>, i32, Option<Rooted<AnyRef>>) -> Result<()>;

fn nothing(_: Caller<'_, ()>, _: i32, _: Option<Rooted<AnyRef>>) -> Result<()> {
    Ok(())
}

struct Program {
    store: Store<()>,
    instance: Instance,
}

impl Program {
    fn new(store: Store<()>, module: &Module, cycles: &Arc<AtomicI64>, host: Host) -> Result<Program> {
        let (mut store, cycles) = (store, cycles.clone());
        let count = Func::wrap(&mut store, move || cycles.load(Ordering::Relaxed));
        // The time is over by the first look at the clock, which comes after a fixed number of units.
        let step = Func::wrap(&mut store, |mut caller: Caller<'_, ()>| _ = caller.collect_some(Duration::ZERO));
        let host = Func::wrap(&mut store, host);
        let instance = Instance::new(&mut store, module, &[count.into(), step.into(), host.into()])?;
        Ok(Program { store, instance })
    }

    fn func<P: legato::WasmParams, R: legato::WasmResults>(&mut self, name: &str) -> Result<TypedFunc<P, R>> {
        self.instance.get_typed_func(&mut self.store, name)
    }
}

fn store(row: &Row) -> (Store<()>, Arc<AtomicI64>) {
    let engine = Engine::new(Config::new().compiler_verifier(true).heap(row.heap())).unwrap();
    let mut store = Store::new(&engine, ());
    let cycles = Arc::new(AtomicI64::new(0));
    store.set_gc_observer(Box::new(Cycles(cycles.clone())));
    (store, cycles)
}

/// Values by number, taken from the host into a list that is new; and a check of all in the list.
const LIST: &str = r#"
  (global $list (mut (ref null $node)) (ref.null $node))
  (func (export "number") (param $value anyref) (result i32)
    (struct.get $v $n (ref.cast (ref $v) (local.get $value))))
  (global $ballast (mut (ref null $node)) (ref.null $node))
  (func (export "ballast") (param $count i32)
    (loop $more
      (global.set $ballast (struct.new $node (ref.null $v) (global.get $ballast)))
      (br_if $more (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))
  (func (export "new") (param $n i32) (result anyref) (call $new (local.get $n)))
  (func (export "hold") (param $value anyref)
    (global.set $list (struct.new $node (ref.cast (ref $v) (local.get $value)) (global.get $list))))
  ;; How many there are in the list; they have their numbers from `next` on, upwards.
  (func (export "held") (param $next i32) (result i32) (local $count i32)
    (loop $more
      (if (ref.is_null (global.get $list)) (then (return (local.get $count))))
      (if (i32.ne (struct.get $v $n (struct.get $node $value (global.get $list))) (local.get $next)) (then (unreachable)))
      (local.set $next (i32.add (local.get $next) (i32.const 1)))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (global.set $list (struct.get $node $next (global.get $list)))
      (br $more))
    (unreachable))"#;

impl Program {
    /// A program with a list of values, and functions of its own.
    fn with_list(row: &Row, functions: &str, host: Host) -> Result<Program> {
        let (store, cycles) = store(row);
        let module = Module::new(store.engine(), format!("(module {COMMON} {LIST} {functions})"))?;
        Program::new(store, &module, &cycles, host)
    }

    fn align(&mut self) -> Result<()> {
        self.func::<(), ()>("align")?.call(&mut self.store, ())
    }

    fn churn(&mut self, count: i32) -> Result<()> {
        self.func::<i32, ()>("churn")?.call(&mut self.store, count)
    }

    /// Checks that the list, once all cycles that were under way are over, holds so many values, the last one `first`.
    fn check_list(&mut self, first: i32, count: i32) -> Result<()> {
        self.align()?;
        // Right behind the cycle: the next one would mark again what has been lost and not overwritten.
        self.store.verify_heap()?;
        self.align()?;
        self.func::<(), ()>("reuse")?.call(&mut self.store, ())?;
        let held = self.func::<i32, i32>("held")?.call(&mut self.store, first)?;
        assert_eq!(held, count);
        self.store.verify_heap()?;
        Ok(())
    }
}

fn each_row(run: impl Fn(&Row) -> Result<()>) {
    for row in collectors() {
        run(&row).unwrap_or_else(|error| panic!("{row}: {error:?}"));
    }
}
