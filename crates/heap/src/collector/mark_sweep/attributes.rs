//! What `mark-sweep` says of itself.

use crate::collector::attributes::{Attributes, Taken};
use crate::plan::{AllocationPlan, BarrierPlan, MutatorContext};
use crate::references::References;
use crate::size_classes;
use crate::zeroing::Zeroing;

/// The collector has no parameters.
pub(crate) struct MarkSweepAttributes;

impl Attributes for MarkSweepAttributes {
    fn references(&self) -> Taken<References> {
        Taken {
            values: &[References::Direct, References::ThinHandles, References::FatHandles, References::UniHandles],
            because: "moves nothing",
        }
    }

    fn zeroing(&self) -> Taken<Zeroing> {
        Taken { values: &[Zeroing::Bulk], because: "zeroes what it sweeps" }
    }

    fn allocation(&self) -> AllocationPlan {
        AllocationPlan::SizeClasses {
            cell_bytes: size_classes::cell_bytes().to_vec(),
            runs_offset: MutatorContext::RUNS_OFFSET,
            sizes_offset: MutatorContext::SIZES_OFFSET,
            queues_offset: None,
        }
    }

    fn store_barrier(&self) -> BarrierPlan {
        BarrierPlan::NONE
    }

    fn moves_objects(&self, _references: References) -> bool {
        false
    }

    fn is_generational(&self) -> bool {
        false
    }
}
