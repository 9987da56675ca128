//! What `generational` says of itself.

use super::params::{Barrier, Full, GenerationalParams};
use crate::blocks::BLOCK_BYTES;
use crate::cards::CARD_LOG2;
use crate::collector::attributes::{Attributes, Taken};
use crate::geometry::{AGE_TABLE_BELOW, CARD_TABLE_BELOW};
use crate::plan::{AllocationPlan, BarrierPlan, MutatorContext, RememberedPlan, SnapshotPlan};
use crate::references::References;
use crate::size_classes::MAX_SMALL_BYTES;
use crate::zeroing::Zeroing;

impl Attributes for GenerationalParams {
    fn references(&self) -> Taken<References> {
        Taken { values: &[References::Direct], because: "moves young objects without any help of references," }
    }

    fn zeroing(&self) -> Taken<Zeroing> {
        Taken { values: Zeroing::ALL, because: "zeroes its nursery" }
    }

    fn allocation(&self) -> AllocationPlan {
        AllocationPlan::Bump { run_offset: MutatorContext::RUNS_OFFSET, max_bytes: MAX_SMALL_BYTES }
    }

    fn store_barrier(&self) -> BarrierPlan {
        let remembered = RememberedPlan {
            ages_below: AGE_TABLE_BELOW,
            block_log2: BLOCK_BYTES.trailing_zeros() as u8,
            cards_below: CARD_TABLE_BELOW,
            card_log2: CARD_LOG2,
            store_buffer: match self.barrier {
                Barrier::Cards => None,
                Barrier::StoreBuffer => Some(MutatorContext::STORE_BUFFER_OFFSET),
            },
        };
        let before = match self.full {
            Full::Incremental(_) => Some(SnapshotPlan::IN_CONTEXT),
            Full::Stop => None,
        };
        BarrierPlan { before, after: Some(remembered), ..BarrierPlan::NONE }
    }

    fn moves_objects(&self, _references: References) -> bool {
        true
    }

    fn is_generational(&self) -> bool {
        true
    }
}
