//! What the heap's helper threads share: those of [`zeroing`](crate::zeroing) and of
//! [marking](crate::collector::helper). Each has a hand-over of its own, which is model-checked there.

pub(crate) mod idle;
pub(crate) mod sync;
