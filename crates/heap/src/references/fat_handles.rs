//! Fat handles (Handles Revisited, section 3.2): a handle holds what the header does. That of a struct is its type and
//! the object's offset, that of an array its length besides: they have different sizes, and so spaces of their own.
//!
//! The object has type and length too, so that whatever walks the heap finds them without the handle.

use super::handles::{HandleLayout, Handles, PLAN_OF_HANDLES};
use crate::plan::{HandlePlan, HeaderWord, ObjectAt, ReferencePlan};

/// Type and object, and of an array the length.
#[derive(Debug, Default)]
pub(crate) struct Fat;

pub(crate) type FatHandles = Handles<Fat>;

impl HandleLayout for Fat {
    const PLAN: ReferencePlan = ReferencePlan {
        object: ObjectAt::Through { offset: 4 },
        type_id: HeaderWord::AtReference { offset: 0 },
        array_length: HeaderWord::AtReference { offset: 8 },
        handles: Some(HandlePlan::of_two_sizes(8, 16)),
        ..PLAN_OF_HANDLES
    };
}
