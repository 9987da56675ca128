//! Limits on what a store's instances may take.

use std::panic::{AssertUnwindSafe, catch_unwind};

use legato::{
    Config, Engine, Instance, Linker, Memory, MemoryType, Module, Ref, RefType, ResourceLimiter, Result, Store,
    StoreLimits, StoreLimitsBuilder, Table, TableType, Trap,
};

use crate::{engine as engine_of, heaps};

const PAGE: usize = 1 << 16;
const STACK: usize = 256 << 10;

const GROWING: &str = r#"(module (memory 1) (memory $two 0) (table 0 funcref)
    (func (export "memory") (param i32) (result i32) (memory.grow (local.get 0)))
    (func (export "two") (param i32) (result i32) (memory.grow $two (local.get 0)))
    (func (export "table") (param i32) (result i32) (table.grow (ref.null func) (local.get 0))))"#;

fn engine() -> Result<Engine> {
    let mut config = Config::new();
    config.max_wasm_stack(STACK);
    Engine::new(&config)
}

fn limited<T: ResourceLimiter + 'static>(limits: T) -> Result<Store<T>> {
    let mut store = Store::new(&engine()?, limits);
    store.limiter(|limits| limits);
    Ok(store)
}

fn instantiate<T: 'static>(store: &mut Store<T>, text: &str) -> Result<Instance> {
    let module = Module::new(store.engine(), text)?;
    Linker::new(store.engine()).instantiate(store, &module)
}

fn grow<T: 'static>(store: &mut Store<T>, instance: Instance, what: &str, delta: i32) -> Result<i32> {
    instance.get_typed_func::<i32, i32>(&mut *store, what)?.call(store, delta)
}

#[test]
fn a_limiter_that_panics_limits_all_the_same_afterwards() -> Result<()> {
    struct Nervous {
        panics: bool,
        limits: StoreLimits,
    }
    impl ResourceLimiter for Nervous {
        fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
            if current > 0 && std::mem::take(&mut self.panics) {
                std::panic::panic_any("too much");
            }
            self.limits.memory_growing(current, desired, maximum)
        }

        fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
            self.limits.table_growing(current, desired, maximum)
        }
    }
    let limits = StoreLimitsBuilder::new().memory_size(2 * PAGE).table_elements(1).build();
    let mut store = limited(Nervous { panics: true, limits })?;
    let instance = instantiate(&mut store, GROWING)?;
    let panic = catch_unwind(AssertUnwindSafe(|| grow(&mut store, instance, "memory", 1))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"too much"));
    assert_eq!(grow(&mut store, instance, "memory", 1)?, 1);
    assert_eq!(grow(&mut store, instance, "memory", 1)?, -1);
    assert_eq!(grow(&mut store, instance, "table", 2)?, -1);
    Ok(())
}

#[test]
fn a_total_counts_memories_tables_and_the_stack() -> Result<()> {
    let total = STACK + 4 * PAGE;
    let mut store = limited(StoreLimitsBuilder::new().total_bytes(total).build())?;
    let instance = instantiate(&mut store, GROWING)?;
    let page_of_elements = (PAGE / Table::ELEMENT_BYTES) as i32;
    assert_eq!(grow(&mut store, instance, "two", 1)?, 0);
    assert_eq!(grow(&mut store, instance, "table", page_of_elements)?, 0);
    // What is refused is not counted.
    for _ in 0..3 {
        assert_eq!(grow(&mut store, instance, "memory", 2)?, -1);
        assert_eq!(grow(&mut store, instance, "table", page_of_elements + 1)?, -1);
        assert_eq!(grow(&mut store, instance, "table", -1)?, -1);
    }
    assert_eq!(grow(&mut store, instance, "table", page_of_elements)?, page_of_elements);
    for what in ["memory", "two", "table"] {
        assert_eq!(grow(&mut store, instance, what, 1)?, -1, "{what}");
        assert!(grow(&mut store, instance, what, 0)? > 0, "{what}");
    }
    let error = instantiate(&mut store, "(module (memory 1))").unwrap_err();
    assert!(format!("{error:#}").contains("no room for a memory of 65536 bytes"), "{error:#}");
    instantiate(&mut store, "(module)")?;
    Ok(())
}

#[test]
fn growth_beyond_a_total_can_be_an_error() -> Result<()> {
    let limits = StoreLimitsBuilder::new().total_bytes(STACK + PAGE).trap_on_grow_failure(true).build();
    let mut store = limited(limits)?;
    let instance = instantiate(&mut store, GROWING)?;
    for what in ["memory", "two", "table"] {
        let error = grow(&mut store, instance, what, 1).unwrap_err();
        assert!(format!("{error:#}").contains("`total_bytes`"), "{error:#}");
    }
    Ok(())
}

#[test]
fn what_was_allowed_and_then_failed_is_not_counted() -> Result<()> {
    let mut store = limited(StoreLimitsBuilder::new().total_bytes(1 << 46).build())?;
    // Both are beyond what this implementation makes.
    for _ in 0..5 {
        assert!(Memory::new(&mut store, MemoryType::new64((1 << 28) + 1, None)).is_err());
    }
    let mut store = limited(StoreLimitsBuilder::new().total_bytes(2 << 30).build())?;
    for _ in 0..5 {
        let ty = TableType::new(RefType::FUNCREF, (1 << 28) + 1, None);
        let error = Table::new(&mut store, ty, Ref::Func(None)).unwrap_err();
        assert!(!format!("{error:#}").contains("resource limit"), "{error:#}");
    }
    let half = MemoryType::new(1 << 14, None);
    Memory::new(&mut store, half.clone())?;
    assert!(Memory::new(&mut store, MemoryType::new((1 << 14) + 1, None)).is_err());
    Memory::new(&mut store, half)?;
    Ok(())
}

#[test]
fn the_stack_is_asked_for_once_and_may_be_refused() -> Result<()> {
    #[derive(Default)]
    struct Stack {
        limit: usize,
        asked: Vec<usize>,
    }
    impl ResourceLimiter for Stack {
        fn memory_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> Result<bool> {
            Ok(true)
        }

        fn table_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> Result<bool> {
            Ok(true)
        }

        fn stack_reserving(&mut self, bytes: usize) -> Result<bool> {
            self.asked.push(bytes);
            Ok(bytes <= self.limit)
        }
    }
    let mut store = limited(Stack::default())?;
    let error = instantiate(&mut store, "(module)").unwrap_err();
    let expected = format!("resource limit exceeded: a stack of {STACK} bytes, the engine's `max_wasm_stack`");
    assert_eq!(error.to_string(), expected);
    store.data_mut().limit = STACK;
    for _ in 0..3 {
        instantiate(&mut store, "(module)")?;
    }
    assert_eq!(store.data().asked, [STACK, STACK]);

    let mut store = limited(StoreLimitsBuilder::new().total_bytes(STACK - 1).build())?;
    assert_eq!(instantiate(&mut store, "(module)").unwrap_err().to_string(), expected);
    Ok(())
}

/// Keeps objects of 24 bytes and more until no more fit; says how many did.
const HOARD: &str = r#"(module
    (type $list (struct (field (ref null $list)) (field i64)))
    (global $kept (mut (ref null $list)) (ref.null $list))
    (global $count (export "count") (mut i32) (i32.const 0))
    (func (export "hoard")
        (loop $again
            (global.set $kept (struct.new $list (global.get $kept) (i64.const 1)))
            (global.set $count (i32.add (global.get $count) (i32.const 1)))
            (br $again))))"#;

#[test]
fn stores_of_one_engine_have_heaps_of_different_sizes() -> Result<()> {
    for row in heaps() {
        let engine = engine_of(&row, "max=64M");
        let module = Module::new(&engine, HOARD)?;
        let count = |bytes: u64| -> Result<i32> {
            let mut store = Store::with_max_heap(&engine, (), bytes)?;
            let instance = Instance::new(&mut store, &module, &[])?;
            let error = instance.get_typed_func::<(), ()>(&mut store, "hoard")?.call(&mut store, ()).unwrap_err();
            assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::AllocationFailure), "{row}: {error:?}");
            let message = format!("{error:?}");
            assert!(message.contains(&format!("heap of at most {bytes} bytes")), "{message}");
            Ok(instance.get_global(&mut store, "count").unwrap().get(&mut store).unwrap_i32())
        };
        let small = count(2 << 20)?;
        let large = count(8 << 20)?;
        assert!(small > 10_000 && large > 3 * small, "{row}: {small} and {large}");
        let error = Store::with_max_heap(&engine, (), 1000).unwrap_err();
        assert!(error.to_string().contains("max"), "{error}");
    }
    Ok(())
}
