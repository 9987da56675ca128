//! The heap as an interpreter sees it.

use super::handles::Slots;
use super::*;
use crate::roots::{RootCursor, RootVisitor, Roots};
use crate::{Budget, HeapConfig, Reference};
use std::sync::atomic::{AtomicU32, Ordering};

type Done = Result<(), Error>;

fn heap(settings: &str) -> ObjectHeap {
    let mut config = HeapConfig::default();
    for setting in settings.split_whitespace() {
        let (key, value) = setting.split_once('=').unwrap();
        config.set(key, value).unwrap();
    }
    ObjectHeap::new(&config).unwrap()
}

/// Heaps that move objects or not, in slices or at once, each collected all the time.
const HEAPS: [&str; 4] = [
    "verify=on stress=3 max=8M",
    "verify=on stress=3 max=8M collector=mark-sweep references=fat-handles",
    "verify=on stress=3 max=8M collector=realtime references=brooks stress-move=on",
    "verify=on stress=3 max=8M arrays=zrays",
];

#[test]
fn handles_follow_their_objects_and_end_with_their_scope() -> Done {
    for settings in HEAPS {
        let mut heap = heap(settings);
        let node = heap.define(StructType::new("node").field::<Any>("next").field::<u16>("number"))?;
        let (next, number) = (node.field::<Any>("next")?, node.field::<u16>("number")?);
        heap.scope(|scope| -> Done {
            let list = scope.variable(scope.null())?;
            for n in 0..100 {
                scope.scope(|scope| -> Done {
                    let new = scope.new_struct(&node)?;
                    scope.set(new, number, n)?;
                    let rest = scope.read(list);
                    scope.set(new, next, rest)?;
                    scope.assign(list, new)
                })?;
            }
            let third = scope.scope_to(|scope| -> Result<Local<'_>, Error> {
                let first = scope.read(list);
                let second = scope.get(first, next)?;
                scope.get(second, next)
            })?;
            for _ in 0..20 {
                scope.new_struct(&node)?;
            }
            assert_eq!(scope.get(third, number)?, 97, "{settings}");
            let (again, first) = (scope.read(list), scope.read(list));
            assert!(scope.same(again, first)? && !scope.same(again, third)?);
            Ok(())
        })?;
        assert_eq!(heap.slots.depth(), 0);
        heap.collect();
        heap.verify().unwrap();
        assert_eq!(heap.stats().live_objects, 0, "{settings}");
    }
    Ok(())
}

#[test]
fn fields_and_elements_hold_what_is_written() -> Done {
    for settings in HEAPS {
        let mut heap = heap(settings);
        let base = heap.define(StructType::new("base").field::<i8>("small").field::<f64>("real"))?;
        let derived = heap.define(StructType::extending("derived", &base).field::<i64>("large"))?;
        let (bytes, reals) = (heap.define_array::<u8>("bytes")?, heap.define_array::<f32>("reals")?);
        let references = heap.define_array::<Any>("references")?;
        heap.scope(|scope| -> Done {
            let object = scope.new_struct(&derived)?;
            scope.set(object, base.field::<i8>("small")?, -3)?;
            scope.set(object, base.field_at::<f64>(1)?, -0.5)?;
            scope.set(object, derived.field::<i64>("large")?, i64::MIN)?;
            assert_eq!(scope.get(object, derived.field::<i8>("small")?)?, -3);
            assert_eq!(scope.get(object, derived.field::<f64>("real")?)?, -0.5);
            assert_eq!(scope.get(object, derived.field::<i64>("large")?)?, i64::MIN);
            assert!(scope.is(object, &base)? && scope.is(object, &derived)?);
            let text = scope.new_array(bytes, 5)?;
            scope.write_bytes(text, 1, b"abc")?;
            let mut read = [1; 5];
            scope.read_bytes(text, 0, &mut read)?;
            assert_eq!(read, *b"\0abc\0");
            let numbers = scope.new_array(reals, 2)?;
            scope.set_element::<f32>(numbers, 1, 1.5)?;
            assert_eq!((scope.element::<f32>(numbers, 0)?, scope.element::<f32>(numbers, 1)?), (0.0, 1.5));
            let many = scope.new_array(references, 3000)?;
            for index in 0..3000 {
                scope.set_element::<Any>(many, index, if index % 2 == 0 { object } else { scope.small(-9) })?;
            }
            let (even, odd) = (scope.element::<Any>(many, 2998)?, scope.element::<Any>(many, 2999)?);
            assert!(scope.same(even, object)? && odd.small() == Some(-9) && !odd.is_object());
            assert_eq!((scope.length(many)?, scope.is_array(many, references)?), (3000, true));
            Ok(())
        })?;
    }
    Ok(())
}

/// Ranges are filled and copied, onto themselves as well, whether an array lies in one piece or not.
#[test]
fn ranges_are_filled_and_copied() -> Done {
    for settings in HEAPS {
        let mut heap = heap(settings);
        let (numbers, references) = (heap.define_array::<i32>("numbers")?, heap.define_array::<Any>("references")?);
        let cell = heap.define(StructType::new("cell").field::<i32>("n"))?;
        let n = cell.field::<i32>("n")?;
        heap.scope(|scope| -> Done {
            const LENGTH: u32 = 3000;
            let array = scope.new_array(numbers, LENGTH)?;
            let mut expected = vec![0; LENGTH as usize];
            scope.fill::<i32>(array, 10, 2900, -7)?;
            expected[10..2910].fill(-7);
            for index in 0..LENGTH {
                if index % 3 == 0 {
                    scope.set_element::<i32>(array, index, index as i32)?;
                    expected[index as usize] = index as i32;
                }
            }
            for (start, from, count) in [(1, 0, 2999), (0, 2, 2998), (700, 650, 1100), (5, 5, 100), (3000, 0, 0)] {
                scope.copy::<i32>(array, start, array, from, count)?;
                expected.copy_within(from as usize..(from + count) as usize, start as usize);
            }
            for index in 0..LENGTH {
                assert_eq!(scope.element::<i32>(array, index)?, expected[index as usize], "{settings}, {index}");
            }

            let (many, others) = (scope.new_array(references, LENGTH)?, scope.new_array(references, LENGTH)?);
            let [first, second] = [1, 2].map(|number| {
                let object = scope.new_struct(&cell).unwrap();
                scope.set(object, n, number).unwrap();
                object
            });
            scope.fill::<Any>(many, 0, LENGTH, first)?;
            scope.fill::<Any>(many, 100, 2000, second)?;
            scope.copy::<Any>(others, 50, many, 0, 2950)?;
            scope.fill::<Any>(many, 0, LENGTH, scope.null())?;
            for (index, number) in [(50, 1), (149, 1), (150, 2), (2149, 2), (2150, 1), (2999, 1)] {
                scope.scope(|scope| -> Done {
                    let object = scope.element::<Any>(others, index)?;
                    assert_eq!(scope.get(object, n)?, number, "{settings}, {index}");
                    Ok(())
                })?;
            }
            assert!(scope.element::<Any>(others, 49)?.is_null() && scope.element::<Any>(many, 150)?.is_null());

            let index = |result: Done| matches!(result, Err(Error::Index { .. }));
            assert!(index(scope.fill::<i32>(array, 2999, 2, 0)) && index(scope.fill::<i32>(array, 1, u32::MAX, 0)));
            assert!(index(scope.copy::<i32>(array, 0, array, 1, LENGTH)));
            assert!(index(scope.copy::<i32>(array, u32::MAX, array, 0, 1)));
            assert!(matches!(scope.copy::<i32>(array, 0, many, 0, 1), Err(Error::Kind { .. })));
            assert!(matches!(scope.fill::<Any>(array, 0, 1, first), Err(Error::Kind { .. })));
            Ok(())
        })?;
        heap.verify().unwrap();
    }
    Ok(())
}

/// A program that is idle has the collector work then, and gives memory back.
#[test]
fn an_idle_program_collects_and_trims() -> Done {
    let mut heap = heap("collector=realtime helpers=0 max=64M");
    let bytes = heap.define_array::<u8>("bytes")?;
    let kept = heap.scope(|scope| -> Result<Root, Error> {
        let kept = scope.new_array(bytes, 100)?;
        for _ in 0..400 {
            scope.scope(|scope| scope.new_array(bytes, 50_000).map(drop))?;
        }
        scope.root(kept)
    })?;
    heap.scope(|scope| {
        while !scope.collect_some(std::time::Duration::from_millis(1)) {}
        assert!(scope.collect_some(std::time::Duration::MAX), "nothing is left to do");
    });
    assert!(heap.stats().collections > 0);
    let before = heap.stats().committed_bytes;
    let fewer = heap.trim();
    assert_eq!(heap.stats().live_objects, 1);
    assert!(fewer > 0 && heap.stats().committed_bytes < before, "{fewer} bytes fewer than {before}");
    drop(kept);
    Ok(())
}

#[test]
fn roots_last_and_weak_handles_do_not() -> Done {
    for settings in HEAPS {
        let mut heap = heap(settings);
        let cell = heap.define(StructType::new("cell").field::<i32>("n"))?;
        let n = cell.field::<i32>("n")?;
        static DEATHS: AtomicU32 = AtomicU32::new(0);
        let before = DEATHS.load(Ordering::Relaxed);
        let (mut roots, mut weak) = (Vec::new(), Vec::new());
        for number in 0..200 {
            heap.scope(|scope| -> Done {
                let object = scope.new_struct(&cell)?;
                scope.set(object, n, number)?;
                roots.push((number, scope.root(object)?));
                weak.push(scope.weak(object)?);
                scope.on_death(object, || {
                    DEATHS.fetch_add(1, Ordering::Relaxed);
                })
            })?;
            if number % 3 == 0 {
                roots.swap_remove(number as usize / 2);
            }
        }
        heap.collect();
        heap.collect();
        assert_eq!(heap.run_finalisers(), 200 - roots.len(), "{settings}");
        assert_eq!(DEATHS.load(Ordering::Relaxed) - before, 200 - roots.len() as u32);
        heap.scope(|scope| -> Done {
            for (number, root) in &roots {
                let object = scope.rooted(root)?;
                assert_eq!(scope.get(object, n)?, *number);
                let same = scope.upgrade(&weak[*number as usize])?.expect("it is kept");
                assert!(scope.same(object, same)?);
            }
            let alive = weak.iter().filter(|weak| scope.is_alive(weak).unwrap()).count();
            assert_eq!(alive, roots.len());
            Ok(())
        })?;
        assert_eq!(heap.stats().weak_references as usize, 200 + roots.len());
        weak.clear();
        let kept = roots.len();
        roots.clear();
        heap.collect();
        heap.collect();
        assert_eq!((heap.run_finalisers(), heap.stats().weak_references), (kept, 0));
    }
    Ok(())
}

#[test]
fn mistakes_are_errors() -> Done {
    let (mut ours, mut theirs) = (heap("max=1M"), heap("max=1M"));
    let pair = ours.define(StructType::new("pair").field::<Any>("first"))?;
    let other = ours.define(StructType::new("other").field::<Any>("first"))?;
    let foreign = theirs.define(StructType::new("pair").field::<Any>("first"))?;
    let bytes = ours.define_array::<u8>("bytes")?;
    let says = |error: Result<(), Error>, says: &str| {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(says), "{error}, not {says}");
    };
    says(pair.field::<Any>("second").map(drop), "pair has no field second");
    says(pair.field_at::<Any>(1).map(drop), "pair has no field 1");
    says(pair.field::<i32>("first").map(drop), "the field first of pair holds references, not i32");
    says(ours.define(StructType::new("x").field::<u8>("a").field::<u8>("a")).map(drop), "more than one field a");
    says(ours.define(StructType::extending("x", &foreign)).map(drop), "a type of another heap");
    let first = pair.field::<Any>("first")?;
    ours.scope(|scope| {
        let (null, small, object) = (scope.null(), scope.small(1), scope.new_struct(&other).unwrap());
        let array = scope.new_array(bytes, 4).unwrap();
        says(scope.get(null, first).map(drop), "null is no object");
        says(scope.get(small, first).map(drop), "a small integer");
        says(scope.get(object, first).map(drop), "this is other, and no pair");
        says(scope.set(array, first, null), "this is bytes, and no pair");
        says(scope.get(object, foreign.field::<Any>("first").unwrap()).map(drop), "a field of another heap");
        says(scope.element::<u8>(array, 4).map(drop), "no element 4 in an array of 4");
        says(scope.write_bytes(array, 3, b"ab"), "no element 4");
        says(scope.element::<i32>(array, 0).map(drop), "holds integers of 8 bits, not i32");
        says(scope.length(object).map(drop), "this is other, and no array");
        says(scope.weak(small).map(drop), "a small integer");
        says(scope.new_struct(&foreign).map(drop), "a type of another heap");
        says(scope.new_array(bytes, u32::MAX).map(drop), "too long");
        says(scope.new_array(bytes, i32::MAX as u32).map(drop), "too large");
        theirs.scope(|theirs| {
            let object = theirs.new_struct(&foreign).unwrap();
            let (variable, root) = (theirs.variable(object).unwrap(), theirs.root(object).unwrap());
            let weak = theirs.weak(object).unwrap();
            says(scope.get(object, first).map(drop), "a handle of another heap");
            says(scope.assign(variable, null), "a variable of another heap");
            says(scope.rooted(&root).map(drop), "a root of another heap");
            says(scope.upgrade(&weak).map(drop), "a weak handle of another heap");
        });
        let list = scope.variable(null).unwrap();
        let full = loop {
            let grown = scope.scope(|scope| -> Done {
                let new = scope.new_struct(&pair)?;
                let rest = scope.read(list);
                scope.set(new, first, rest)?;
                scope.assign(list, new)
            });
            if let Err(error) = grown {
                break error;
            }
        };
        assert!(matches!(full, Error::Allocation(_)), "{full}");
        scope.assign(list, null).unwrap();
        scope.new_struct(&pair).expect("there is room again");
    });
    Ok(())
}

#[test]
fn values_of_the_host_are_dropped_with_their_objects() -> Done {
    let mut heap = heap("max=1M");
    let value = std::sync::Arc::new("seen");
    heap.scope(|scope| -> Done {
        let object = scope.new_host(std::sync::Arc::clone(&value))?;
        assert_eq!(scope.host::<std::sync::Arc<&str>>(object).map(|value| **value), Some("seen"));
        assert!(scope.host::<String>(object).is_none() && scope.host::<String>(scope.null()).is_none());
        Ok(())
    })?;
    assert_eq!(std::sync::Arc::strong_count(&value), 2);
    heap.collect();
    assert_eq!(std::sync::Arc::strong_count(&value), 1);
    Ok(())
}

#[test]
fn a_scope_that_panics_ends() {
    let mut heap = heap("max=1M");
    let empty = heap.define(StructType::new("empty")).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        heap.scope(|scope| {
            scope.new_struct(&empty).unwrap();
            panic!("as meant");
        })
    }));
    assert!(panicked.is_err() && heap.slots.depth() == 0);
}

#[test]
fn a_type_may_have_many_fields() -> Done {
    let mut heap = heap("");
    let many = (0..100_000).fold(StructType::new("many"), |ty, number| ty.field::<u8>(&number.to_string()));
    // A quarter of a minute each, if each field were compared with all others.
    heap.define(many.clone())?.field_at::<u8>(99_999)?;
    let error = heap.define(many.field::<i64>("5")).unwrap_err();
    assert_eq!(error.to_string(), "many has more than one field 5");
    Ok(())
}

#[test]
fn a_root_that_has_been_dropped_keeps_nothing() -> Done {
    for settings in ["max=4M", "max=4M collector=mark-sweep", "max=4M collector=realtime references=brooks"] {
        let mut heap = heap(settings);
        let bytes = heap.define_array::<u8>("bytes")?;
        for _ in 0..10 {
            // Only one at a time fits.
            let root = heap.scope(|scope| {
                let array = scope.new_array(bytes, 2_500_000)?;
                scope.root(array)
            })?;
            let clone = root.clone();
            drop(root);
            heap.scope(|scope| scope.rooted(&clone).map(drop))?;
        }
    }
    Ok(())
}

#[test]
fn roots_are_made_and_dropped_in_time_that_does_not_depend_on_others() -> Done {
    let mut heap = heap("max=64M");
    let empty = heap.define(StructType::new("empty"))?;
    // Of whatever number of slots, all but one are taken.
    let mut roots = Vec::new();
    for _ in 1..1 << 18 {
        roots.push(heap.scope(|scope| {
            let object = scope.new_struct(&empty)?;
            scope.root(object)
        })?);
    }
    // Minutes, if each looked at all slots.
    for _ in 0..1_000_000 {
        heap.scope(|scope| {
            let object = scope.rooted(&roots[0])?;
            scope.root(object).map(drop)
        })?;
    }
    heap.collect();
    heap.scope(|scope| roots.iter().try_for_each(|root| scope.rooted(root).map(drop)))
}

struct Counting {
    visits: usize,
    is_young: bool,
}

impl RootVisitor for Counting {
    fn visit(&mut self, _slot: &mut Reference) -> bool {
        self.visits += 1;
        self.is_young
    }
}

#[test]
fn roots_are_visited_in_steps_and_by_nursery_collections_while_they_are_young() -> Done {
    let mut heap = heap("");
    let empty = heap.define(StructType::new("empty"))?;
    let roots: Result<Vec<Root>, Error> = heap.scope(|scope| {
        let object = scope.new_struct(&empty)?;
        (0..10_000).map(|_| scope.root(object)).collect()
    });
    let mut roots = roots?;
    let slots = &mut heap.slots;
    let (mut cursor, mut visits) = (RootCursor::default(), Vec::new());
    let mut done = crate::Done::No;
    while done == crate::Done::No {
        let mut visitor = Counting { visits: 0, is_young: false };
        done = slots.visit_slots(&mut visitor, &mut cursor, &mut Budget::units(1));
        visits.push(visitor.visits);
    }
    assert_eq!((visits.len(), visits.iter().max(), visits.iter().sum()), (40, Some(&256), 10_000));
    let young = |slots: &mut Slots, is_young| {
        let mut visitor = Counting { visits: 0, is_young };
        slots.visit_young_roots(&mut visitor);
        visitor.visits
    };
    assert_eq!([true, false, false].map(|is_young| young(slots, is_young)), [10_000, 10_000, 0]);
    roots.truncate(9_000);
    heap.scope(|scope| -> Done {
        let object = scope.new_struct(&empty)?;
        // Each takes a slot that is free, and is dropped.
        (0..5_000).try_for_each(|_| scope.root(object).map(drop))
    })?;
    assert!(young(&mut heap.slots, false) <= 1_000);
    Ok(())
}

/// What a root has led to is held by a local when the root is dropped, in the midst of a cycle that has not visited it.
#[test]
fn what_a_dropped_root_has_led_to_lives_as_long_as_a_local_holds_it() -> Done {
    let cycles = "max=16M helpers=0 stress=1";
    for settings in [
        "max=16M collector=snapshot stress=40",
        &format!("{cycles} collector=realtime"),
        &format!("{cycles} collector=realtime references=brooks stress-move=on"),
        &format!("{cycles} collector=realtime references=replicating stress-move=on"),
        &format!("{cycles} nursery=64K"),
    ] {
        let mut heap = heap(settings);
        let node = heap.define(StructType::new("node").field::<Any>("next").field::<u64>("number"))?;
        let (next, number) = (node.field::<Any>("next")?, node.field::<u64>("number")?);
        let new = |scope: &mut Scope<'_>, n: u64| {
            scope.scope(|scope| {
                let (first, second) = (scope.new_struct(&node)?, scope.new_struct(&node)?);
                scope.set(first, number, n)?;
                scope.set(second, number, n)?;
                scope.set(first, next, second)?;
                scope.root(first)
            })
        };
        let mut roots: Vec<(u64, Root)> = Vec::new();
        for n in 0..2000 {
            roots.push((n, heap.scope(|scope| new(scope, n))?));
        }
        let mut random = 1_u64;
        for round in 0..600 {
            heap.scope(|scope| -> Done {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let (n, root) = roots.swap_remove((random >> 33) as usize % roots.len());
                let held = scope.rooted(&root)?;
                drop(root);
                for _ in 0..random >> 58 {
                    scope.scope(|scope| scope.new_struct(&node).map(drop))?;
                }
                let second = scope.get(held, next)?;
                assert_eq!((scope.get(held, number)?, scope.get(second, number)?), (n, n), "{settings}, round {round}");
                roots.push((10_000 + round, new(scope, 10_000 + round)?));
                Ok(())
            })?;
        }
        heap.verify().unwrap();
        heap.collect();
        assert_eq!(heap.stats().live_objects as usize, 2 * roots.len(), "{settings}");
        for (n, root) in &roots {
            heap.scope(|scope| -> Done {
                let first = scope.rooted(root)?;
                let second = scope.get(first, next)?;
                assert_eq!((scope.get(first, number)?, scope.get(second, number)?), (*n, *n), "{settings}");
                Ok(())
            })?;
        }
    }
    Ok(())
}
