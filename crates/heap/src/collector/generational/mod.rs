//! The `generational` collector: objects are born in a nursery, whose survivors are copied into a mature space that is
//! marked and swept.
//!
//! A *nursery collection* copies the young objects that the roots and the remembered slots of old objects reach, and
//! takes the nursery's blocks back whole: its pause grows with what survives, with the remembered slots, and slightly
//! with the number of mature blocks, whose cards it looks at. Between two collections old objects are exactly the
//! marked ones of the mature space, for copies are marked before a collection ends, and sweeping is lazy. A *full
//! collection* does the same, then clears the marks, marks from the roots and sweeps like mark-sweep.
//!
//! No memory is set aside for copies. Where there is none, an object stays in place and its block becomes *kept*: still
//! young, it is tried again at the next collection; the collection that lacked memory becomes a full one. `aging` keeps
//! the youngest blocks in the same way, once, so that objects have time to die and none is ever copied twice.
//!
//! Large objects are never copied. They are young until the first collection that they live through, so that the stores
//! of their initialisation need no barrier.
//!
//! Sources: generational collection by survival and promotion (Lieberman and Hewitt 1983, Ungar 1984), card marking
//! (Wilson and Moher 1989), sequential store buffers (Hosking, Moss and Stefanovic 1992), nursery sizes (Appel 1989),
//! prefetching while copying (Cher, Hosking and Vitek 2004), slots rather than objects on the stack (Garner, Blackburn
//! and Frampton 2007). Limits: stop-the-world; the mature space is not compacted;
//! a card scan finds dead old objects too, whose young ones then live until the next full collection.

pub(crate) mod attributes;
mod barrier;
mod collect;
mod evacuation_runs;
mod incremental;
mod nursery_size;
pub(crate) mod params;
mod remembered;
mod scavenge;
mod slot_stack;
mod store_buffer;
#[cfg(test)]
mod tests;
mod verify;

pub use params::{Barrier, Full, GenerationalParams, Nursery};

use crate::ages::Age;
use crate::blocks::Release;
use crate::budget::{Budget, Done};
use crate::collector::{Collect, Collector};
use crate::config::HeapConfig;
use crate::core::Core;
use crate::error::{AllocationError, HeapError};
use crate::observer::{Cause, CollectionKind, HeapStats};
use crate::reference::Reference;
use crate::references::direct::Direct;
use crate::roots::Roots;
use crate::size_classes::MAX_SMALL_BYTES;
use crate::spaces::leaves::LeafKind;
use crate::spaces::nursery;
use crate::spaces::{Contents, Survivors};
use crate::type_table::TypeTable;
use crate::types::TypeId;
use crate::verify::Check;
use barrier::Remember;
use evacuation_runs::EvacuationRuns;
use incremental::Incremental;
use nursery_size::NurserySize;
use scavenge::Work;
use std::sync::Arc;
use std::time::Duration;
use store_buffer::StoreBuffer;

/// Under `stress`, every so many-th collection is a full one.
const FULL_UNDER_STRESS: u64 = 4;
/// The same where there are slices too: it breaks off the cycle that is under way.
const FULL_AMONG_SLICES: u64 = 1000;

/// A heap with this collector.
pub(crate) struct Generational {
    /// Dropped before the core: its helper thread may be writing to the memory that the core owns.
    nursery: nursery::Nursery,
    pub(crate) core: Core<Direct>,
    params: GenerationalParams,
    /// How large the next nursery is.
    size: NurserySize,
    /// Collections of everything in slices; `None` where the mutator is stopped for them.
    incremental: Option<Incremental>,
    work: Work,
    /// The mature cells that objects are copied to next, by size class.
    runs: EvacuationRuns,
    /// Slots that compiled code has stored young references in (store buffer).
    store_buffer: StoreBuffer,
    /// How far memory has been given back that was kept for a while.
    surplus: Option<Release>,
    /// Objects of the mature space and old large ones, dead ones included since the last full collection.
    old_objects: u64,
    /// Young objects that the last collection has left, with their bytes.
    kept: Survivors,
    /// Handed out to the mutator since the last collection, and before it, in bytes.
    allocated: u64,
    allocated_before: u64,
}

impl Generational {
    /// An empty heap. The configuration is valid.
    pub(crate) fn new(config: &HeapConfig, types: Arc<TypeTable>) -> Result<Generational, HeapError> {
        let Collector::Generational(params) = config.collector else { unreachable!("another collector's heap") };
        let mut core = Core::<Direct>::new(config, types)?;
        core.pool.add_cards()?;
        core.views.add_nursery();
        let incremental = match params.full {
            Full::Incremental(params) => Some(Incremental::new(params, &mut core)?),
            Full::Stop => None,
        };
        // What a pause takes says nothing where the heap is looked at in it, or collected all the time.
        let is_for_tests = config.verify || config.stress.is_some();
        let pause = if is_for_tests { 0 } else { params.nursery_pause };
        Ok(Generational {
            size: NurserySize::new(Duration::from_micros(pause.into())),
            nursery: nursery::Nursery::new(&core.pool.cage, config.zeroing(), config.stress.is_some(), config.verify)?,
            store_buffer: StoreBuffer::new(&mut core.context),
            core,
            params,
            incremental,
            work: Work::default(),
            runs: EvacuationRuns::new(),
            surplus: None,
            old_objects: 0,
            kept: Survivors::default(),
            allocated: 0,
            allocated_before: 0,
        })
    }

    /// Collects, as much as is needed, until `take` finds memory behind a collection of such a kind.
    #[cold]
    fn with_memory<R>(
        &mut self,
        mut last: CollectionKind,
        roots: &mut dyn Roots,
        mut take: impl FnMut(&mut Generational) -> Option<R>,
    ) -> Option<R> {
        loop {
            let is_full = last == CollectionKind::Full;
            if !(is_full && self.core.is_exhausted(self.live_bytes()))
                && let Some(found) = take(self)
            {
                return Some(found);
            }
            last = match self.in_cycle() {
                _ if is_full => return None,
                true => self.run(Cause::Exhaustion, CollectionKind::Cycle, 0, roots),
                false => self.run(Cause::Exhaustion, CollectionKind::Full, 0, roots),
            };
        }
    }

    /// Collects, as much as is needed, until there is memory.
    #[cold]
    fn allocate_after_collection(
        &mut self,
        bytes: u32,
        contents: Contents,
        roots: &mut dyn Roots,
    ) -> Result<u32, AllocationError> {
        let kind = self.collect_young(self.core.large_size(bytes, contents), roots);
        let found = self.with_memory(kind, roots, |heap| heap.try_allocate(bytes, contents));
        found.ok_or_else(|| self.core.out_of_memory(bytes, self.size()))
    }

    /// Finds memory; `None` where a collection is due, or would be the only help.
    fn try_allocate(&mut self, bytes: u32, contents: Contents) -> Option<u32> {
        if bytes > MAX_SMALL_BYTES {
            return self.try_allocate_large(bytes, contents);
        }
        if !self.nursery.has_started() {
            self.start_cycle();
        }
        let (pool, context) = (&mut self.core.pool, &mut self.core.context);
        // Who allocates by calls alone, as hosts do, comes here for each object: mostly there is room.
        if let Some(object) = self.nursery.allocate(pool, context, bytes, contents, false) {
            return Some(object);
        }
        if self.is_nursery_over(1) {
            return None;
        }
        if self.young_bytes() >= self.nursery_bytes() {
            // Beside a late helper.
            self.nursery.extend(&mut self.core.pool);
        }
        let used_before = self.nursery.used_bytes();
        let (pool, context) = (&mut self.core.pool, &mut self.core.context);
        let object = self.nursery.allocate(pool, context, bytes, contents, true)?;
        self.allocated += self.nursery.used_bytes() - used_before;
        Some(object)
    }

    /// Large objects count for the nursery's size and for the heap's limit.
    fn try_allocate_large(&mut self, bytes: u32, contents: Contents) -> Option<u32> {
        let size = self.core.large_size(bytes, contents);
        if self.is_nursery_over(size) || self.is_full_due(size) {
            return None;
        }
        let mut found = self.core.allocate_large(bytes, contents);
        if found.is_none() && self.nursery.release_unused(&mut self.core.pool) {
            found = self.core.allocate_large(bytes, contents);
        }
        let object = found?;
        self.nursery.add_large(object, size);
        self.allocated += size;
        Some(object)
    }

    /// Whether so many leaves can be had, if need be in blocks that the nursery can spare.
    fn has_leaves(&mut self, leaves: u64, kind: LeafKind) -> bool {
        let core = &mut self.core;
        let enough = |core: &Core<Direct>| core.leaves.available(kind, &core.pool) >= leaves;
        enough(core) || self.nursery.release_unused(&mut core.pool) && enough(core)
    }

    /// Bytes found live by the last collection, and copied since the last full one.
    fn live_bytes(&self) -> u64 {
        self.core.pacer.size() + self.kept.bytes
    }
}

impl Collect for Generational {
    type Model = Direct;
    type Barrier = Remember;

    fn core(&self) -> &Core<Direct> {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core<Direct> {
        &mut self.core
    }

    fn allocate(
        &mut self,
        id: TypeId,
        bytes: u32,
        contents: Contents,
        roots: &mut dyn Roots,
    ) -> Result<u32, AllocationError> {
        self.core.check_size(bytes, contents)?;
        self.core.toggle_poll();
        self.tick(roots);
        self.keep_schedule(roots);
        let object = match self.try_allocate(bytes, contents) {
            Some(object) => object,
            None => self.allocate_after_collection(bytes, contents, roots)?,
        };
        self.core.stats.slow_allocations += 1;
        self.core.stats.large_allocations += (bytes > MAX_SMALL_BYTES) as u64;
        // SAFETY: the memory is free and large enough, and there is nothing to prepare.
        unsafe { self.core.start_object(object, id) };
        Ok(object)
    }

    fn reserve_leaves(&mut self, leaves: u64, kind: LeafKind, roots: &mut dyn Roots) -> Result<(), AllocationError> {
        let bytes = leaves * u64::from(self.core.leaves.leaf_bytes());
        if self.is_nursery_over(bytes) || self.is_full_due(bytes) {
            self.collect_young(bytes, roots);
        }
        let has_leaves = |heap: &mut Generational| heap.has_leaves(leaves, kind).then_some(());
        let found = self.with_memory(CollectionKind::Nursery, roots, has_leaves);
        found.ok_or_else(|| self.core.out_of_memory(bytes.min(u32::MAX.into()) as u32, self.size()))
    }

    #[inline]
    fn barrier(&self, object: u32) -> Remember {
        let is_marking = self.incremental.as_ref().is_some_and(Incremental::is_marking);
        Remember { object, is_old: self.nursery.ages.of(object) == Age::Old, is_marking }
    }

    fn slice(&mut self, roots: &mut dyn Roots) {
        self.keep_schedule(roots);
    }

    fn external_allocated(&mut self, slot: u32) {
        self.core.externals.add_young(slot);
    }

    fn is_young(&self, object: Reference) -> bool {
        object.is_object() && self.nursery.ages.of(object.0) != Age::Old
    }

    fn collect(&mut self, cause: Cause, roots: &mut dyn Roots) {
        self.run(cause, CollectionKind::Full, 0, roots);
    }

    fn release_nursery(&mut self) {
        let _ = self.nursery.release_unused(&mut self.core.pool);
    }

    fn collect_leaves(&mut self, roots: &mut dyn Roots) {
        self.collect_young(0, roots);
    }

    fn collect_externals(&mut self, roots: &mut dyn Roots) {
        if self.core.externals.are_many_young() {
            self.collect_young(0, roots);
        } else if self.core.externals.are_many() {
            self.keep_schedule(roots);
        }
    }

    fn collect_stressed(&mut self, roots: &mut dyn Roots) {
        let between_full = if self.incremental.is_some() { FULL_AMONG_SLICES } else { FULL_UNDER_STRESS };
        if (self.core.stats.collections + 1).is_multiple_of(between_full) {
            return self.collect(Cause::Stress, roots);
        }
        self.run(Cause::Stress, CollectionKind::Nursery, 0, roots);
        self.slice_under_stress(roots);
    }

    fn allocate_immortal(&mut self, bytes: u32) -> Result<u32, AllocationError> {
        let pool = &mut self.core.pool;
        let mut record = self.core.immortal.allocate(pool, bytes);
        if record.is_none() && self.nursery.release_unused(pool) {
            record = self.core.immortal.allocate(pool, bytes);
        }
        record.ok_or_else(|| self.core.out_of_memory(bytes, self.size()))
    }

    fn flush_store_buffer(&mut self) {
        let (pool, small, types) = (&self.core.pool, &self.core.small, &self.core.types);
        self.store_buffer.flush(&mut self.core.context, |slot| {
            pool.cage.mark_card(remembered::card_of_slot(pool, small, types, slot));
        });
    }

    fn visit_older_frames(&mut self, roots: &mut dyn Roots) {
        if let Some(incremental) = &mut self.incremental {
            incremental.cycle.visit_older_frames(&mut self.core, roots, Some(&self.nursery.ages));
        }
    }

    fn collect_some(&mut self, budget: &mut Budget, roots: &mut dyn Roots) -> Done {
        self.collect_some_in_cycle(budget, roots)
    }

    #[cfg(test)]
    fn phase(&self) -> &'static str {
        self.incremental.as_ref().map_or("waiting", |incremental| incremental.cycle.phase())
    }

    fn check(&self, roots: Option<&mut dyn Roots>) -> Check {
        self.check_all(roots)
    }

    fn size(&self) -> u64 {
        self.live_bytes() + self.allocated
    }

    fn stats(&self) -> HeapStats {
        HeapStats {
            live_bytes: self.live_bytes(),
            live_objects: self.old_objects + self.kept.objects,
            allocated_bytes: self.allocated_before + self.allocated + self.core.leaves.allocated_bytes(),
            ..self.core.stats()
        }
    }
}
