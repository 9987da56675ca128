//! Direct references: a reference is its object's offset in the cage. The collector word is free.

use super::model::ReferenceModel;
use crate::blocks::BlockPool;
use crate::cage::Cage;
use crate::layout::{ARRAY_LENGTH_OFFSET, TYPE_ID_OFFSET};
use crate::plan::{CollectorWord, HeaderWord, ObjectAt, ReferencePlan, SameObject};
use crate::reference::Reference;

/// The model has no state.
#[derive(Debug, Default)]
pub(crate) struct Direct;

impl ReferenceModel for Direct {
    const PLAN: ReferencePlan = ReferencePlan {
        object: ObjectAt::Itself,
        type_id: HeaderWord::InObject { offset: TYPE_ID_OFFSET },
        array_length: HeaderWord::InObject { offset: ARRAY_LENGTH_OFFSET },
        same: SameObject::Bits,
        handles: None,
        collector_word: CollectorWord::Zero,
    };

    #[inline(always)]
    unsafe fn retarget(_cage: &Cage, _from: u32, to: u32) -> Reference {
        Reference(to)
    }

    fn check_reference(_pool: &BlockPool, reference: Reference) -> Result<u32, String> {
        Ok(reference.0)
    }
}
