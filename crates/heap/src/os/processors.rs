//! What the operating system tells of processors and of how busy they are.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use std::time::Duration;

/// Processors that this process may use: those of its affinity mask, or fewer where a control group's quota is lower.
pub(crate) fn usable() -> u32 {
    // Where the system does not tell, one is the careful answer: nothing then counts as idle.
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// Processors of the whole machine that are online; `None` where the system does not tell.
pub(crate) fn online() -> Option<u32> {
    // SAFETY: `sysconf` only reads.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(count).ok().filter(|&count| count > 0)
}

/// Processor time that the threads of this process have taken together; `None` where the system does not tell.
pub(crate) fn process_time() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a variable of ours.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Threads of the whole machine that run or could run at this moment, the caller among them; `None` where the system
/// does not tell (only Linux does).
pub(crate) fn runnable_threads() -> Option<u32> {
    // Open for good: to find the file takes much longer than to read it, and a mutator may be waiting.
    static LOAD: LazyLock<Option<File>> = LazyLock::new(|| File::open("/proc/loadavg").ok());
    let mut text = [0; 128];
    let length = LOAD.as_ref()?.read_at(&mut text, 0).ok()?;
    parse_runnable(std::str::from_utf8(&text[..length]).ok()?)
}

/// The fourth field of `/proc/loadavg`, up to the slash.
fn parse_runnable(loadavg: &str) -> Option<u32> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_average_is_understood() {
        assert_eq!(parse_runnable("2.34 1.12 0.62 10/118 15374\n"), Some(10));
        assert_eq!(parse_runnable("2.34 1.12"), None);
        assert_eq!(parse_runnable("1 2 3 x/y 5"), None);
    }

    #[test]
    fn the_system_answers() {
        assert!(usable() >= 1);
        let before = process_time().unwrap();
        assert!((0..1_000_000u64).fold(0, |a, b| std::hint::black_box(a ^ b)) < 1 << 20);
        assert!(process_time().unwrap() > before);
        if cfg!(target_os = "linux") {
            assert!(runnable_threads().unwrap() >= 1 && online().unwrap() >= 1);
        }
    }
}
