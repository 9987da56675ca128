//! What an access to an element is told.

use cranelift_codegen::ir;
use legato_heap::layout::StorageKind;

use crate::passes::analysis::MergedCheck;

/// An element to access.
#[derive(Clone, Copy)]
pub(super) struct Element {
    /// What the array holds.
    pub(super) kind: StorageKind,
    /// The array.
    pub(super) array: ir::Value,
    /// The element's index, checked but for `check`.
    pub(super) index: ir::Value,
    /// Whether it is known to lie behind the header, in one piece with all before it.
    pub(super) is_inline: bool,
    /// The bounds check that is left to the access, if one is.
    pub(super) check: Option<MergedCheck>,
}
