//! The references that host code holds, and all roots of a store together.

use std::sync::Arc;

use anyhow::{Result, bail};
use legato_heap::{Budget, Done, Reference, RootCursor, RootVisitor, Roots};

use crate::store::{StoreState, StoredGlobal};
use crate::vm::{activation, frames, snapshot, watermark};

/// A place in the stack of scoped roots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootScopeMark(usize);

/// A scoped root's identity. The generation tells a slot from its later tenants: 64 bits, since guests can drop roots
/// as often as they like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RootIndex {
    index: usize,
    generation: u64,
}

impl RootIndex {
    /// No root.
    pub(crate) const NONE: RootIndex = RootIndex { index: usize::MAX, generation: u64::MAX };
}

/// References held by host code.
#[derive(Default, Debug)]
pub(crate) struct HostRoots {
    /// Last in, first out.
    scoped: Vec<(u64, Reference)>,
    /// Grows whenever scoped roots are dropped.
    generation: u64,
    /// Each lives until all clones of its token but this one are gone.
    owned: Vec<Option<(Arc<()>, Reference)>>,
    free: Vec<usize>,
}

impl HostRoots {
    pub(crate) fn push(&mut self, reference: Reference) -> RootIndex {
        let index = self.scoped.len();
        self.scoped.push((self.generation, reference));
        RootIndex { index, generation: self.generation }
    }

    pub(crate) fn get(&self, root: RootIndex) -> Result<Reference> {
        match self.scoped.get(root.index) {
            Some(&(generation, reference)) if generation == root.generation => Ok(reference),
            _ => bail!("a rooted reference was used after the end of its scope"),
        }
    }

    pub(crate) fn enter(&self) -> RootScopeMark {
        RootScopeMark(self.scoped.len())
    }

    pub(crate) fn exit(&mut self, mark: RootScopeMark) {
        if self.scoped.len() > mark.0 {
            self.scoped.truncate(mark.0);
            self.generation += 1;
        }
    }

    pub(crate) fn own(&mut self, reference: Reference) -> (usize, Arc<()>) {
        let token = Arc::new(());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.owned.push(None);
            self.owned.len() - 1
        });
        self.owned[slot] = Some((token.clone(), reference));
        (slot, token)
    }

    pub(crate) fn get_owned(&self, slot: usize) -> Reference {
        self.owned[slot].as_ref().expect("a slot is kept while its token lives").1
    }

    fn visit(&mut self, visitor: &mut dyn RootVisitor) {
        for (_, reference) in &mut self.scoped {
            visitor.visit(reference);
        }
        for (index, slot) in self.owned.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(|(token, _)| Arc::strong_count(token) == 1) {
                *slot = None;
                self.free.push(index);
            }
            if let Some((_, reference)) = slot {
                visitor.visit(reference);
            }
        }
    }
}

/// Kinds of slots, as a cursor numbers them: tables; globals; the element segments of the first instance, and so on.
const TABLES: usize = 0;
const GLOBALS: usize = 1;
const INSTANCES: usize = 2;

// SAFETY: frames hold what their stack maps say at safepoints; globals, tables, segments and the pending exception hold
// references that compiled code or checked host code has put there; host roots are made of live objects alone. No
// collection leaves any of them out.
unsafe impl Roots for StoreState {
    fn visit_roots(&mut self, visitor: &mut dyn RootVisitor) {
        self.visit_frames(visitor);
        let all = self.visit_slots(visitor, &mut RootCursor::default(), &mut Budget::unlimited());
        debug_assert_eq!(all, Done::Yes);
    }

    fn visit_frames(&mut self, visitor: &mut dyn RootVisitor) {
        // SAFETY: the heap asks for roots only when this store's compiled code waits at a safepoint, or none is active.
        unsafe { frames::visit_stack_roots(self.words(), visitor) };
        self.visit_host_roots(visitor);
    }

    fn visit_newest_frames(&mut self, visitor: &mut dyn RootVisitor) {
        // SAFETY: as in `visit_frames`: compiled code waits at a safepoint, or none is active.
        unsafe { snapshot::visit_newest(self.words(), visitor) };
        self.visit_host_roots(visitor);
    }

    fn visit_older_frames(&mut self, visitor: &mut dyn RootVisitor, budget: &mut Budget) -> Done {
        // SAFETY: the heap visits when compiled code waits at a safepoint or has met a return barrier, on the one
        // thread that a store with active code can be used by.
        unsafe { snapshot::visit_older(self.words(), visitor, budget) }
    }

    fn visit_slots(&mut self, visitor: &mut dyn RootVisitor, cursor: &mut RootCursor, budget: &mut Budget) -> Done {
        loop {
            // A kind of slots has several parts.
            let done = match cursor.kind {
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
        }
    }

    fn visit_young_roots(&mut self, visitor: &mut dyn RootVisitor) {
        // SAFETY: as in `visit_frames`: compiled code waits; the heap's visitors tell what is young.
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
        self.visit_host_roots(visitor);
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
    /// Visits what is visited all at once at every collection, beside the frames.
    fn visit_host_roots(&mut self, visitor: &mut dyn RootVisitor) {
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
        self.roots.visit(visitor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AsContextMut, Engine, ExternRef, Func, Instance, Module, Rooted, Store};

    #[test]
    fn a_host_function_that_takes_references_can_be_called_more_often_than_32_bits_count() -> Result<()> {
        let mut store = Store::new(&Engine::default(), ());
        let roots = &mut store.as_context_mut().0.opaque.state.roots;
        roots.generation = u64::from(u32::MAX) - 2;
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
    fn a_root_of_an_ended_scope_is_told_from_the_next_in_its_place() {
        let mut roots = HostRoots { generation: u32::MAX.into(), ..HostRoots::default() };
        let mark = roots.enter();
        let first = roots.push(Reference(8));
        roots.exit(mark);
        let second = roots.push(Reference(16));
        assert!(roots.get(first).is_err());
        assert_eq!(roots.get(second).unwrap(), Reference(16));
    }
}
