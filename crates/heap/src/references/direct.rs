//! Direct references: a reference is its object's offset in the cage. The collector word is free.

use super::ReferenceModel;
use crate::blocks::BlockPool;
use crate::budget::{Budget, Done};
use crate::cage::Cage;
use crate::context::Context;
use crate::reference::Reference;

/// The model has no state.
#[derive(Debug, Default)]
pub(crate) struct Direct;

impl ReferenceModel for Direct {
    const HANDLES: bool = false;

    #[inline(always)]
    unsafe fn object(_cage: &Cage, reference: Reference) -> u32 {
        reference.0
    }

    #[inline(always)]
    unsafe fn reference(_cage: &Cage, object: u32) -> Reference {
        Reference(object)
    }

    #[inline(always)]
    fn prepare(&mut self, _pool: &mut BlockPool, _context: &mut Context) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn bind(&mut self, _cage: &Cage, _context: &mut Context, object: u32) -> Reference {
        Reference(object)
    }

    #[inline(always)]
    unsafe fn release(&mut self, _pool: &mut BlockPool, _object: u32) {}

    fn sweep(&mut self, _pool: &mut BlockPool, _left: &mut Option<usize>, _budget: &mut Budget) -> Done {
        Done::Yes
    }

    fn take_released(&mut self) -> u64 {
        0
    }

    fn occupied_bytes(&self) -> u64 {
        0
    }

    fn check_reference(_pool: &BlockPool, reference: Reference) -> Result<u32, String> {
        Ok(reference.0)
    }

    fn check(&self, _pool: &BlockPool, _context: &Context, _is_object: &dyn Fn(u32) -> bool) -> Result<(), String> {
        Ok(())
    }
}
