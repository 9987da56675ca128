//! What a collector answers for itself.

use crate::plan::{AllocationPlan, BarrierPlan};
use crate::references::References;
use crate::zeroing::Zeroing;

/// The values of another axis that a collector takes.
pub(crate) struct Taken<T: 'static> {
    pub(crate) values: &'static [T],
    /// Why no others, as in `collector=NAME moves objects and takes ...`.
    pub(crate) because: &'static str,
}

impl<T: Copy> Taken<T> {
    /// The names of the values, for a sentence.
    pub(crate) fn names(&self, name: fn(T) -> &'static str) -> String {
        self.values.iter().map(|&value| name(value)).collect::<Vec<_>>().join(" or ")
    }
}

/// What a collector with its parameters says of itself: to the configuration, which other axis values it takes; to a
/// code generator, its part of the access plan; to the sizing rules, of what kind it is. (Compare `PlanConstraints` of
/// mmtk-core and `gc-attrs.h` of Whippet.)
pub(crate) trait Attributes {
    /// The reference models that there are heaps of it with: those in the table in `heap`.
    fn references(&self) -> Taken<References>;

    /// The zeroing strategies that it works with; the first is its own.
    fn zeroing(&self) -> Taken<Zeroing>;

    /// The inline allocation sequence.
    fn allocation(&self) -> AllocationPlan;

    /// What stores of references must do besides.
    fn store_barrier(&self) -> BarrierPlan;

    /// Whether it moves objects that are referred to so.
    fn moves_objects(&self, references: References) -> bool;

    /// Whether most of its work is done in nursery collections, so that its share of the time is lower at the same
    /// comfort.
    fn is_generational(&self) -> bool;
}
