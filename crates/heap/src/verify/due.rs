//! When the heap is checked. A check walks all that lives, so checks of a large heap at each small collection would
//! take far longer than the program.

use std::cell::Cell;
use std::fmt;

/// At which point of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    Before,
    InTheMidst,
    After,
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            When::Before => "before",
            When::InTheMidst => "in the midst of",
            When::After => "after",
        })
    }
}

/// How much had been allocated at the last checks, in bytes: apart for each point, so that none is always skipped
/// because another came just before.
#[derive(Default, Debug)]
pub(crate) struct Checks([Cell<u64>; 3]);

impl Checks {
    /// Whether since the last check at this point `percent` of the heap's `size` have been allocated (sizes in bytes).
    /// If so, this is the last check from now on.
    pub(crate) fn is_due(&self, when: When, allocated: u64, size: u64, percent: u32) -> bool {
        let last = &self.0[when as usize];
        let is_due = allocated.saturating_sub(last.get()).saturating_mul(100) >= size.saturating_mul(percent.into());
        if is_due {
            last.set(allocated);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_follow_what_is_allocated_point_by_point() {
        let checks = Checks::default();
        assert!([0, 0, 10].iter().all(|&allocated| checks.is_due(When::After, allocated, 1000, 0)));
        let at = |when, allocated| checks.is_due(when, allocated, 1000, 50);
        assert!(!at(When::After, 509) && at(When::After, 510) && !at(When::After, 510));
        assert!(at(When::Before, 510) && !at(When::Before, 1009) && at(When::Before, 1010));
        assert!(!at(When::InTheMidst, 400) && at(When::InTheMidst, 500));
    }
}
