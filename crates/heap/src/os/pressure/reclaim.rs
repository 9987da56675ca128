//! The source `reclaim`: the mutator's thread had to reclaim memory itself. This is the allocation stall of Isla Vista,
//! section 3.1, by tracepoints in place of the paper's kernel module.
//!
//! A stall within a collection counts. One of the program counts where something has been swapped out as well: reading
//! a large file sets the tracepoints off, too.

use super::counter::StatusFile;
use super::swap::parse_swapped;
use crate::pressure::{Moment, Pressure, PressureSource};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::path::Path;

/// Where the kernel shows its tracepoints.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Reclaim because the machine is short of memory, and because a group is.
const TRACEPOINTS: [&str; 2] = ["mm_vmscan_direct_reclaim_begin", "mm_vmscan_memcg_reclaim_begin"];

/// `struct perf_event_attr` of `linux/perf_event.h`, in its first version (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// `PERF_TYPE_TRACEPOINT`, and `PERF_FLAG_FD_CLOEXEC`.
const TRACEPOINT: u32 = 2;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// The source.
pub(super) struct Reclaim {
    ids: [u64; 2],
    /// The thread that is counted, and its counters.
    thread: libc::pid_t,
    events: Vec<File>,
    status: Option<StatusFile>,
    counted: Counted,
}

/// What has been counted.
#[derive(Debug, Default)]
struct Counted {
    /// At the last answer.
    last: u64,
    /// When the collection began, if it did so in one stop.
    before: Option<u64>,
    /// KiB swapped out at the last answer.
    swapped: u64,
}

impl Counted {
    /// The answer, when a collection has ended.
    fn answer(&mut self, now: u64, swapped: u64) -> Pressure {
        let last = std::mem::replace(&mut self.last, now);
        let before = self.before.take().unwrap_or(now);
        let has_grown = swapped > std::mem::replace(&mut self.swapped, swapped);
        if now > before || now > last && has_grown { Pressure::Stall } else { Pressure::Clear }
    }
}

impl Reclaim {
    /// Opens it, for the calling thread.
    ///
    /// # Errors
    /// Why there is no such source.
    pub(super) fn open() -> Result<Reclaim, String> {
        let [direct, group] = TRACEPOINTS.map(tracepoint);
        let mut status = StatusFile::open(Path::new("/proc/self/status")).ok();
        let swapped = status.as_mut().and_then(|status| status.read().and_then(parse_swapped)).unwrap_or(0);
        let counted = Counted { swapped, ..Counted::default() };
        let mut source = Reclaim { ids: [direct?, group?], thread: 0, events: Vec::new(), status, counted };
        source.follow().map_err(|error| format!("perf events: {error}"))?;
        Ok(source)
    }

    /// Counts for the calling thread from now on.
    fn follow(&mut self) -> io::Result<()> {
        let events = self.ids.iter().map(|&id| count_on_this_thread(id)).collect::<io::Result<Vec<File>>>()?;
        (self.thread, self.events) = (this_thread(), events);
        (self.counted.last, self.counted.before) = (0, None);
        Ok(())
    }

    /// Reclaims of the thread since it is followed.
    fn total(&mut self) -> io::Result<u64> {
        let mut total = 0;
        for event in &mut self.events {
            let mut number = [0; 8];
            event.read_exact(&mut number)?;
            total += u64::from_ne_bytes(number);
        }
        Ok(total)
    }
}

impl PressureSource for Reclaim {
    fn name(&self) -> String {
        "reclaim (vmscan tracepoints)".to_string()
    }

    fn read(&mut self, moment: Moment) -> Pressure {
        // The mutator may have moved to another thread.
        if self.thread != this_thread() && self.follow().is_err() {
            return Pressure::Unknown;
        }
        let Ok(now) = self.total() else { return Pressure::Unknown };
        if moment == Moment::Before {
            self.counted.before = Some(now);
            return Pressure::Clear;
        }
        // What is swapped out makes no difference where nothing has been reclaimed since the last answer.
        let mut swapped = self.counted.swapped;
        if now > self.counted.last
            && let Some(status) = &mut self.status
        {
            swapped = status.read().and_then(parse_swapped).unwrap_or(swapped);
        }
        self.counted.answer(now, swapped)
    }
}

/// The number of a tracepoint of `vmscan`.
fn tracepoint(name: &str) -> Result<u64, String> {
    let mut because = String::new();
    for folder in TRACEFS {
        let path = Path::new(folder).join("events/vmscan").join(name).join("id");
        match std::fs::read_to_string(&path) {
            Ok(text) => return text.trim().parse().map_err(|_| format!("{} is no number", path.display())),
            Err(error) if because.is_empty() => because = format!("{}: {error}", path.display()),
            Err(_) => {}
        }
    }
    Err(because)
}

fn this_thread() -> libc::pid_t {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() }
}

/// Counts a tracepoint on the calling thread, wherever it runs.
fn count_on_this_thread(id: u64) -> io::Result<File> {
    let size = size_of::<EventAttributes>() as u32;
    let attributes = EventAttributes { kind: TRACEPOINT, size, config: id, ..EventAttributes::default() };
    let (this_thread, any_processor, no_group) = (0, -1, -1);
    // SAFETY: the system call reads the attributes, whose size they say, and nothing else.
    let descriptor = unsafe {
        let call = libc::SYS_perf_event_open;
        libc::syscall(call, &raw const attributes, this_thread, any_processor, no_group, CLOSE_ON_EXEC)
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor has just been made, and is nobody else's.
    Ok(unsafe { File::from_raw_fd(descriptor as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_of_the_collector_counts_and_one_of_the_program_if_something_is_swapped_out() {
        let mut counted = Counted { last: 5, ..Counted::default() };
        let collection = |counted: &mut Counted, before, after, swapped| {
            counted.before = Some(before);
            counted.answer(after, swapped)
        };
        assert_eq!(collection(&mut counted, 5, 5, 0), Pressure::Clear);
        assert_eq!(collection(&mut counted, 5, 6, 0), Pressure::Stall, "the collector's");
        assert_eq!(collection(&mut counted, 9, 9, 0), Pressure::Clear, "the program reads a file");
        assert_eq!(collection(&mut counted, 12, 12, 64), Pressure::Stall, "the program's, with memory swapped out");
        assert_eq!(collection(&mut counted, 12, 12, 128), Pressure::Clear, "another one's");
        // A cycle in slices: nobody knows whose it was.
        assert_eq!(counted.answer(13, 128), Pressure::Clear);
        assert_eq!(counted.answer(14, 256), Pressure::Stall);
    }
}
