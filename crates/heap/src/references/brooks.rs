//! Brooks forwarding (Brooks 1984; Handles Revisited, section 5.2): a reference is an object's offset, and the object's
//! collector word holds where it is now: its own offset, or, of an old copy, that of the new one. Every access goes by
//! that word.
//!
//! What never changes, type and length, is read from old copies. An old copy stays where it is until no reference leads
//! to it any more: the next cycle *heals* all references that it comes by, and stores meanwhile store healed ones.

use super::model::{ReferenceModel, check_forwarding};
use crate::blocks::BlockPool;
use crate::cage::Cage;
use crate::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use crate::plan::{CollectorWord, ForwardingWord, HeaderWord, ObjectAt, ReferencePlan, SameObject};
use crate::reference::Reference;

/// The model has no state.
#[derive(Debug, Default)]
pub(crate) struct Brooks;

impl ReferenceModel for Brooks {
    const PLAN: ReferencePlan = ReferencePlan {
        object: ObjectAt::Through { offset: COLLECTOR_WORD_OFFSET },
        type_id: HeaderWord::AtReference { offset: TYPE_ID_OFFSET },
        array_length: HeaderWord::AtReference { offset: ARRAY_LENGTH_OFFSET },
        same: SameObject::Canonical { offset: COLLECTOR_WORD_OFFSET, word: ForwardingWord::Current },
        handles: None,
        collector_word: CollectorWord::Reference,
    };

    #[inline(always)]
    unsafe fn retarget(cage: &Cage, from: u32, to: u32) -> Reference {
        // SAFETY: both have a header.
        unsafe {
            cage.write(from + COLLECTOR_WORD_OFFSET, to);
            cage.write(to + COLLECTOR_WORD_OFFSET, to);
        }
        Reference(to)
    }

    fn check_reference(pool: &BlockPool, reference: Reference) -> Result<u32, String> {
        check_forwarding::<Self>(pool, reference)
    }
}
