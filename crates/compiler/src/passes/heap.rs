//! What passes know of the heap that code will run on.

use legato_heap::layout::StorageKind;
use legato_heap::plan::SpinePlan;

use super::relations::greatest;
use super::support::{constant_length, origin, root};
use crate::mir::{Function, Op, Value};
use crate::module::ModuleInfo;

/// The module, and what passes know of the heap, as data. Lowering takes it from the heap's plan.
#[derive(Clone, Copy)]
pub(crate) struct HeapFacts<'a> {
    pub(crate) info: &'a ModuleInfo,
    /// How the parts of arrays lie, where these may lie apart.
    pub(crate) spines: Option<SpinePlan>,
    /// Whether accesses to elements are counted, each as the program makes it.
    pub(crate) counts_accesses: bool,
    /// Whether a safepoint may change references.
    pub(crate) references_change: bool,
    /// What is looked up through references, where these do not say themselves where their objects lie.
    pub(crate) lookups: Option<Lookups>,
}

/// What has to be looked up through a reference beside fields and elements.
#[derive(Clone, Copy)]
pub(crate) struct Lookups {
    /// The type id.
    pub(crate) type_ids: bool,
    /// An array's length.
    pub(crate) lengths: bool,
}

impl HeapFacts<'_> {
    /// How arrays lie, where each has an inline length, and where accesses need not be counted.
    pub(super) fn growing_spines(&self) -> Option<SpinePlan> {
        self.spines.filter(|spines| spines.layout.grows && !self.counts_accesses)
    }

    /// Whether an access can only reach elements that lie in one piece behind the header: where the index is known to
    /// be within the first N bytes, or the array to be so short that it is not divided.
    pub(crate) fn lies_inline(
        &self,
        mir: &Function,
        spines: &SpinePlan,
        kind: StorageKind,
        array: Value,
        index: Value,
    ) -> bool {
        let most = greatest(mir, self.info, mir.resolve(index));
        if most.is_some_and(|most| most < spines.layout.first_n / kind.bytes()) {
            return true;
        }
        let length = match origin(mir, root(mir, array)) {
            Some((Op::ArrayNew(_), args)) => constant_length(mir, args[1]),
            Some((Op::ArrayNewDefault(_), args)) => constant_length(mir, args[0]),
            Some((Op::ArrayNewFixed(_), args)) => Some(args.len() as u32),
            _ => None,
        };
        length.is_some_and(|length| !spines.layout.divides(kind.bytes(), length))
    }
}
