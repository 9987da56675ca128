//! What `snapshot` says of itself: as mark-sweep, but for the barrier.

use crate::collector::attributes::{Attributes, Taken};
use crate::collector::mark_sweep::attributes::MarkSweepAttributes;
use crate::plan::{AllocationPlan, BarrierPlan, SnapshotPlan};
use crate::references::References;
use crate::zeroing::Zeroing;

/// The collector has no parameters.
pub(crate) struct SnapshotAttributes;

impl Attributes for SnapshotAttributes {
    fn references(&self) -> Taken<References> {
        Taken { values: &[References::Direct, References::ThinHandles], because: "is for tests" }
    }

    fn zeroing(&self) -> Taken<Zeroing> {
        MarkSweepAttributes.zeroing()
    }

    fn allocation(&self) -> AllocationPlan {
        MarkSweepAttributes.allocation()
    }

    fn store_barrier(&self) -> BarrierPlan {
        BarrierPlan { before: Some(SnapshotPlan::IN_CONTEXT), ..BarrierPlan::NONE }
    }

    fn moves_objects(&self, _references: References) -> bool {
        false
    }

    fn is_generational(&self) -> bool {
        false
    }
}
