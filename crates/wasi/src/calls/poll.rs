//! `poll_oneoff`: waiting for clocks and descriptors at once.

use std::io::Seek;
use std::time::{Duration, Instant};

use crate::clocks::Clocks;
use crate::ctx::WasiCtx;
use crate::errno::Errno;
use crate::interrupts::Interrupts;
use crate::memory::GuestMemory;
use crate::os::Source;
use crate::stdio::Input;
use crate::table::{FdTable, Object};
use crate::types::{ClockId, EVENT_SIZE, Event, FileType, Rights, SUBSCRIPTION_SIZE, Subscription, Wait};

/// What a subscription turns out to wait for.
enum Pending<'a> {
    /// There is nothing to wait for.
    Done(Event),
    Clock {
        event: Event,
        remaining: Duration,
    },
    Host {
        event: Event,
        source: Source<'a>,
    },
}

impl WasiCtx {
    /// Waits until at least one of the `count` subscriptions at `input` has happened; writes an event for each that has
    /// to `output`, and their number to `result`.
    pub fn poll_oneoff(
        &mut self,
        memory: &mut GuestMemory<'_>,
        input: u32,
        output: u32,
        count: u32,
        result: u32,
    ) -> Result<(), Errno> {
        if count == 0 {
            return Err(Errno::Inval);
        }
        memory.slice(input, count.checked_mul(SUBSCRIPTION_SIZE).ok_or(Errno::Fault)?)?;
        memory.slice(output, count.checked_mul(EVENT_SIZE).ok_or(Errno::Fault)?)?;
        memory.slice(result, 4)?;
        let subscriptions = (0..count)
            .map(|index| Subscription::read(memory, input + index * SUBSCRIPTION_SIZE))
            .collect::<Result<Vec<_>, _>>()?;
        self.console.flush()?;

        let mut remaining = Vec::with_capacity(subscriptions.len());
        for subscription in &subscriptions {
            remaining.push(self.remaining(subscription.wait));
        }
        let pending: Vec<_> = subscriptions
            .iter()
            .zip(remaining)
            .map(|(subscription, remaining)| pending(&self.table, &self.input, subscription, remaining))
            .collect();
        let events = wait(&pending, &self.interrupts, &mut *self.clocks)?;
        for (index, event) in (0u32..).zip(&events) {
            event.write(memory, output + index * EVENT_SIZE)?;
        }
        memory.write_u32(result, u32::try_from(events.len())?)
    }

    /// How long a clock has yet to run.
    fn remaining(&mut self, wait: Wait) -> Result<Duration, Errno> {
        let Wait::Clock { clock, timeout, absolute } = wait else {
            return Ok(Duration::ZERO);
        };
        let clock = ClockId::try_from(clock)?;
        let passed = if absolute { self.clocks.now(clock)? } else { 0 };
        Ok(Duration::from_nanos(timeout.saturating_sub(passed)))
    }
}

fn pending<'a>(
    table: &'a FdTable,
    input: &'a Input,
    subscription: &Subscription,
    remaining: Result<Duration, Errno>,
) -> Pending<'a> {
    let kind = match subscription.wait {
        Wait::Clock { .. } => 0,
        Wait::Read { .. } => 1,
        Wait::Write { .. } => 2,
    };
    let event = Event { userdata: subscription.userdata, error: None, kind, bytes: 0, hangup: false };
    let outcome = match subscription.wait {
        Wait::Clock { .. } => remaining.map(|remaining| Pending::Clock { event, remaining }),
        Wait::Read { fd } => pending_descriptor(table, input, fd, event, true),
        Wait::Write { fd } => pending_descriptor(table, input, fd, event, false),
    };
    outcome.unwrap_or_else(|error| Pending::Done(Event { error: Some(error), ..event }))
}

fn pending_descriptor<'a>(
    table: &'a FdTable,
    input: &'a Input,
    fd: u32,
    event: Event,
    read: bool,
) -> Result<Pending<'a>, Errno> {
    let descriptor = table.get(fd)?;
    descriptor.require(Rights::POLL_FD_READWRITE)?;
    let ready = |bytes| Pending::Done(Event { bytes, ..event });
    match &descriptor.object {
        Object::Input if read => Ok(match input {
            Input::Inherit => Pending::Host { event, source: Source::stdin() },
            Input::Bytes(bytes) => ready((bytes.get_ref().len() as u64).saturating_sub(bytes.position())),
            // Whether a foreign reader would wait is not to be known: the read itself will tell.
            Input::Null | Input::Reader(_) => ready(0),
        }),
        // Output is gathered here and never makes the guest wait.
        Object::Output(_) if !read => Ok(ready(0)),
        Object::Input | Object::Output(_) => Err(Errno::Badf),
        Object::File(file) if file.filetype == FileType::RegularFile => {
            let rest = if read { file.stat()?.size.saturating_sub((&file.file).stream_position()?) } else { 0 };
            Ok(ready(rest))
        }
        Object::File(file) => Ok(Pending::Host { event, source: Source::file(&file.file, read) }),
        Object::Dir(_) => Err(Errno::Isdir),
    }
}

/// Waits for the first of `pending`, and returns all that have happened by then.
fn wait(pending: &[Pending<'_>], interrupts: &Interrupts, clocks: &mut dyn Clocks) -> Result<Vec<Event>, Errno> {
    let started = Instant::now();
    let nearest = pending
        .iter()
        .filter_map(|pending| match pending {
            Pending::Done(_) => Some(Duration::ZERO),
            Pending::Clock { remaining, .. } => Some(*remaining),
            Pending::Host { .. } => None,
        })
        .min();
    let sources: Vec<_> = pending
        .iter()
        .filter_map(|pending| match pending {
            Pending::Host { source, .. } => Some(*source),
            _ => None,
        })
        .collect();
    loop {
        let (found, elapsed) = if sources.is_empty() {
            let nearest = nearest.unwrap_or(Duration::ZERO);
            if !nearest.is_zero() && clocks.sleep_unless(nearest, &|| interrupts.are_requested()) {
                return Err(Errno::Intr);
            }
            (Vec::new(), nearest)
        } else {
            let left = nearest.map(|nearest| nearest.saturating_sub(started.elapsed()));
            (interrupts.wait(&sources, left)?, started.elapsed())
        };
        let mut found = found.into_iter();
        let events: Vec<Event> = pending
            .iter()
            .filter_map(|pending| match pending {
                Pending::Done(event) => Some(*event),
                Pending::Clock { event, remaining } => (*remaining <= elapsed).then_some(*event),
                Pending::Host { event, .. } => found.next().flatten().map(|ready| Event {
                    error: ready.error.then_some(Errno::Io),
                    bytes: ready.bytes,
                    hangup: ready.hangup,
                    ..*event
                }),
            })
            .collect();
        // None at all: a signal ended the host's wait before anything happened.
        if !events.is_empty() {
            return Ok(events);
        }
    }
}
