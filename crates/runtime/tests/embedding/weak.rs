//! Weak references and finalization queues.

use crate::{engine, engines, heaps, instance};
use legato::{
    AnyRef, Engine, ExternRef, FinalizationQueue, I31, Instance, OwnedRooted, Result, RootScope, Rooted, Store,
    WeakRooted,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Makes objects, drops them, and makes garbage.
const MODULE: &str = r#"(module
    (type $bytes (array (mut i8)))
    (type $node (struct (field $number i32) (field $bytes (ref null $bytes))))
    (type $nodes (array (mut (ref null $node))))
    (global $nodes (ref $nodes) (array.new_default $nodes (i32.const 1000)))
    (global $garbage (mut (ref null $bytes)) (ref.null $bytes))
    (func (export "make") (param $number i32) (param $length i32) (result (ref any))
      (local $new (ref $node))
      (local.set $new (struct.new $node (local.get $number) (array.new_default $bytes (local.get $length))))
      (array.set $nodes (global.get $nodes) (local.get $number) (local.get $new))
      (local.get $new))
    (func (export "drop") (param $number i32)
      (array.set $nodes (global.get $nodes) (local.get $number) (ref.null $node)))
    (func (export "number") (param (ref any)) (result i32)
      (struct.get $node $number (ref.cast (ref $node) (local.get 0))))
    (func (export "churn") (param $count i32)
      (loop $again
        (global.set $garbage (array.new_default $bytes (i32.const 100)))
        (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))))"#;

struct Program {
    store: Store<()>,
    instance: Instance,
}

impl Program {
    fn new(engine: &Engine) -> Result<Program> {
        let (store, instance) = instance(engine, (), MODULE)?;
        Ok(Program { store, instance })
    }

    /// A weak reference to a node that the program holds.
    fn make(&mut self, number: i32, length: i32) -> Result<WeakRooted<AnyRef>> {
        let make = self.instance.get_typed_func::<(i32, i32), Rooted<AnyRef>>(&mut self.store, "make")?;
        let mut scope = RootScope::new(&mut self.store);
        make.call(&mut scope, (number, length))?.to_weak_rooted(&mut scope)
    }

    fn drop(&mut self, number: i32) -> Result<()> {
        self.instance.get_typed_func::<i32, ()>(&mut self.store, "drop")?.call(&mut self.store, number)
    }

    fn churn(&mut self, count: i32) -> Result<()> {
        self.instance.get_typed_func::<i32, ()>(&mut self.store, "churn")?.call(&mut self.store, count)
    }

    /// The number of the node, if it lives.
    fn number(&mut self, weak: &WeakRooted<AnyRef>) -> Result<Option<i32>> {
        let number = self.instance.get_typed_func::<Rooted<AnyRef>, i32>(&mut self.store, "number")?;
        let mut scope = RootScope::new(&mut self.store);
        let Some(node) = weak.to_rooted(&mut scope)? else { return Ok(None) };
        number.call(&mut scope, node).map(Some)
    }
}

#[test]
fn a_weak_reference_follows_its_object_until_it_dies() -> Result<()> {
    for heap in heaps() {
        for settings in ["", "stress=1", "min=1M,max=16M"] {
            let mut program = Program::new(&engine(&heap, settings))?;
            let weak: Vec<_> = (0..60).map(|number| program.make(number, 50 * number)).collect::<Result<_>>()?;
            for round in 0..3 {
                for number in (round..60).step_by(3).filter(|number| number % 2 == 0) {
                    program.drop(number)?;
                }
                program.churn(if settings == "stress=1" { 10 } else { 5000 })?;
                program.store.gc();
                for (number, weak) in (0..).zip(&weak) {
                    let lives = number % 2 == 1 || number % 3 > round;
                    assert_eq!(program.number(weak)?, lives.then_some(number), "{heap:?}, {settings}, round {round}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn the_young_are_forgotten_by_a_nursery_collection() -> Result<()> {
    let heap = legato::HeapConfig { verify: true, ..legato::HeapConfig::default() };
    let mut program = Program::new(&Engine::new(legato::Config::new().heap(heap))?)?;
    let (dead, living) = (program.make(0, 1)?, program.make(1, 1)?);
    program.drop(0)?;
    program.churn(100_000)?;
    let stats = program.store.heap_stats();
    assert!(stats.collections > 0 && stats.full_collections == 0, "{stats:?}");
    assert_eq!((program.number(&dead)?, program.number(&living)?), (None, Some(1)));
    Ok(())
}

#[test]
fn who_gets_the_object_keeps_it() -> Result<()> {
    for engine in engines() {
        let mut program = Program::new(&engine)?;
        let weak = program.make(7, 100)?;
        let kept: OwnedRooted<AnyRef> = {
            let mut scope = RootScope::new(&mut program.store);
            let node = weak.to_rooted(&mut scope)?.unwrap();
            node.to_owned_rooted(&mut scope)?
        };
        program.drop(7)?;
        program.store.gc();
        assert_eq!(program.number(&weak)?, Some(7));
        drop(kept);
        program.store.gc();
        assert_eq!(program.number(&weak)?, None);
    }
    Ok(())
}

#[test]
fn each_death_is_told_once() -> Result<()> {
    for engine in engines() {
        let mut program = Program::new(&engine)?;
        let dead = FinalizationQueue::new();
        let mut registered = Vec::new();
        for number in 0..200 {
            let weak = program.make(number, number)?;
            let mut scope = RootScope::new(&mut program.store);
            let node = weak.to_rooted(&mut scope)?.unwrap();
            registered.push(dead.register(&mut scope, &node, number)?);
        }
        (0..200).step_by(2).try_for_each(|number| program.drop(number))?;
        assert_eq!(dead.next(&mut program.store), None);
        // Who is not registered any more is not told of.
        registered.retain({
            let mut number = 0..;
            move |_| number.next().unwrap() % 4 != 0
        });
        let second = registered[0].clone();
        program.churn(1000)?;
        program.store.gc();
        let mut told = BTreeSet::new();
        while let Some(number) = dead.next(&mut program.store) {
            assert!(told.insert(number), "{number} was told twice");
        }
        assert_eq!(told, (2..200).step_by(4).collect());
        assert_eq!(program.store.heap_stats().weak_references, 150);
        drop(registered);
        program.store.gc();
        assert_eq!(program.store.heap_stats().weak_references, 1, "a clone is left");
        assert_eq!(program.number(&second)?, Some(1));
    }
    Ok(())
}

/// A value whose own death is seen.
#[derive(Debug)]
struct Value(#[allow(dead_code, reason = "counts")] Arc<()>);

#[test]
fn what_is_registered_is_not_kept_longer_than_the_registration() -> Result<()> {
    let counted = Arc::new(());
    let dead = FinalizationQueue::new();
    let outlives = {
        let mut store = Store::new(&Engine::default(), ());
        let object = ExternRef::new(&mut store, 5)?;
        let first = dead.register(&mut store, &object, Value(counted.clone()))?;
        let outlives = dead.register(&mut store, &object, Value(counted.clone()))?;
        assert_eq!(Arc::strong_count(&counted), 3);
        drop(first);
        assert!(dead.next(&mut store).is_none());
        assert_eq!(Arc::strong_count(&counted), 2);
        outlives
    };
    assert_eq!(Arc::strong_count(&counted), 1, "the store is gone, and its object was not found dead");
    let mut other = Store::new(&Engine::default(), ());
    assert!(dead.next(&mut other).is_none());
    drop(outlives);
    // Where nobody can ask, nothing is kept.
    let object = ExternRef::new(&mut other, 5)?.to_weak_rooted(&mut other)?;
    let object = object.to_rooted(&mut other)?.unwrap();
    let unheard = FinalizationQueue::new();
    let kept = unheard.register(&mut other, &object, Value(counted.clone()))?;
    drop(unheard);
    drop(kept);
    other.gc();
    assert_eq!(Arc::strong_count(&counted), 1);
    Ok(())
}

#[test]
fn references_that_come_and_go_take_no_more_memory() -> Result<()> {
    let mut store = Store::new(&Engine::default(), ());
    let object = ExternRef::new(&mut store, 5)?;
    for _ in 0..10_000 {
        let weak = object.to_weak_rooted(&mut store)?;
        assert!(store.heap_stats().weak_references <= 1);
        drop(weak);
    }
    Ok(())
}

#[test]
fn misuse_is_an_error() -> Result<()> {
    let engine = Engine::default();
    let [mut store, mut other] = [(); 2].map(|()| Store::new(&engine, ()));
    let object = ExternRef::new(&mut store, 5)?;
    let weak = object.to_weak_rooted(&mut store)?;
    let queue = FinalizationQueue::new();
    let says = |error: legato::Error| error.to_string();
    let wrong = "another store than its own";
    assert!(says(weak.to_rooted(&mut other).unwrap_err()).contains(wrong));
    assert!(says(object.to_weak_rooted(&mut other).unwrap_err()).contains(wrong));
    assert!(says(queue.register(&mut other, &object, ()).unwrap_err()).contains(wrong));
    let ended = {
        let mut scope = RootScope::new(&mut store);
        ExternRef::new(&mut scope, 6)?
    };
    assert!(says(ended.to_weak_rooted(&mut store).unwrap_err()).contains("after the end of its scope"));
    // No error: a number never dies.
    let number = AnyRef::from_i31(&mut store, I31::wrapping_i32(-3)).to_weak_rooted(&mut store)?;
    store.gc();
    let number = number.to_rooted(&mut store)?.unwrap();
    assert_eq!(number.unwrap_i31(&store)?.get_i32(), -3);
    Ok(())
}
