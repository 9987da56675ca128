//! All roots of a store.

use legato_heap::{Budget, Done, Reference, RootCursor, RootVisitor, Roots};

use crate::store::{StoreState, StoredGlobal};
use crate::vm::{activation, frames, snapshot, watermark};

/// Kinds of slots, as a cursor numbers them: owned roots that are to be let go; owned roots; scoped roots; tables;
/// globals; the element segments of the first instance, and so on.
const DROPPED: usize = 0;
const OWNED: usize = 1;
const SCOPED: usize = 2;
const TABLES: usize = 3;
const GLOBALS: usize = 4;
const INSTANCES: usize = 5;

// SAFETY: frames hold what their stack maps say at safepoints; globals, tables, segments and the pending exception hold
// references that compiled code or checked host code has put there; host roots are made of live objects alone. No
// collection leaves any of them out.
unsafe impl Roots for StoreState {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.visit_all_frames(visitor);
        let mut cursor = RootCursor { kind: OWNED, ..RootCursor::default() };
        let all = self.visit_from(visitor, &mut cursor, &mut Budget::unlimited());
        debug_assert_eq!(all, Done::Yes);
    }

    fn visit_frames(&mut self, visitor: &mut dyn RootVisitor) {
        self.roots.begin_visit();
        self.visit_all_frames(visitor);
    }

    fn visit_newest_frames(&mut self, visitor: &mut dyn RootVisitor) {
        self.roots.begin_visit();
        // SAFETY: the heap asks for roots only when this store's compiled code waits at a safepoint, or none is active.
        unsafe { snapshot::visit_newest(self.words(), visitor) };
        self.visit_in_flight(visitor);
    }

    fn visit_older_frames(&mut self, visitor: &mut dyn RootVisitor, budget: &mut Budget) -> Done {
        // SAFETY: the heap visits when compiled code waits at a safepoint or has met a return barrier, on the one
        // thread that a store with active code can be used by.
        unsafe { snapshot::visit_older(self.words(), visitor, budget) }
    }

    fn visit_slots(&mut self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        let done = self.visit_from(visitor, cursor, budget);
        if cursor.kind > OWNED {
            self.roots.end_visit();
        }
        done
    }

    fn visit_young_roots(&mut self, visitor: &mut dyn RootVisitor) {
        // SAFETY: the heap asks for roots only when this store's compiled code waits at a safepoint, or none is active;
        // its visitors tell what is young.
        unsafe { watermark::visit_young_stack_roots(self.words(), visitor) };
        for table in &self.tables {
            table.storage.visit_young_roots(visitor);
        }
        for segment in self.instances.iter_mut().flat_map(|instance| &mut instance.elements) {
            if segment.traced && !segment.is_old {
                segment.is_old = !visit_items(&mut segment.items, visitor);
            }
        }
        self.globals.iter().for_each(|global| visit_global(global, visitor));
        self.roots.visit_young(visitor);
        self.visit_in_flight(visitor);
    }
}

/// Visits elements of a segment; returns whether one of them still leads to a young object.
fn visit_items(items: &mut [Reference], visitor: &mut dyn RootVisitor) -> bool {
    items.iter_mut().fold(false, |is_young, item| is_young | visitor.visit(item))
}

/// Visits the cell of a global.
fn visit_global(global: &StoredGlobal, visitor: &mut dyn RootVisitor) {
    if global.traced {
        // SAFETY: the cell belongs to the store, and compiled code waits.
        visitor.visit(unsafe { &mut *global.cell.cast::<Reference>() });
    }
}

impl StoreState {
    /// Visits what no frame holds, from the cursor on.
    fn visit_from(&mut self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        loop {
            if budget.is_exhausted() {
                return Done::No;
            }
            // Some kinds of slots have several parts.
            let first = cursor.part == 0;
            let done = match cursor.kind {
                DROPPED => first.then(|| self.roots.let_go(budget)),
                OWNED => first.then(|| self.roots.visit_owned(visitor, cursor, budget)),
                SCOPED => first.then(|| self.roots.visit_scoped(visitor, cursor, budget)),
                TABLES => self.tables.get(cursor.part).map(|table| table.storage.visit_roots(visitor, cursor, budget)),
                GLOBALS => self
                    .globals
                    .get(cursor.part)
                    .map(|global| cursor.advance(1, budget, |_| visit_global(global, visitor))),
                kind => match self.instances.get_mut(kind - INSTANCES) {
                    None => return Done::Yes,
                    Some(instance) => instance.elements.get_mut(cursor.part).map(|segment| {
                        let length = if segment.traced { segment.items.len() } else { 0 };
                        cursor.advance(length, budget, |range| {
                            visit_items(&mut segment.items[range], visitor);
                        })
                    }),
                },
            };
            *cursor = match done {
                Some(Done::No) => return Done::No,
                Some(Done::Yes) => RootCursor { part: cursor.part + 1, index: 0, ..*cursor },
                None => RootCursor { kind: cursor.kind + 1, ..RootCursor::default() },
            };
            budget.spend(1);
        }
    }

    fn visit_all_frames(&mut self, visitor: &mut dyn RootVisitor) {
        // SAFETY: the heap asks for roots only when this store's compiled code waits at a safepoint, or none is active.
        unsafe { frames::visit_stack_roots(self.words(), visitor) };
        self.visit_in_flight(visitor);
    }

    /// Visits what is visited all at once at every collection, beside the frames.
    fn visit_in_flight(&mut self, visitor: &mut dyn RootVisitor) {
        activation::visit_activation_roots(self.words(), visitor);
        for (bits, traced) in &mut self.scratch {
            if *traced {
                let mut reference = Reference(*bits as u32);
                visitor.visit(&mut reference);
                *bits = reference.0.into();
            }
        }
        if let Some(exception) = &mut self.pending_exception {
            visitor.visit(exception);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use anyhow::Result;
    use legato_heap::{Collector, HeapConfig};

    use super::*;
    use crate::{AsContextMut, Caller, Config, Engine, ExternRef, Func, Instance, Module, RootScope, Rooted, Store};

    /// Units of a step.
    const UNITS: u64 = 64;

    /// Counts slots that lead to objects.
    #[derive(Default)]
    struct Count(usize);

    impl RootVisitor for Count {
        fn visit(&mut self, slot: &mut Reference) -> bool {
            self.0 += usize::from(slot.is_object());
            false
        }
    }

    /// Counts what all steps visit, and the one that visits most.
    fn steps(mut step: impl FnMut(&mut Count, &mut Budget) -> Done) -> (usize, usize) {
        let (mut all, mut largest) = (0, 0);
        loop {
            let mut count = Count::default();
            let done = step(&mut count, &mut Budget::units(UNITS));
            (all, largest) = (all + count.0, largest.max(count.0));
            if done == Done::Yes {
                return (all, largest);
            }
        }
    }

    #[test]
    fn a_host_function_that_takes_references_can_be_called_more_often_than_32_bits_count() -> Result<()> {
        let mut store = Store::new(&Engine::default(), ());
        let roots = &mut store.as_context_mut().0.opaque.state.roots;
        roots.set_generation(u64::from(u32::MAX) - 2);
        let object = ExternRef::new(&mut store, 7)?;
        let take = Func::wrap(&mut store, |_: Option<Rooted<ExternRef>>| {});
        let module = r#"(module (import "h" "take" (func $take (param externref)))
            (func (export "run") (param externref) (local $left i32)
                (local.set $left (i32.const 10))
                (loop $next
                    (call $take (local.get 0))
                    (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"#;
        let module = Module::new(store.engine(), module)?;
        let instance = Instance::new(&mut store, &module, &[take.into()])?;
        let run = instance.get_typed_func::<Option<Rooted<ExternRef>>, ()>(&mut store, "run")?;
        run.call(&mut store, Some(object))?;
        assert!(object.data(&store)?.is_some_and(|value| value.downcast_ref() == Some(&7)));
        Ok(())
    }

    #[test]
    fn slots_of_any_number_are_visited_in_steps() -> Result<()> {
        const OWNED: usize = 100_000;
        const SCOPED: usize = 100_000;
        const ELEMENTS: usize = 1_000_000;
        const GLOBALS: usize = 10_000;
        const ITEMS: usize = 20_000;
        let mut module = format!("(module (global $any (import \"h\" \"any\") externref) (table {ELEMENTS} externref)");
        (0..GLOBALS).for_each(|_| module.push_str("(global externref (global.get $any))"));
        module.push_str("(elem externref");
        (0..ITEMS).for_each(|_| module.push_str(" (global.get $any)"));
        module.push(')');
        // Some that hold nothing.
        (0..GLOBALS).for_each(|_| module.push_str("(elem externref)(table 1 funcref)"));
        write!(
            module,
            "(func (export \"fill\") (param externref)
                (table.fill (i32.const 0) (local.get 0) (i32.const {ELEMENTS}))))"
        )?;
        let mut store = Store::new(&Engine::default(), ());
        let module = Module::new(store.engine(), module)?;
        let mut scope = RootScope::new(&mut store);
        let object = ExternRef::new(&mut scope, 7)?;
        let any = crate::Global::new(
            &mut scope,
            crate::GlobalType::new(crate::ValType::EXTERNREF, crate::Mutability::Const),
            object.into(),
        )?;
        let instance = Instance::new(&mut scope, &module, &[any.into()])?;
        let fill = instance.get_typed_func::<Option<Rooted<ExternRef>>, ()>(&mut scope, "fill")?;
        fill.call(&mut scope, Some(object))?;
        let owned = (0..OWNED).map(|_| object.to_owned_rooted(&mut scope)).collect::<Result<Vec<_>>>()?;
        let _scoped: Vec<_> = owned[..SCOPED].iter().map(|owned| owned.to_rooted(&mut scope)).collect();
        let state = &mut scope.as_context_mut().0.opaque.state;
        let mut newest = Count::default();
        state.visit_newest_frames(&mut newest);
        assert_eq!(newest.0, 0);
        let parts = [1, 1, 1, state.tables.len(), state.globals.len(), state.instances[0].elements.len()];
        let position = |cursor: RootCursor| parts.iter().take(cursor.kind).sum::<usize>() + cursor.part;
        let mut cursor = RootCursor::default();
        let mut largest_move = 0;
        let (all, largest) = steps(|count, budget| {
            let before = position(cursor);
            let done = state.visit_slots(count, &mut cursor, budget);
            largest_move = largest_move.max(position(cursor) - before);
            done
        });
        let expected = OWNED + SCOPED + ELEMENTS + GLOBALS + ITEMS;
        assert!((expected..expected + 10).contains(&all), "{all} of {expected}");
        // A piece of 256 slots counts 33 units: a step takes two, and then one more part.
        assert!(largest <= 3 * 256, "{largest} slots in one step");
        assert!(largest_move as u64 <= UNITS, "{largest_move} tables, globals or segments in one step");
        Ok(())
    }

    const RECURSION: &str = r#"(module
        (import "h" "bottom" (func $bottom))
        (func $down (export "down") (param $depth i32) (param $object externref) (result externref)
            (if (i32.eqz (local.get $depth)) (then (call $bottom) (return (local.get $object))))
            (drop (call $down (i32.sub (local.get $depth) (i32.const 1)) (local.get $object)))
            (local.get $object)))"#;
    const STACK: usize = 64 << 20;

    /// Calls `bottom` at the bottom of a recursion that fills a stack of 64 MiB.
    fn on_a_deep_stack(collector: Collector, bottom: fn(Caller<'_, usize>)) {
        let run = move || -> Result<()> {
            let mut config = Config::new();
            let engine =
                Engine::new(config.max_wasm_stack(STACK).heap(HeapConfig { collector, ..HeapConfig::default() }))?;
            let mut store = Store::new(&engine, 0);
            let measured = Func::wrap(&mut store, move |mut caller: Caller<'_, usize>| {
                let mut fps = Vec::new();
                // SAFETY: in a host function.
                unsafe { frames::for_each_frame(caller.as_context_mut().0.opaque.words(), |frame| fps.push(frame.fp)) };
                match *caller.data() {
                    0 => *caller.data_mut() = fps[2] - fps[1],
                    _ => {
                        assert!(fps[fps.len() - 1] - fps[0] > STACK * 7 / 8);
                        *caller.data_mut() = fps.len();
                        bottom(caller);
                    }
                }
            });
            let instance = Instance::new(&mut store, &Module::new(&engine, RECURSION)?, &[measured.into()])?;
            let down = instance
                .get_typed_func::<(i32, Option<Rooted<ExternRef>>), Option<Rooted<ExternRef>>>(&mut store, "down")?;
            let object = ExternRef::new(&mut store, 7)?;
            down.call(&mut store, (10, Some(object)))?;
            let depth = STACK / 16 * 15 / *store.data();
            down.call(&mut store, (depth as i32, Some(object)))?;
            store.gc();
            Ok(())
        };
        let thread = std::thread::Builder::new().stack_size(2 * STACK).spawn(run).unwrap();
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn frames_of_a_deep_stack_are_visited_in_steps() {
        on_a_deep_stack(Collector::MarkSweep, |mut caller| {
            let depth = *caller.data();
            let state = &mut caller.as_context_mut().0.opaque.state;
            let mut newest = Count::default();
            state.visit_newest_frames(&mut newest);
            let (older, largest) = steps(|count, budget| state.visit_older_frames(count, budget));
            // Each frame holds one reference.
            assert_eq!(newest.0 + older, depth);
            assert!(newest.0 as u64 <= UNITS && largest as u64 <= UNITS, "{} and {largest} frames", newest.0);
        });
    }

    #[test]
    fn control_returns_to_a_deep_stack_that_is_visited_on_the_way() {
        // A cycle begins, and ends when all frames are gone.
        on_a_deep_stack(Collector::Snapshot, |mut caller| caller.gc());
    }
}
