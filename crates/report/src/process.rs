//! What the operating system says about this process.

use std::time::Duration;

use crate::machine::bytes_field;

/// Processor time of this process so far, all its threads together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CpuTime {
    /// Outside the kernel.
    pub(crate) user: Duration,
    /// Inside.
    pub(crate) system: Duration,
}

impl CpuTime {
    /// Until now. Zero where the system does not tell.
    #[cfg(unix)]
    pub(crate) fn now() -> CpuTime {
        use nix::sys::resource::{UsageWho, getrusage};
        use nix::sys::time::{TimeVal, TimeValLike};

        let duration = |time: TimeVal| Duration::from_micros(time.num_microseconds().try_into().unwrap_or(0));
        getrusage(UsageWho::RUSAGE_SELF).map_or_else(
            |_| CpuTime::default(),
            |usage| CpuTime { user: duration(usage.user_time()), system: duration(usage.system_time()) },
        )
    }

    /// Until now. Zero, since this system does not tell.
    #[cfg(not(unix))]
    pub(crate) fn now() -> CpuTime {
        CpuTime::default()
    }

    pub(crate) fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime { user: self.user.saturating_sub(earlier.user), system: self.system.saturating_sub(earlier.system) }
    }
}

/// The most physical memory that this process has had, in bytes; `None` where the system does not tell.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    // Linux passes `ru_maxrss` on through exec: it would tell of a large parent. This does not.
    bytes_field("/proc/self/status", "VmHWM").or_else(peak_of_usage)
}

#[cfg(unix)]
fn peak_of_usage() -> Option<u64> {
    use nix::sys::resource::{UsageWho, getrusage};

    let peak: u64 = getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss().try_into().ok()?;
    // Apple's systems count bytes, the others KiB.
    Some(if cfg!(target_vendor = "apple") { peak } else { peak * 1024 })
}

#[cfg(not(unix))]
fn peak_of_usage() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_passes() {
        let before = CpuTime::now();
        let mut sum = 0u64;
        while CpuTime::now().since(before).user < Duration::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        assert!(CpuTime::now().user > before.user, "{sum}");
    }

    #[test]
    fn the_peak_follows_what_is_touched() {
        const TOUCHED: usize = 64 << 20;
        let memory = std::hint::black_box(vec![1u8; TOUCHED]);
        let peak = peak_resident_bytes().expect("this system tells");
        assert!(peak >= memory.len() as u64, "{peak}");
    }
}
