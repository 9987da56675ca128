//! Guests that wait for their host stop as compiled code does: on request, or at a deadline.

use std::time::{Duration, Instant};

use legato::InterruptHandle;

use crate::errno::Errno;
use crate::os::{self, Readiness, Source};

/// How long the host waits without asking.
pub(crate) const PIECE: Duration = Duration::from_millis(10);

/// Whether the guest that waits is to stop. Where nobody can ask for that, it never is.
#[derive(Default)]
pub(crate) struct Interrupts(pub(crate) Option<InterruptHandle>);

impl Interrupts {
    /// Whether the guest is to stop now.
    pub(crate) fn are_requested(&self) -> bool {
        self.0.as_ref().is_some_and(InterruptHandle::is_requested)
    }

    /// As [`os::wait`], but fails with [`Errno::Intr`] where the guest is to stop meanwhile.
    pub(crate) fn wait(
        &self,
        sources: &[Source<'_>],
        timeout: Option<Duration>,
    ) -> Result<Vec<Option<Readiness>>, Errno> {
        if self.0.is_none() {
            return os::wait(sources, timeout);
        }
        let started = Instant::now();
        loop {
            if self.are_requested() {
                return Err(Errno::Intr);
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            let found = os::wait(sources, Some(left.unwrap_or(PIECE).min(PIECE)))?;
            if found.iter().any(Option::is_some) || left.is_some_and(|left| left <= PIECE) {
                return Ok(found);
            }
        }
    }

    /// Waits until a source can be read.
    pub(crate) fn wait_to_read(&self, source: Source<'_>) -> Result<(), Errno> {
        // Whoever cannot be asked to stop waits in the read itself.
        if self.0.is_some() {
            self.wait(&[source], None)?;
        }
        Ok(())
    }
}
