//! The value `fixed`: the limit is the maximum. A full collection happens when memory runs out, and only then.

use super::{Bounds, Cycle, Rule};

/// The rule.
#[derive(Debug)]
pub(super) struct Fixed;

impl Rule for Fixed {
    fn first(&self, bounds: &Bounds) -> u64 {
        bounds.maximum
    }

    fn next(&mut self, _: u64, _: Cycle, bounds: &Bounds) -> u64 {
        bounds.maximum
    }
}
