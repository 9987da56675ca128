//! Running totals of a heap, from those who count.

use super::Core;
use crate::observer::{ArrayStats, HeapStats};
use crate::references::ReferenceModel;

impl<M: ReferenceModel> Core<M> {
    fn array_stats(&self) -> ArrayStats {
        let taken = self.taken;
        ArrayStats {
            leaf_bytes: self.leaves.used_bytes(),
            leaves_allocated: taken.eager + taken.on_store + taken.unshared,
            leaves_lazy: taken.lazy,
            leaves_grown: taken.grown,
            leaves_on_store: taken.on_store,
            leaves_compressed: taken.compressed,
            leaves_shared: taken.shared,
            leaves_unshared: taken.unshared,
            views_made: self.views.made,
            views_alive: self.views.count(),
            view_bytes: self.views.bytes,
            view_fallbacks: self.views.fallbacks,
            view_copies: self.views.copies,
            accesses: self.context.accesses_now(),
            counted: self.counted,
        }
    }

    /// Running totals, but for what collectors count each in their own way.
    pub(crate) fn stats(&self) -> HeapStats {
        let mut stats = HeapStats {
            maximum_bytes: self.config.maximum(),
            used_bytes: self.pool.used_bytes(),
            committed_bytes: self.pool.committed_bytes(),
            immortal_bytes: self.immortal.bytes,
            handle_bytes: self.model.occupied_bytes(),
            externals: self.externals.count() as u64,
            weak_references: self.weak.count() as u64,
            concurrent_marking_us: self.helper.total().as_micros() as u64,
            arrays: self.array_stats(),
            ..self.stats
        };
        self.mapped.add_to(&mut stats);
        self.pacer.add_to(&mut stats);
        stats
    }
}
