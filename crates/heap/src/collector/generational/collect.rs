//! When the generational heap collects, and in which order.

use super::scavenge::{FORWARDED, Scavenger, Tally};
use super::{Barrier, Generational, Nursery};
use crate::ages::Age;
use crate::blocks::{BLOCK_BYTES, Release};
use crate::budget::{Budget, Done, finish};
use crate::collector::Collect;
use crate::external::Fate;
use crate::layout::TYPE_ID_OFFSET;
use crate::observer::{Cause, CollectionKind, GcEvent, Phase, PhaseTimes, StopKind};
use crate::reference::Reference;
use crate::roots::Roots;
use crate::spaces::Survivors;
use crate::verify::due::When;
use std::time::{Duration, Instant};

/// A nursery below this size is not worth a cycle: an Appel nursery that would be smaller calls for a full collection.
const LEAST_APPEL_BYTES: u64 = 512 << 10;
/// The nursery takes at most this part of the heap's maximum.
const NURSERY_PART: u64 = 4;
/// The smallest nursery: a block to allocate in, and one to go on in.
const LEAST_BYTES: u64 = 2 * BLOCK_BYTES as u64;

/// What is known of a collection under way.
#[derive(Default)]
struct Progress {
    phases: PhaseTimes,
    /// Of evacuation, what does not depend on the nursery's size; and all of it. By the clock of
    /// [`NurserySize`](super::nursery_size::NurserySize).
    fixed: Duration,
    evacuation: Duration,
    promoted: Survivors,
    /// Objects found live.
    survivors: u64,
    /// Whether there was no memory to copy an object to.
    lacked_memory: bool,
}

impl Generational {
    /// The least size of an Appel nursery, in bytes.
    fn least_appel_bytes(&self) -> u64 {
        LEAST_APPEL_BYTES.min(self.core.config.maximum() / (2 * NURSERY_PART)).max(LEAST_BYTES)
    }

    /// How much may be allocated in a cycle, in bytes.
    pub(super) fn nursery_bytes(&self) -> u64 {
        let most = (self.core.config.maximum() / NURSERY_PART).max(LEAST_BYTES);
        self.size.bytes(match self.params.nursery {
            Nursery::Fixed(bytes) => bytes.min(most),
            Nursery::Appel => (self.core.pacer.headroom() / 2).max(self.least_appel_bytes()),
        })
    }

    /// Whether the nursery is to be collected before `bytes` more are allocated. While that would have to wait for a
    /// late helper, the nursery may be twice as large, if that leaves memory to evacuate it.
    pub(super) fn is_nursery_over(&mut self, bytes: u64) -> bool {
        let (young, most) = (self.young_bytes(), self.nursery_bytes());
        if young == 0 || young + bytes <= most {
            return false;
        }
        young + bytes > 2 * most || self.is_full_due(young + bytes) || self.core.try_take_marking()
    }

    /// Whether the mature space with `bytes` more calls for a full collection first. Never right after one, so that
    /// allocation makes progress.
    pub(super) fn is_full_due(&self, bytes: u64) -> bool {
        let young = self.young_bytes();
        let room = match self.params.nursery {
            Nursery::Fixed(_) => bytes,
            Nursery::Appel => bytes.max(self.least_appel_bytes()),
        };
        let size = self.core.pacer.size() + self.nursery.large_bytes() + self.core.leaves.allocated_bytes();
        // What is collected in slices may grow beyond the limit until the end of a cycle.
        let most = if self.incremental.is_some() { self.core.config.maximum() } else { self.core.pacer.limit() };
        (self.core.pacer.allocated > 0 || young > 0) && size + room > most
    }

    /// Gives the next cycle its blocks.
    pub(super) fn start_cycle(&mut self) {
        let bytes = self.nursery_bytes();
        self.nursery.start_cycle(&mut self.core.pool, bytes);
        self.core.leaf_budget = bytes;
    }

    /// Allocated since the last collection, leaves included, in bytes.
    pub(super) fn young_bytes(&self) -> u64 {
        self.nursery.used_bytes() + self.core.leaves.allocated_bytes()
    }

    /// Collects the nursery, and everything where that is due before a large object of `bytes` is allocated; says
    /// which it was.
    pub(super) fn collect_young(&mut self, bytes: u64, roots: &mut dyn Roots) -> CollectionKind {
        self.run(Cause::Nursery, CollectionKind::Nursery, bytes, roots)
    }

    /// Why everything is to be collected behind an evacuation of the nursery, if it is, with `request` bytes more.
    fn shortage(&self, progress: &Progress, request: u64) -> Option<Cause> {
        let are_many = self.incremental.is_none() && self.core.externals.are_many();
        match progress.lacked_memory {
            true => Some(Cause::Exhaustion),
            false => (are_many || self.is_full_due(request)).then_some(Cause::Limit),
        }
    }

    /// One collection of the nursery, and of the kind `wanted` at least: all that is left of the cycle under way, or
    /// everything. Where memory is short, they are tried in this order. Says whether it was a full one in the end.
    pub(super) fn run(
        &mut self,
        cause: Cause,
        wanted: CollectionKind,
        request: u64,
        roots: &mut dyn Roots,
    ) -> CollectionKind {
        if self.core.config.stress.is_some() {
            self.verify_if_due(When::Before, None);
        }
        let stop = self.core.start_stop();
        let start = stop.start;
        // Nobody asks for a nursery collection but for a cycle, in time that the embedder gives.
        let is_idle = cause == Cause::Requested && wanted == CollectionKind::Nursery;
        self.core.pacer.starts();
        // Leaves are handed out apart from what the nursery and large objects count; those of old spines count as live.
        let before_bytes = self.live_bytes() + self.allocated + self.core.leaves.young_bytes();
        self.allocated += self.core.leaves.allocated_bytes();
        let mut progress = Progress::default();
        let begins = wanted == CollectionKind::Nursery && self.is_cycle_due(cause);
        if begins {
            self.surplus = None;
        }
        let promotes_all = wanted != CollectionKind::Nursery || begins || self.in_cycle();
        self.before_nursery_collection();
        let young = self.young_bytes() + self.nursery.kept_bytes();
        self.scavenge(if promotes_all { 0 } else { self.params.aging }, &mut progress, roots);
        self.size.collected(young, progress.fixed, progress.evacuation);
        self.core.pacer.charge(progress.promoted.bytes);
        let mut shortage = self.shortage(&progress, request);
        let finishing = Instant::now();
        let finishes = wanted == CollectionKind::Cycle || wanted == CollectionKind::Nursery && shortage.is_some();
        let cycle = if finishes { self.finish_cycle(roots) } else { None };
        if cycle.is_some() {
            self.evacuate_kept(&mut progress, roots);
            let is_exhausted = self.core.is_exhausted(self.live_bytes()).then_some(Cause::Exhaustion);
            shortage = self.shortage(&progress, request).or(is_exhausted);
        }
        let finishing = if cycle.is_some() { finishing.elapsed() } else { Duration::ZERO };
        let mut is_short = false;
        let (kind, cause) = match shortage {
            _ if wanted == CollectionKind::Full => (CollectionKind::Full, cause),
            Some(cause) => (CollectionKind::Full, cause),
            None => (CollectionKind::Nursery, cause),
        };
        if kind == CollectionKind::Full {
            self.leave_cycle();
            self.mark_and_sweep(start, cause, &mut progress, roots);
        } else if cycle.is_none() {
            let cause = if cause == Cause::Nursery { Cause::Limit } else { cause };
            self.after_nursery_collection(begins, cause, roots);
            is_short = self.core.pacer.scavenged(before_bytes);
        }
        self.start_cycle();
        if kind == CollectionKind::Full || is_short {
            self.surplus = None;
            let room = match is_short {
                true => self.core.pacer.headroom(),
                false => self.core.pacer.memory_to_keep(cause, 0),
            };
            let mut release = Release::new(room.saturating_sub(self.nursery.held_bytes()));
            // Where there is a quantum, the next cycle gives the rest back.
            let budget = self.quantum().filter(|_| is_short);
            _ = self.give_back(&mut release, budget, &mut progress);
        } else if self.core.pacer.has_old_surplus(start) && !self.in_cycle() {
            let room = self.core.pacer.headroom().saturating_sub(self.nursery.held_bytes());
            let mut release = self.surplus.take().unwrap_or_else(|| Release::new(room));
            match self.give_back(&mut release, self.quantum(), &mut progress) {
                Done::Yes => self.core.pacer.surplus_is_gone(),
                Done::No => self.surplus = Some(release),
            }
        }
        let is_full = kind == CollectionKind::Full;
        let pause = self.core.end_stop(
            stop,
            match is_full {
                _ if cycle.is_some() => StopKind::MissedDeadline,
                true => StopKind::Full,
                false if is_idle => StopKind::Idle,
                false => StopKind::Nursery,
            },
        );
        let zeroing = self.nursery.take_zeroing_times();

        let core = &mut self.core;
        if !is_full {
            core.pacer.paused(pause.saturating_sub(finishing));
        }
        // Of a cycle that has been broken off; one that goes on tells it at its end.
        let concurrent_marking = if is_full { core.helper.take_time() } else { Duration::ZERO };
        core.stats.promoted_bytes += progress.promoted.bytes;
        core.stats.zeroing_us += zeroing.mutator.as_micros() as u64;
        core.stats.concurrent_zeroing_us += zeroing.helper.as_micros() as u64;
        let event = GcEvent {
            number: 0,
            cause,
            kind,
            start: start.duration_since(core.made),
            before_bytes,
            after_bytes: self.live_bytes(),
            limit_bytes: self.core.pacer.limit(),
            allocated_bytes: self.allocated,
            committed_bytes: self.core.pool.committed_bytes(),
            pause,
            cycle: None,
            phases: progress.phases,
            zeroing: zeroing.mutator,
            concurrent_zeroing: zeroing.helper,
            concurrent_marking,
            marked_objects: progress.survivors,
            promoted_bytes: progress.promoted.bytes,
            promoted_objects: progress.promoted.objects,
            moved_objects: 0,
            moved_bytes: 0,
            aging_bytes: self.nursery.kept_bytes(),
            freed_handles: 0,
            dropped_externals: self.core.externals.dead_count() as u64,
            pressure: None,
        };
        self.allocated_before += std::mem::take(&mut self.allocated);
        self.verify_if_due(When::After, Some(roots));
        cycle.into_iter().chain([event]).for_each(|event| self.core.report(event));
        finish(|budget| self.core.externals.drop_dead(budget));
        kind
    }

    /// Gives free memory back to the system, as far as the budget goes: all of it without one.
    fn give_back(&mut self, release: &mut Release, budget: Option<Budget>, progress: &mut Progress) -> Done {
        let slice = self.core.start_slice(Phase::Release);
        let mut budget = budget.unwrap_or_else(Budget::unlimited);
        let done = self.core.pool.release_to_system(release, &mut budget);
        progress.phases.release = self.core.end_slice(slice);
        done
    }

    /// Evacuates the nursery: afterwards every survivor is old, or lies in a kept block.
    fn scavenge(&mut self, aging: u32, progress: &mut Progress, roots: &mut dyn Roots) {
        let slice = self.core.start_slice(Phase::Evacuate);
        let (start, cpu) = (slice.start, self.size.now());
        let core = &mut self.core;
        let slots = self.store_buffer.take(&mut core.context);
        self.nursery.start_collection(&mut core.pool, &core.context, aging);
        let mut scavenger = Scavenger {
            memory: core.pool.cage.memory(),
            pool: &mut core.pool,
            types: &core.types,
            small: &mut core.small,
            nursery: &mut self.nursery,
            spines: core.spines,
            views: &core.views,
            marks_structs: self.params.barrier == Barrier::Cards,
            work: &mut self.work,
            runs: &mut self.runs,
            tally: Tally::default(),
        };
        roots.visit_young_roots(&mut scavenger);
        let visited = Instant::now();
        let cards = scavenger.take_dirty_cards();
        let fixed = self.size.now().saturating_sub(cpu);
        scavenger.scan_slots(&slots);
        scavenger.scan_cards(cards);
        let remembered = Instant::now();
        scavenger.drain();
        let tally = scavenger.tally;
        self.store_buffer.recycle(slots);
        self.work.trim();
        let drained = Instant::now();

        let (pool, ages) = (&core.pool, &self.nursery.ages);
        let fate = |Reference(object)| {
            // SAFETY: the object was allocated before the collection; its header is there, or the record of its copy.
            let header = unsafe { pool.cage.read(object + TYPE_ID_OFFSET) };
            match ages.of(object) {
                Age::Old => Fate::Moved(Reference(object)),
                _ if header & FORWARDED != 0 => Fate::Moved(Reference(header & !FORWARDED)),
                Age::Kept if pool.marks.get(object) => Fate::Young,
                Age::YoungLarge if pool.marks.get(object) => Fate::Moved(Reference(object)),
                _ => Fate::Dead,
            }
        };
        core.weak.nursery_collected(fate);
        core.externals.nursery_collected(fate);
        let large = self.nursery.finish_collection(&mut core.pool, &mut core.mapped, &mut core.context);
        let leaf_bytes = tally.leaves.marked * u64::from(core.leaves.leaf_bytes());
        core.views.nursery_collected(|leaf| core.pool.marks.get(leaf));
        core.forget_dead_moving(|pool, object| pool.marks.get(object));
        core.leaves.nursery_collected(&mut core.pool);
        core.taken.compressed += tally.leaves.compressed;
        core.pacer.charge(leaf_bytes);
        self.kept = tally.kept;
        self.old_objects += tally.promoted.objects + large.objects;
        progress.promoted += tally.promoted;
        progress.survivors = tally.promoted.objects + tally.kept.objects + large.objects;
        progress.lacked_memory = tally.lacked_memory;
        core.pacer.charge(large.bytes);
        progress.phases.roots += visited - start;
        progress.phases.remembered += remembered - visited;
        progress.phases.evacuate += drained - remembered;
        progress.phases.sweep += drained.elapsed();
        (progress.fixed, progress.evacuation) = (fixed, self.size.now().saturating_sub(cpu));
        core.end_slice(slice);
    }

    /// Evacuates what another attempt has had no memory for. What it copies has been handed out since.
    fn evacuate_kept(&mut self, progress: &mut Progress, roots: &mut dyn Roots) {
        if self.nursery.kept_bytes() > 0 {
            let (promoted, survivors) = (progress.promoted.bytes, progress.survivors);
            self.scavenge(0, progress, roots);
            progress.survivors = survivors;
            self.core.pacer.charge(progress.promoted.bytes - promoted);
        }
    }

    /// Marks everything reachable and frees the rest; then evacuates what the first attempt had no memory for.
    fn mark_and_sweep(&mut self, collection: Instant, cause: Cause, progress: &mut Progress, roots: &mut dyn Roots) {
        self.runs.retire();
        self.core.mark(roots, &mut progress.phases);
        let slice = self.core.start_slice(Phase::Sweep);
        let core = &mut self.core;
        let mut sweeping = core.start_sweep(cause != Cause::Limit);
        finish(|budget| core.sweep(&mut sweeping, budget));
        let survivors = sweeping.survivors();
        self.old_objects = survivors.objects;
        progress.phases.sweep += core.end_slice(slice);
        let promoted_before = progress.promoted.bytes;
        if self.nursery.kept_bytes() > 0 {
            self.scavenge(0, progress, roots);
        }
        let core = &mut self.core;
        let live = survivors.bytes + progress.promoted.bytes - promoted_before;
        core.pacer.collected(live, core.pacer.allocated, 0, collection.elapsed());
        progress.survivors = self.old_objects + self.kept.objects;
    }
}
