//! Uni-sized fat handles (Handles Revisited, section 3.3): a handle holds the type and the object's offset, and is as
//! long for arrays as for structs, since an array's length lies with its elements. Type tests read the handle alone.
//!
//! The object has its type too, so that whatever walks the heap finds it without the handle.

use super::handles::{HandleLayout, Handles, PLAN_OF_HANDLES};
use crate::plan::{HandlePlan, HeaderWord, ObjectAt, ReferencePlan};

/// Type and object.
#[derive(Debug, Default)]
pub(crate) struct Uni;

pub(crate) type UniHandles = Handles<Uni>;

impl HandleLayout for Uni {
    const PLAN: ReferencePlan = ReferencePlan {
        object: ObjectAt::Through { offset: 4 },
        type_id: HeaderWord::AtReference { offset: 0 },
        handles: Some(HandlePlan::of_one_size(8)),
        ..PLAN_OF_HANDLES
    };
}
