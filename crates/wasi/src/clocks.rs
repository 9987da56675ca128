//! What time it is, and waiting.

use std::time::{Duration, Instant, SystemTime};

use crate::errno::Errno;
use crate::interrupts::PIECE;
use crate::types::ClockId;

/// A guest's clocks. The default is the host's; a test or a replay can bring its own.
pub trait Clocks: Send {
    /// The clock's value in nanoseconds.
    fn now(&mut self, clock: ClockId) -> Result<u64, Errno>;

    /// The clock's smallest step in nanoseconds.
    fn resolution(&mut self, clock: ClockId) -> Result<u64, Errno>;

    /// Waits for `duration`.
    fn sleep(&mut self, duration: Duration);

    /// Waits for `duration`, or until `stops` says that the guest is to stop; says whether it did. As it stands here,
    /// it is not asked before the end.
    fn sleep_unless(&mut self, duration: Duration, stops: &dyn Fn() -> bool) -> bool {
        self.sleep(duration);
        stops()
    }
}

/// The host's clocks. The monotonic one starts at zero, so that it tells nothing of the host.
pub struct HostClocks {
    start: Instant,
}

impl HostClocks {
    /// Clocks whose monotonic time begins now.
    pub fn new() -> Self {
        HostClocks { start: Instant::now() }
    }
}

impl Default for HostClocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Clocks for HostClocks {
    fn now(&mut self, clock: ClockId) -> Result<u64, Errno> {
        Ok(match clock {
            ClockId::Realtime => {
                let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since_epoch.as_nanos())?
            }
            ClockId::Monotonic => u64::try_from(self.start.elapsed().as_nanos())?,
            ClockId::ProcessCpu | ClockId::ThreadCpu => crate::os::cpu_time(clock)?,
        })
    }

    fn resolution(&mut self, clock: ClockId) -> Result<u64, Errno> {
        crate::os::clock_resolution(clock)
    }

    fn sleep(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn sleep_unless(&mut self, duration: Duration, stops: &dyn Fn() -> bool) -> bool {
        let started = Instant::now();
        loop {
            if stops() {
                return true;
            }
            let left = duration.saturating_sub(started.elapsed());
            if left.is_zero() {
                return false;
            }
            self.sleep(left.min(PIECE));
        }
    }
}
