//! Replication (Nettles and O'Toole 1993; Handles Revisited, section 5.2): a reference is an object's offset, and so is
//! one to an old copy. Both copies are kept equal: reads go straight to the one that the reference names, and whatever
//! is stored, a number or a reference, is stored in both ([`MirrorPlan`](crate::plan::MirrorPlan)).
//!
//! The collector word holds where the other copy is, with the lowest bit set in the old one. An object without another
//! copy names itself, so that a store need not ask whether there are two. References are healed as under Brooks
//! forwarding; once no reference leads to an old copy, nothing is mirrored any more, and new copies name themselves
//! again (`collector/replicas.rs`) before the old ones' memory is used for something else.
//!
//! Leaves of arrays are not copied: what is mirrored of an array in leaves is its spine.

use super::model::{ReferenceModel, check_forwarding};
use crate::blocks::BlockPool;
use crate::cage::Cage;
use crate::layout::{ARRAY_LENGTH_OFFSET, COLLECTOR_WORD_OFFSET, TYPE_ID_OFFSET};
use crate::plan::{CollectorWord, ForwardingWord, HeaderWord, ObjectAt, ReferencePlan, SameObject};
use crate::reference::Reference;

/// The model has no state.
#[derive(Debug, Default)]
pub(crate) struct Replicating;

impl ReferenceModel for Replicating {
    const PLAN: ReferencePlan = ReferencePlan {
        object: ObjectAt::Itself,
        type_id: HeaderWord::AtReference { offset: TYPE_ID_OFFSET },
        array_length: HeaderWord::AtReference { offset: ARRAY_LENGTH_OFFSET },
        same: SameObject::Canonical { offset: COLLECTOR_WORD_OFFSET, word: ForwardingWord::OtherCopy },
        handles: None,
        collector_word: CollectorWord::Reference,
    };

    #[inline(always)]
    unsafe fn reference(_cage: &Cage, object: u32) -> Reference {
        Reference(object)
    }

    #[inline(always)]
    unsafe fn retarget(cage: &Cage, from: u32, to: u32) -> Reference {
        // SAFETY: both have a header.
        unsafe {
            cage.write(from + COLLECTOR_WORD_OFFSET, to | 1);
            cage.write(to + COLLECTOR_WORD_OFFSET, from);
        }
        Reference(to)
    }

    fn check_reference(pool: &BlockPool, reference: Reference) -> Result<u32, String> {
        check_forwarding::<Self>(pool, reference)
    }
}

/// Where there are old copies that are kept equal.
#[derive(Debug)]
pub(crate) struct Replicas {
    /// Blocks that have been emptied, where old copies are known of.
    pub(crate) blocks: Option<Vec<u32>>,
    /// Cells of the last one that have been looked at.
    pub(crate) cells: u32,
}

impl Replicas {
    /// None. With `are_kept`, there can be some.
    pub(crate) fn new(are_kept: bool) -> Replicas {
        Replicas { blocks: are_kept.then(Vec::new), cells: 0 }
    }

    /// A block holds old copies.
    pub(crate) fn emptied(&mut self, block: u32) {
        if let Some(blocks) = &mut self.blocks {
            blocks.push(block);
        }
    }
}
