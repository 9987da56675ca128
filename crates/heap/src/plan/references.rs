//! From a reference to its object, as data: what the models of axis `references` publish.

use super::{HealPlan, MirrorPlan, MutatorContext};
use crate::reference::Reference;
use serde::{Deserialize, Serialize};

/// Where the parts of an object lie, seen from a reference that is neither null nor an immediate, and what a new object
/// is referred to by. All offsets are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ReferencePlan {
    /// Where the object lies, with its fields and elements.
    pub object: ObjectAt,
    /// Where its `u32` type id is read.
    pub type_id: HeaderWord,
    /// Where an array's `u32` length is read.
    pub array_length: HeaderWord,
    /// When two references are to one object.
    pub same: SameObject,
    /// The handle that each new object takes; `None` where it is referred to by its own offset.
    pub handles: Option<HandlePlan>,
    /// What the collector word of a new object holds.
    pub collector_word: CollectorWord,
}

/// Where an object lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ObjectAt {
    /// The reference is its offset in the cage.
    Itself,
    /// The reference is the offset in the cage of something that holds the object's, a `u32`: a handle, or a header
    /// with a forwarding word (Handles Revisited, sections 3.1 and 5.2).
    Through {
        /// Where it holds it.
        offset: u32,
    },
}

/// Where a word of an object's header is read. It always lies in the object too, where the heap looks for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum HeaderWord {
    /// In the object.
    InObject {
        /// From the object's start.
        offset: u32,
    },
    /// In what the reference is the offset of, whatever that leads to.
    AtReference {
        /// From there.
        offset: u32,
    },
}

/// When two references with different bits are to one object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum SameObject {
    /// Never.
    Bits,
    /// Where neither is null or an immediate, and what the words at this offset from them say is equal.
    Canonical {
        /// From the reference.
        offset: u32,
        /// What the words say.
        word: ForwardingWord,
    },
}

/// What an object, and an old copy of one, says of where the object is now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ForwardingWord {
    /// Its reference (Brooks 1984).
    Current,
    /// The other copy: with the lowest bit set, that is the object, and this an old copy; otherwise this is the object.
    /// Where there has never been another copy, it is the object itself.
    OtherCopy,
}

impl ForwardingWord {
    /// The reference that the object of `reference` has now, whose word this is.
    #[inline(always)]
    pub fn current(self, reference: Reference, word: u32) -> Reference {
        match self {
            ForwardingWord::OtherCopy if word & 1 == 0 => reference,
            ForwardingWord::OtherCopy => Reference(word & !1),
            ForwardingWord::Current => Reference(word),
        }
    }
}

/// The handle of a new object. Its word at the offset of [`ObjectAt::Through`] becomes the object's offset, and header
/// words that are read [`AtReference`](HeaderWord::AtReference) are written there besides.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct HandlePlan {
    /// The handle of a struct, an exception or a host value.
    pub structs: HandleRun,
    /// The handle of an array.
    pub arrays: HandleRun,
}

/// Where handles of one size are taken from, as cells are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct HandleRun {
    /// Bytes of a handle.
    pub bytes: u32,
    /// Offset in the [`MutatorContext`](crate::MutatorContext) of the [`BumpRun`](super::BumpRun) of free handles.
    pub run_offset: u32,
    /// Offset there of the address of the run that takes its place when it is used up, as
    /// [`MutatorContext::queues`](crate::MutatorContext::queues) describes it.
    pub queue_offset: u32,
}

impl HandleRun {
    const fn of(of_arrays: bool, bytes: u32) -> HandleRun {
        let run_offset = match of_arrays {
            true => MutatorContext::ARRAY_HANDLE_RUN_OFFSET,
            false => MutatorContext::HANDLE_RUN_OFFSET,
        };
        HandleRun { bytes, run_offset, queue_offset: MutatorContext::handle_queue_offset(of_arrays) }
    }
}

impl HandlePlan {
    /// Handles of `bytes` for all objects.
    pub const fn of_one_size(bytes: u32) -> HandlePlan {
        let run = HandleRun::of(false, bytes);
        HandlePlan { structs: run, arrays: run }
    }

    /// Handles of arrays, of `arrays` bytes, apart from those of other objects, of `structs` bytes.
    pub const fn of_two_sizes(structs: u32, arrays: u32) -> HandlePlan {
        HandlePlan { structs: HandleRun::of(false, structs), arrays: HandleRun::of(true, arrays) }
    }

    /// The handle of an array, or of another object.
    #[inline(always)]
    pub const fn run(&self, is_array: bool) -> HandleRun {
        if is_array { self.arrays } else { self.structs }
    }

    /// Whether arrays have handles of their own.
    #[inline(always)]
    pub const fn has_array_handles(&self) -> bool {
        self.arrays.run_offset != self.structs.run_offset
    }
}

/// What the collector word of a new object holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum CollectorWord {
    /// 0: the reference model leaves it to others.
    Zero,
    /// The object's reference.
    Reference,
}

impl ObjectAt {
    /// The offset of the object that `reference` leads to. `read` reads the word at an offset of the cage.
    #[inline(always)]
    pub fn of(self, reference: Reference, read: impl FnOnce(u32) -> u32) -> u32 {
        match self {
            ObjectAt::Itself => reference.0,
            ObjectAt::Through { offset } => read(reference.0 + offset),
        }
    }
}

impl ReferencePlan {
    /// The offset of the object that `reference` leads to. `read` reads the word at an offset of the cage.
    #[inline(always)]
    pub fn object(&self, reference: Reference, read: impl FnOnce(u32) -> u32) -> u32 {
        self.object.of(reference, read)
    }

    /// The offset of the word that holds the type id of `reference`'s object. `read` as for [`object`](Self::object).
    #[inline(always)]
    pub fn type_id(&self, reference: Reference, read: impl FnOnce(u32) -> u32) -> u32 {
        match self.type_id {
            HeaderWord::InObject { offset } => self.object(reference, read) + offset,
            HeaderWord::AtReference { offset } => reference.0 + offset,
        }
    }

    /// Whether two references are the same: both null, one immediate, or to one object. `read` as for
    /// [`object`](Self::object).
    #[inline(always)]
    pub fn same(&self, left: Reference, right: Reference, read: impl Fn(u32) -> u32) -> bool {
        left == right
            || match self.same {
                SameObject::Bits => false,
                SameObject::Canonical { offset, word } => {
                    let current = |reference: Reference| word.current(reference, read(reference.0 + offset));
                    left.is_object() && right.is_object() && current(left) == current(right)
                }
            }
    }

    /// What stores of references do about old copies, where there can be any.
    pub fn heal(&self) -> Option<HealPlan> {
        let SameObject::Canonical { offset, word } = self.same else { return None };
        Some(HealPlan { state_offset: MutatorContext::BARRIER_STATE_OFFSET, forwarding_offset: offset, word })
    }

    /// What stores do about other copies, where reads do not ask which one they read.
    pub fn mirror(&self) -> Option<MirrorPlan> {
        match self.same {
            SameObject::Canonical { offset, word: ForwardingWord::OtherCopy } => {
                Some(MirrorPlan { state_offset: MutatorContext::BARRIER_STATE_OFFSET, other_offset: offset })
            }
            _ => None,
        }
    }

    /// Whether an object can be moved while there are references to it that nobody rewrites at once.
    pub fn lets_objects_move(&self) -> bool {
        self.object != ObjectAt::Itself || self.same != SameObject::Bits
    }

    /// How many bytes from a reference on are read to find the object and its type id.
    #[inline(always)]
    pub(crate) fn reach(&self) -> u32 {
        let through = if let ObjectAt::Through { offset } = self.object { offset + 4 } else { 0 };
        let type_id = if let HeaderWord::AtReference { offset } = self.type_id { offset + 4 } else { 0 };
        through.max(type_id).max(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::References;

    #[test]
    fn references_to_old_and_new_copies_are_the_same() {
        // Two objects of 8 bytes, the first of which has moved to 24.
        let words = [0, 0, 0, 24, 0, 16, 0, 24];
        let read = |offset: u32| words[offset as usize / 4];
        let [old, other, new] = [8, 16, 24].map(Reference);
        let forwarding = ReferencePlan {
            object: ObjectAt::Through { offset: 4 },
            same: SameObject::Canonical { offset: 4, word: ForwardingWord::Current },
            ..References::Direct.plan()
        };
        assert_eq!([old, other, new].map(|reference| forwarding.object(reference, read)), [24, 16, 24]);
        // The same, but each copy holds where the other one is, and no access goes by that.
        let words = [0, 0, 0, 24 | 1, 0, 16, 0, 8];
        let read_replicas = |offset: u32| words[offset as usize / 4];
        let replicating = References::Replicating.plan();
        assert_eq!([old, other, new].map(|reference| replicating.object(reference, read_replicas)), [8, 16, 24]);
        let check = |plan: ReferencePlan, read: &dyn Fn(u32) -> u32| {
            assert!(plan.same(old, new, read) && plan.same(new, old, read));
            assert!(plan.same(Reference::NULL, Reference::NULL, read));
            for unlike in [other, Reference::NULL, Reference::from_i31(4)] {
                assert!(!plan.same(old, unlike, read), "{unlike:?}");
                assert!(!plan.same(unlike, new, read), "{unlike:?}");
            }
        };
        check(forwarding, &read);
        check(replicating, &read_replicas);
        assert!(!References::Direct.plan().same(old, new, read));
    }
}
