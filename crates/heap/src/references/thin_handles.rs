//! Thin handles (Handles Revisited, section 3.1): a handle is one word, the object's offset. Type and length are found
//! in the object.

use super::handles::{HandleLayout, Handles, PLAN_OF_HANDLES};
use crate::plan::{HandlePlan, ReferencePlan};

/// A word.
#[derive(Debug, Default)]
pub(crate) struct Thin;

pub(crate) type ThinHandles = Handles<Thin>;

impl HandleLayout for Thin {
    const PLAN: ReferencePlan = ReferencePlan { handles: Some(HandlePlan::of_one_size(4)), ..PLAN_OF_HANDLES };
}
