//! `proc_*` and `sched_yield`.

use crate::ctx::WasiCtx;
use crate::errno::Errno;
use crate::exit::{I32Exit, RaisedSignal};

/// The highest signal of preview 1.
const LAST_SIGNAL: u8 = 30;

impl WasiCtx {
    /// The end of the guest. Gathered output is let out.
    pub fn proc_exit(&mut self, status: u32) -> I32Exit {
        // The guest has no means left to hear of an error; the embedder hears of it when it asks with `flush`.
        self.console.flush_at_last();
        I32Exit(status as i32)
    }

    /// Raises a signal on the guest: `Some` ends it, `None` is a signal that nobody heeds.
    ///
    /// # Errors
    ///
    /// [`Errno::Notsup`] for those that stop a process until it is continued, [`Errno::Inval`] for no signal at all.
    pub fn proc_raise(&mut self, signal: u32) -> Result<Option<RaisedSignal>, Errno> {
        let signal = u8::try_from(signal).map_err(|_| Errno::Inval)?;
        match signal {
            // None, CHLD, CONT, URG, WINCH: ignored unless a process says otherwise, and a guest cannot.
            0 | 16 | 17 | 22 | 27 => Ok(None),
            // STOP, TSTP, TTIN, TTOU.
            18..=21 => Err(Errno::Notsup),
            1..=LAST_SIGNAL => {
                let _ = self.console.flush();
                Ok(Some(RaisedSignal(signal)))
            }
            _ => Err(Errno::Inval),
        }
    }

    /// Lets other threads of the host run.
    pub fn sched_yield(&mut self) -> Result<(), Errno> {
        std::thread::yield_now();
        Ok(())
    }
}
