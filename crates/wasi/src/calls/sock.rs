//! `sock_*`: there are no sockets.

use crate::ctx::WasiCtx;
use crate::errno::Errno;

impl WasiCtx {
    /// Ends one direction of a socket, which no descriptor is.
    ///
    /// # Errors
    ///
    /// [`Errno::Notsock`], or [`Errno::Badf`] where nothing is open.
    pub fn sock_shutdown(&mut self, fd: u32, _how: u32) -> Result<(), Errno> {
        self.table.get(fd)?;
        Err(Errno::Notsock)
    }
}
