//! The heap, its types and its finalisers.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use super::error::Error;
use super::handles::{Slots, Weak};
use super::scope::Scope;
use super::stored::Stored;
use super::types::{ArrayType, StructType, Type, TypeInner};
use crate::budget::{Budget, Done};
use crate::config::HeapConfig;
use crate::heap::Heap;
use crate::observer::{Cause, GcObserver, HeapStats};
use crate::reference::Reference;
use crate::type_table::TypeTable;
use crate::types::{TypeId, TypeInfo, TypeShape};
use crate::verify::VerifyError;
use crate::weak::WeakId;

/// What is called when an object has died.
type Finaliser = Box<dyn FnOnce() + Send>;

/// A heap whose objects are reached through [`Scope`]s.
pub struct ObjectHeap {
    pub(super) heap: Heap,
    pub(super) slots: Slots,
    names: HashMap<TypeId, String>,
    finalisers: HashMap<WeakId, Finaliser>,
}

impl ObjectHeap {
    /// An empty heap. It reserves 72 GiB of address space, which is no memory, and 256 MiB for its types. One whose
    /// `max` is set to 1 GiB or less, with contiguous arrays and copies for native views, reserves little more than
    /// twice its `max`, or four times a smaller one. Under a limit on address space (`ulimit -v`), what is not set fits
    /// that.
    ///
    /// # Errors
    /// [`Error::Heap`] where the configuration is contradictory, or address space is lacking.
    pub fn new(config: &HeapConfig) -> Result<ObjectHeap, Error> {
        let heap = Heap::new(config, TypeTable::new()?)?;
        let names = HashMap::from([(TypeTable::EXTERNAL, "a value of the host".to_owned())]);
        Ok(ObjectHeap { heap, slots: Slots::new(), names, finalisers: HashMap::new() })
    }

    /// Makes a type of structs. Each call makes another type.
    ///
    /// # Errors
    /// [`Error::Field`] where two fields have one name, [`Error::OtherHeap`] where the supertype is of another heap,
    /// [`Error::Heap`] where it is too large or there are too many.
    pub fn define(&mut self, ty: StructType) -> Result<Type, Error> {
        let StructType { name, parent, fields } = ty;
        let mut names = HashSet::new();
        if let Some((field, _)) = fields.iter().find(|(field, _)| !names.insert(field)) {
            return Err(Error::Field { ty: name, what: "more than one", field: field.clone() });
        }
        if parent.as_ref().is_some_and(|parent| parent.inner.heap != self.slots.heap) {
            return Err(Error::OtherHeap("type"));
        }
        let shape = TypeShape::Struct(fields.iter().map(|&(_, kind)| kind).collect());
        let id = self.heap.types().register(TypeInfo { shape, supertype: parent.map(|parent| parent.inner.id) })?;
        let offsets = self.heap.types().layout(id).expect("a struct has a layout").offsets.clone();
        self.names.insert(id, name.clone());
        let inner = TypeInner { heap: self.slots.heap, id, name, fields, offsets };
        Ok(Type { inner: inner.into() })
    }

    /// Makes a type of arrays. Each call makes another type.
    ///
    /// # Errors
    /// [`Error::Heap`] where there are too many types.
    pub fn define_array<T: Stored>(&mut self, name: &str) -> Result<ArrayType<T>, Error> {
        let id = self.heap.types().register(TypeInfo { shape: TypeShape::Array(T::KIND), supertype: None })?;
        self.names.insert(id, name.to_owned());
        Ok(ArrayType::of(self.slots.heap, id))
    }

    /// Does something in a scope.
    pub fn scope<R>(&mut self, body: impl for<'s> FnOnce(&mut Scope<'s>) -> R) -> R {
        body(&mut Scope::enter(self))
    }

    /// Collects garbage now.
    pub fn collect(&mut self) {
        let (heap, slots) = self.prepared();
        heap.collect(Cause::Requested, slots);
    }

    /// Collects for about this time, where the heap does so in slices, and says whether nothing is left to do: for
    /// programs that are idle now and must not be late then. Where it does not, nothing is done.
    pub fn collect_some(&mut self, time: Duration) -> bool {
        // Beyond what the clock can tell is without end.
        let mut budget = Instant::now().checked_add(time).map_or_else(Budget::unlimited, Budget::until);
        let (heap, slots) = self.prepared();
        heap.collect_some(&mut budget, slots) == Done::Yes
    }

    /// Collects garbage now, and gives all memory that is free then back to the system; returns how many bytes fewer
    /// the heap has. For programs that will not use it for a while. Memory is given back in whole blocks of 32 KiB, or
    /// leaves where these are larger; blocks of handles stay under `handle-release=naive`, and where a cache has them.
    pub fn trim(&mut self) -> u64 {
        let (heap, slots) = self.prepared();
        heap.trim(slots)
    }

    /// The heap and its roots, for a call that may collect: without handles that have been dropped.
    #[inline]
    pub(super) fn prepared(&mut self) -> (&mut Heap, &mut Slots) {
        if self.slots.has_dropped() {
            self.slots.forget_dropped(&mut self.heap);
        }
        (&mut self.heap, &mut self.slots)
    }

    /// Calls the finalisers of objects that have been found dead; returns how many they were. Nobody else calls them:
    /// so they come when it suits the program.
    pub fn run_finalisers(&mut self) -> usize {
        self.prepared();
        let mut count = 0;
        while let Some(weak) = self.heap.take_cleared() {
            // Of a weak handle nobody needs to be told.
            if let Some(finaliser) = self.finalisers.remove(&weak) {
                self.heap.drop_weak(weak);
                finaliser();
                count += 1;
            }
        }
        count
    }

    /// Running totals.
    pub fn stats(&self) -> HeapStats {
        self.heap.stats()
    }

    /// Reports every collection to `observer` from now on.
    pub fn set_observer(&mut self, observer: Box<dyn GcObserver>) {
        self.heap.set_observer(observer);
    }

    /// Walks the whole heap and checks its invariants.
    ///
    /// # Errors
    /// The first that is broken: a defect of the heap.
    pub fn verify(&mut self) -> Result<(), VerifyError> {
        self.heap.verify(Some(&mut self.slots))
    }

    /// Has a finaliser called once a live object has died.
    pub(super) fn add_finaliser(&mut self, object: Reference, finaliser: Finaliser) {
        // SAFETY: the object is live, by the contract.
        let weak = unsafe { self.heap.make_weak(object) };
        self.finalisers.insert(weak, finaliser);
    }

    /// A weak handle of a live object.
    pub(super) fn make_weak(&mut self, object: Reference) -> Weak {
        self.prepared();
        // SAFETY: the object is live, by the contract.
        self.slots.weak(unsafe { self.heap.make_weak(object) })
    }

    /// What a type is called.
    pub(super) fn name(&self, id: TypeId) -> String {
        self.names.get(&id).cloned().unwrap_or_else(|| format!("{id:?}"))
    }
}

impl fmt::Debug for ObjectHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectHeap").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
