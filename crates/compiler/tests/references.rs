//! Compiled code finds objects by the data of the reference plan alone: by that of today's models, and by plans that no
//! heap has yet.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use legato_compiler::artifact::TrapCode;
use legato_heap::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use legato_heap::plan::{
    AccessPlan, BarrierPlan, CollectorWord, ForwardingWord, HeaderWord, ObjectAt, ReferencePlan, SameObject,
};
use legato_heap::references::References;
use world::{Instance, Polls, with_world};

/// Each plan with a name.
fn plans() -> Vec<(&'static str, ReferencePlan)> {
    let direct = References::Direct.plan();
    let forwarding = ReferencePlan {
        object: ObjectAt::Through { offset: COLLECTOR_WORD_OFFSET },
        type_id: HeaderWord::AtReference { offset: TYPE_ID_OFFSET },
        array_length: HeaderWord::AtReference { offset: ARRAY_LENGTH_OFFSET },
        same: SameObject::Canonical { offset: COLLECTOR_WORD_OFFSET, word: ForwardingWord::Current },
        collector_word: CollectorWord::Reference,
        ..direct
    };
    vec![
        ("direct", direct),
        ("thin handles", References::ThinHandles.plan()),
        ("forwarding", forwarding),
        ("uni-sized handles", References::UniHandles.plan()),
        ("fat handles", References::FatHandles.plan()),
        ("replicating", References::Replicating.plan()),
    ]
}

const MODULE: &str = "(module
    (type $point (sub (struct (field (mut i32)) (field (mut (ref null eq))))))
    (type $row (array (mut i32)))
    (global $point (mut (ref null $point)) (ref.null $point))
    (global $copy (mut (ref null $point)) (ref.null $point))
    (global $row (mut (ref null $row)) (ref.null $row))
    (func (export \"make\")
      (global.set $point (struct.new $point (i32.const 7) (ref.i31 (i32.const 3))))
      (global.set $copy (struct.new $point (i32.const 8) (ref.null none)))
      (global.set $row (array.new $row (i32.const 9) (i32.const 5))))
    (func (export \"point\") (result i32 i32)
      (struct.get $point 0 (global.get $point))
      (ref.test (ref $point) (struct.get $point 1 (global.get $copy))))
    (func (export \"tests\") (result i32 i32 i32 i32)
      (local $any anyref)
      (local.set $any (global.get $point))
      (ref.test (ref $point) (local.get $any)) (ref.test (ref array) (local.get $any))
      (local.set $any (global.get $row))
      (ref.test (ref $point) (local.get $any)) (ref.test (ref array) (local.get $any)))
    (func (export \"row\") (result i32 i32)
      (array.len (global.get $row)) (array.get $row (global.get $row) (i32.const 4)))
    (func (export \"store\") (param i32)
      (struct.set $point 0 (global.get $point) (local.get 0))
      (struct.set $point 1 (global.get $copy) (global.get $point))
      (array.set $row (global.get $row) (i32.const 4) (local.get 0)))
    (func (export \"same\") (result i32 i32 i32 i32 i32)
      (ref.eq (global.get $point) (global.get $copy)) (ref.eq (global.get $copy) (global.get $point))
      (ref.eq (global.get $point) (global.get $row))
      (ref.eq (global.get $point) (ref.null none))
      (ref.eq (ref.i31 (i32.const 2)) (global.get $point)))
    (func (export \"null\") (result i32) (array.len (ref.null $row))))";

#[test]
fn objects_are_found_where_the_plan_says() {
    for (name, references) in plans() {
        let store_barrier = BarrierPlan { mirror: references.mirror(), ..BarrierPlan::NONE };
        let plan = AccessPlan { references, store_barrier, ..support::plan(References::Direct) };
        let mut instance = Instance::new(MODULE, plan, Polls::Never);
        let mut call = |function, params: &[i32], results| instance.call(function, params, results);
        call(0, &[], 0).unwrap();
        assert_eq!(call(1, &[], 2).unwrap(), [7, 0], "{name}");
        assert_eq!(call(2, &[], 4).unwrap(), [1, 0, 0, 1], "{name}");
        assert_eq!(call(3, &[], 2).unwrap(), [5, 9], "{name}");
        assert_eq!(call(5, &[], 5).unwrap(), [0; 5], "{name}");
        call(4, &[11], 0).unwrap();
        assert_eq!(call(1, &[], 2).unwrap(), [11, 1], "{name}");
        assert_eq!(call(3, &[], 2).unwrap(), [5, 11], "{name}");
        assert_eq!(call(6, &[], 1), Err(TrapCode::NullReference), "{name}");
        // Both globals lead to one object now, by an old reference and a new one where there are such.
        with_world(|world| {
            let [point, row] = [0, 2].map(|number| world.global(number));
            let moved = world.move_object(point);
            world.set_global(1, moved);
            world.move_object(row);
        });
        assert_eq!(call(5, &[], 5).unwrap(), [1, 1, 0, 0, 0], "{name}");
        assert_eq!(call(1, &[], 2).unwrap(), [11, 0], "{name}");
        assert_eq!(call(2, &[], 4).unwrap(), [1, 0, 0, 1], "{name}");
        call(4, &[12], 0).unwrap();
        assert_eq!(call(1, &[], 2).unwrap(), [12, 1], "{name}");
        assert_eq!(call(3, &[], 2).unwrap(), [5, 12], "{name}");
    }
}
