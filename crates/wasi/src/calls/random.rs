//! `random_get`.

use crate::ctx::WasiCtx;
use crate::errno::Errno;
use crate::memory::GuestMemory;

impl WasiCtx {
    /// Fills `len` bytes at `buffer` with randomness fit for keys.
    pub fn random_get(&mut self, memory: &mut GuestMemory<'_>, buffer: u32, len: u32) -> Result<(), Errno> {
        (self.random)(memory.slice_mut(buffer, len)?)?;
        Ok(())
    }
}
