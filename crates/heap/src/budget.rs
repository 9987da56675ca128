//! Work in steps: a step does as much as its [`Budget`] allows, and says whether that was all.
//!
//! What is slow enough to be divided counts in *units*, each of some tens to hundreds of nanoseconds: an object
//! scanned, a block classified. A step looks at its budget before each piece of work and spends afterwards, so that
//! every step makes progress, and exceeds its budget by one piece at most. Collectors that stop the mutator give an
//! unlimited budget.

use std::time::Instant;

/// Units between two looks at the clock.
const UNITS_PER_LOOK: u64 = 64;

/// Whether a step was the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Done {
    /// Nothing is left to do.
    Yes,
    /// The budget was used up before.
    No,
}

/// How much a step may do: until a deadline, or so many units. It is for one call: with one that is used up, a call
/// does nothing, and says that something is left to do. A loop makes a new one each time.
#[derive(Debug)]
pub struct Budget {
    /// Units left; with a deadline, until the next look at the clock. `u64::MAX` stands for no end.
    left: u64,
    deadline: Option<Instant>,
    /// What has been spent, beyond the end too.
    #[cfg(test)]
    pub(crate) spent: u64,
}

impl Budget {
    const fn new(left: u64, deadline: Option<Instant>) -> Budget {
        Budget {
            left,
            deadline,
            #[cfg(test)]
            spent: 0,
        }
    }

    /// No end. The clock is never read.
    pub const fn unlimited() -> Budget {
        Budget::new(u64::MAX, None)
    }

    /// So many units, at least one, whatever time they take: for reproducible steps.
    pub const fn units(units: u64) -> Budget {
        Budget::new(if units == 0 { 1 } else { units }, None)
    }

    /// Until a point in time. The clock is read every 64 units.
    pub const fn until(deadline: Instant) -> Budget {
        Budget::new(UNITS_PER_LOOK, Some(deadline))
    }

    /// Whether there is an end.
    #[inline(always)]
    pub const fn is_limited(&self) -> bool {
        self.left <= u64::MAX / 2
    }

    /// Whether nothing is left.
    #[inline(always)]
    pub const fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// Counts work that has been done.
    #[inline(always)]
    pub fn spend(&mut self, units: u64) {
        #[cfg(test)]
        {
            self.spent += units;
        }
        self.left = self.left.saturating_sub(units);
        if self.left == 0 {
            self.look();
        }
    }

    /// Looks at the clock, if there is a deadline.
    #[cold]
    fn look(&mut self) {
        if self.deadline.is_some_and(|deadline| Instant::now() < deadline) {
            self.left = UNITS_PER_LOOK;
        }
    }
}

/// Has steps taken until nothing is left to do.
pub(crate) fn finish(mut step: impl FnMut(&mut Budget) -> Done) {
    while step(&mut Budget::unlimited()) == Done::No {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn units_are_counted_down_to_the_end() {
        let mut budget = Budget::units(3);
        budget.spend(2);
        assert!(budget.is_limited() && !budget.is_exhausted());
        budget.spend(7);
        assert!(budget.is_exhausted());
        let mut unlimited = Budget::unlimited();
        unlimited.spend(1 << 62);
        assert!(!unlimited.is_limited() && !unlimited.is_exhausted());
        assert!(!Budget::units(0).is_exhausted(), "every step makes progress");
    }

    #[test]
    fn a_deadline_is_met_at_a_look_at_the_clock() {
        let mut past = Budget::until(Instant::now());
        past.spend(63);
        assert!(!past.is_exhausted());
        past.spend(1);
        assert!(past.is_exhausted());
        let mut future = Budget::until(Instant::now() + Duration::from_secs(3600));
        (0..1000).for_each(|_| future.spend(64));
        assert!(!future.is_exhausted());
    }
}
