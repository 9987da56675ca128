//! Thin handles (Handles Revisited, section 3.1): a handle is one word, the object's offset. Type and length are found
//! in the object.

use super::handles::{HandleLayout, Handles};
use crate::layout::{ARRAY_LENGTH_OFFSET, TYPE_ID_OFFSET};
use crate::plan::{CollectorWord, HandlePlan, HeaderWord, ObjectAt, ReferencePlan, SameObject};

/// A word.
#[derive(Debug, Default)]
pub(crate) struct Thin;

pub(crate) type ThinHandles = Handles<Thin>;

impl HandleLayout for Thin {
    const PLAN: ReferencePlan = ReferencePlan {
        object: ObjectAt::Through { offset: 0 },
        type_id: HeaderWord::InObject { offset: TYPE_ID_OFFSET },
        array_length: HeaderWord::InObject { offset: ARRAY_LENGTH_OFFSET },
        same: SameObject::Bits,
        handles: Some(HandlePlan::of_one_size(4)),
        collector_word: CollectorWord::Reference,
    };
}
