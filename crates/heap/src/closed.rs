//! A heap before there is any object: a configuration, and the context that compiled code and other threads know
//! already. It reserves no address space.

use crate::config::HeapConfig;
use crate::context::Context;
use crate::error::HeapError;
use crate::heap::{Heap, Inner, dispatch};
use crate::observer::{GcObserver, HeapStats};
use crate::pressure::PressureSource;
use crate::reference::Reference;
use crate::roots::{RootVisitor, Roots};
use crate::type_table::TypeTable;
use crate::verify::VerifyError;
use std::sync::Arc;
use std::time::Instant;

/// See the module's documentation.
pub(crate) struct Closed {
    /// As it was given.
    given: HeapConfig,
    /// The same with a maximum.
    pub(crate) config: HeapConfig,
    pub(crate) types: Arc<TypeTable>,
    pub(crate) context: Context,
    pub(crate) observer: Option<Box<dyn GcObserver>>,
    pub(crate) source: Option<Box<dyn PressureSource>>,
    made: Instant,
}

impl Closed {
    /// Running totals.
    pub(crate) fn stats(&self) -> HeapStats {
        let bounds = self.config.bounds();
        HeapStats { maximum_bytes: bounds.maximum, limit_bytes: bounds.minimum, ..HeapStats::default() }
    }

    /// Checks that no root is an object.
    pub(crate) fn verify(&self, roots: Option<&mut dyn Roots>) -> Result<(), VerifyError> {
        let mut objects = Objects(Vec::new());
        if let Some(roots) = roots {
            roots.visit_roots(&mut objects);
        }
        match objects.0[..] {
            [] => Ok(()),
            [object, ..] => Err(VerifyError(format!("a root is {object:?}, but the heap is closed"))),
        }
    }
}

/// Notes objects among the roots.
struct Objects(Vec<Reference>);

impl RootVisitor for Objects {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        self.0.extend(slot.is_object().then_some(*slot));
        false
    }
}

impl Heap {
    /// Makes a *closed* heap: as [`new`](Self::new), but it reserves no address space until it is [opened](Self::open).
    /// Until then there are no objects: methods that allocate, or get one, panic; all others do what they do with an
    /// empty heap. It is never collected.
    ///
    /// ```
    /// use legato_heap::{Cause, Heap, HeapConfig, NoRoots, TypeInfo, TypeShape, TypeTable};
    ///
    /// let types = TypeTable::new()?;
    /// let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None })?;
    /// let mut heap = Heap::new_closed(&HeapConfig::default(), types)?;
    /// let context = heap.mutator_context();
    /// heap.collect(Cause::Requested, &mut NoRoots);
    /// assert!(heap.cage_base().is_null() && heap.stats().collections == 0);
    /// heap.open()?;
    /// heap.allocate_struct(id, &mut NoRoots)?;
    /// assert!(!heap.cage_base().is_null() && heap.mutator_context() == context);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`HeapError::InvalidConfig`].
    pub fn new_closed(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Heap, HeapError> {
        config.validate()?;
        let (bounded, _) = config.with_maximum();
        bounded.validate()?;
        Ok(Heap(Inner::Closed(Box::new(Closed {
            given: config.clone(),
            config: bounded,
            types,
            context: Context::new(),
            observer: None,
            source: None,
            made: Instant::now(),
        }))))
    }

    /// Whether it is not [closed](Self::new_closed).
    pub fn is_open(&self) -> bool {
        !matches!(self.0, Inner::Closed(_))
    }

    /// Opens a closed heap: the base of the cage is another afterwards, the mutator context lies where it was. Where
    /// the configuration has no maximum, the machine is asked anew what there is. Nothing happens to a heap that is
    /// open.
    ///
    /// # Errors
    /// As for [`new`](Self::new); the heap stays closed then.
    pub fn open(&mut self) -> Result<(), HeapError> {
        let Inner::Closed(closed) = &self.0 else { return Ok(()) };
        let opened = Heap::new(&closed.given, closed.types.clone())?;
        let Inner::Closed(closed) = std::mem::replace(self, opened).0 else { unreachable!("looked at above") };
        dispatch!(&mut self.0, heap => {
            heap.core.context.take_place_of(closed.context);
            heap.core.made = closed.made;
        });
        if let Some(source) = closed.source {
            self.set_pressure_source(source);
        }
        if let Some(observer) = closed.observer {
            self.set_observer(observer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collector, NoRoots, RootStack, Sizing, TypeInfo, TypeShape};

    fn closed(config: &HeapConfig) -> Heap {
        Heap::new_closed(config, TypeTable::new().unwrap()).unwrap()
    }

    #[test]
    fn what_cannot_be_is_refused_at_once() {
        let config = HeapConfig { stress_polls: true, ..HeapConfig::default() };
        let error = Heap::new_closed(&config, TypeTable::new().unwrap()).unwrap_err();
        assert!(matches!(error, HeapError::InvalidConfig(_)), "{error}");
    }

    #[test]
    fn a_closed_heap_knows_what_an_empty_one_knows() {
        for sizing in [Sizing::Fixed, HeapConfig::default().sizing] {
            let config = HeapConfig { sizing, max_bytes: Some(64 << 20), ..HeapConfig::default() };
            let mut heap = closed(&config);
            assert_eq!((heap.config(), heap.stats().maximum_bytes), (&config, 64 << 20));
            let number = Reference::from_i31(3);
            assert!(heap.same(number, number) && !heap.same(number, Reference::NULL));
            assert_eq!((heap.current(number), heap.has_old_copies()), (number, false));
            assert!(heap.external(number).is_none() && heap.external_mut(Reference::NULL).is_none());
            heap.before_root_store([number].into_iter());
            heap.visit_older_frames(&mut NoRoots);
            heap.poll(&mut NoRoots);
            assert!(heap.take_cleared().is_none());
            let stats = heap.stats();
            heap.open().unwrap();
            assert_eq!(heap.config(), &config);
            assert_eq!(heap.stats().maximum_bytes, stats.maximum_bytes);
            // Opening an open heap changes nothing.
            let base = heap.cage_base();
            heap.open().unwrap();
            assert_eq!(heap.cage_base(), base);
        }
    }

    #[test]
    fn no_root_of_a_closed_heap_is_an_object() {
        let heap = closed(&HeapConfig::default());
        let mut roots = RootStack::new();
        // SAFETY: neither is an object, and verifying follows no root of a closed heap.
        unsafe {
            roots.push(Reference::NULL);
            roots.push(Reference::from_i31(-1));
            assert_eq!(heap.verify(Some(&mut roots)), Ok(()));
            roots.push(Reference(0x1_0000));
        }
        assert!(heap.verify(Some(&mut roots)).is_err());
        assert_eq!(heap.verify(None), Ok(()));
    }

    #[test]
    fn polls_are_stressed_once_the_heap_is_open() {
        let collector = Collector::MarkSweep;
        let config = HeapConfig { stress: Some(1), stress_polls: true, collector, ..HeapConfig::default() };
        let types = TypeTable::new().unwrap();
        let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
        let mut heap = Heap::new_closed(&config, types).unwrap();
        // SAFETY: the context lives as long as the heap.
        let poll = unsafe { &(*heap.mutator_context()).poll };
        let now = || poll.load(std::sync::atomic::Ordering::Relaxed);
        poll.store(2, std::sync::atomic::Ordering::Relaxed);
        heap.open().unwrap();
        assert_eq!(now(), 2 | 1 << 31, "what the embedder has asked for, and the heap's own");
        heap.allocate_struct(id, &mut NoRoots).unwrap();
        assert_eq!(heap.stats().collections, 1);
    }

    #[test]
    #[should_panic(expected = "a closed heap has no objects")]
    fn a_closed_heap_allocates_nothing() {
        let types = TypeTable::new().unwrap();
        let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
        let _ = Heap::new_closed(&HeapConfig::default(), types).unwrap().allocate_struct(id, &mut NoRoots);
    }
}
