//! Weak references to the world's objects.

use super::{Value, World};
use legato_heap::{Reference, WeakId};
use std::collections::{HashMap, HashSet};

/// What weak references there are.
#[derive(Default)]
pub struct Shadow {
    /// Each with its object's number.
    all: Vec<(WeakId, usize)>,
    /// Those of which the heap has said that the object has died.
    cleared: HashSet<WeakId>,
}

impl Shadow {
    pub fn count(&self) -> usize {
        self.all.len()
    }
}

impl World {
    /// Once a collection is over, everybody has been told of.
    pub(super) fn check_told(&mut self) {
        for &(weak, _) in &self.weak.all {
            assert_eq!(self.heap.get_weak(weak).is_none(), self.weak.cleared.contains(&weak));
        }
    }

    pub(super) fn make_weak(&mut self) {
        let Some((reference, number)) = self.pick() else { return };
        // SAFETY: a root.
        let weak = unsafe { self.heap.make_weak(reference) };
        assert!(self.weak.all.iter().all(|(other, _)| *other != weak));
        self.weak.all.push((weak, number));
    }

    /// Makes a weakly reachable object, if it has not died, a root again.
    pub(super) fn get_weak(&mut self) {
        if self.weak.all.is_empty() {
            return;
        }
        let (weak, number) = self.weak.all[self.random.below(self.weak.all.len())];
        if let Some(reference) = self.heap.get_weak(weak) {
            let index = self.random.below(self.shadow_roots.len());
            self.set_root(index, reference);
            self.shadow_roots[index] = Value::Object(number);
        }
    }

    pub(super) fn drop_weak(&mut self) {
        if self.weak.all.is_empty() {
            return;
        }
        let index = self.random.below(self.weak.all.len());
        let (weak, _) = self.weak.all.swap_remove(index);
        self.heap.drop_weak(weak);
        assert_eq!(self.heap.get_weak(weak), None);
        self.weak.cleared.remove(&weak);
    }

    /// Drops the weak references to an object.
    pub(super) fn forget_weak(&mut self, number: usize) {
        let World { heap, weak, .. } = self;
        for (weak, _) in weak.all.extract_if(.., |(_, other)| *other == number) {
            heap.drop_weak(weak);
        }
        weak.cleared.retain(|cleared| weak.all.iter().any(|(weak, _)| weak == cleared));
    }

    /// What weak references lead to. No object that is `met` has been taken for dead. Nobody is told of one that can
    /// still be got, nor twice of any.
    pub(super) fn weakly_reachable(&mut self, met: &HashMap<usize, Reference>) -> Vec<(Value, Reference)> {
        while let Some(weak) = self.heap.take_cleared() {
            assert!(self.weak.cleared.insert(weak), "told twice");
        }
        let mut found = Vec::new();
        for &(weak, number) in &self.weak.all {
            let object = self.heap.get_weak(weak);
            assert!(object.is_none() || !self.weak.cleared.contains(&weak), "told of a living object");
            match object {
                Some(reference) => found.push((Value::Object(number), reference)),
                None => assert!(!met.contains_key(&number), "object {number} was taken for dead"),
            }
        }
        found
    }
}
