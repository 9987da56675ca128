//! `clock_*`.

use crate::ctx::WasiCtx;
use crate::errno::Errno;
use crate::memory::GuestMemory;
use crate::types::ClockId;

impl WasiCtx {
    /// Writes the clock's smallest step in nanoseconds.
    pub fn clock_res_get(&mut self, memory: &mut GuestMemory<'_>, clock: u32, result: u32) -> Result<(), Errno> {
        let resolution = self.clocks.resolution(ClockId::try_from(clock)?)?;
        memory.write_u64(result, resolution)
    }

    /// Writes the clock's value in nanoseconds. The precision that a guest asks for is met in any case.
    pub fn clock_time_get(
        &mut self,
        memory: &mut GuestMemory<'_>,
        clock: u32,
        _precision: u64,
        result: u32,
    ) -> Result<(), Errno> {
        let now = self.clocks.now(ClockId::try_from(clock)?)?;
        memory.write_u64(result, now)
    }
}
