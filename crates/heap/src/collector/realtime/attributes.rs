//! What `realtime` says of itself: it allocates as mark-sweep does, but for the queues of runs.

use crate::collector::attributes::{Attributes, Taken};
use crate::collector::mark_sweep::attributes::MarkSweepAttributes;
use crate::plan::{AllocationPlan, BarrierPlan, MutatorContext, SnapshotPlan};
use crate::references::References;
use crate::zeroing::Zeroing;

/// Whatever the parameters are.
pub(crate) struct RealtimeAttributes;

impl Attributes for RealtimeAttributes {
    fn references(&self) -> Taken<References> {
        Taken { values: References::ALL, because: "marks in slices" }
    }

    fn zeroing(&self) -> Taken<Zeroing> {
        MarkSweepAttributes.zeroing()
    }

    fn allocation(&self) -> AllocationPlan {
        let AllocationPlan::SizeClasses { cell_bytes, runs_offset, sizes_offset, .. } =
            MarkSweepAttributes.allocation()
        else {
            unreachable!("mark-sweep has size classes")
        };
        let queues_offset = Some(MutatorContext::QUEUES_OFFSET);
        AllocationPlan::SizeClasses { cell_bytes, runs_offset, sizes_offset, queues_offset }
    }

    fn store_barrier(&self) -> BarrierPlan {
        BarrierPlan { before: Some(SnapshotPlan::IN_CONTEXT), ..BarrierPlan::NONE }
    }

    fn moves_objects(&self, references: References) -> bool {
        references.plan().lets_objects_move()
    }

    fn is_generational(&self) -> bool {
        false
    }
}
