//! The mappings that the process may have. The system bounds their number (`vm.max_map_count` on Linux), and where none
//! is left, not even memory can be committed. What a heap can do without draws on half of them: second mappings of
//! leaves, blocks that lie in a file for these, pages that arrays share. Where that half is used up, bytes are copied
//! instead. The number is the process's, and so is the count here: several heaps draw on one half.

use std::fs::File;
use std::io::{self, Read};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What Linux allows a process by default.
const USUAL: usize = 65_530;
/// The process has nearly all mappings where less than such a part of them is left.
const NEARLY_ALL: usize = 100;
/// The part of all mappings that can be drawn on.
const PART: usize = 2;

/// Drawn by all heaps of the process.
static DRAWN: AtomicUsize = AtomicUsize::new(0);

/// The most mappings that the process may have.
fn allowed() -> usize {
    let told = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    told.and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL)
}

/// The most mappings that can be drawn together.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| allowed() / PART)
}

/// Why the system refuses address space or memory, if it does so for want of mappings: it says "out of memory" then.
pub(super) fn explained(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    explained_by(error, count().unwrap_or(0), allowed())
}

/// How many mappings the process has. Takes no memory: there may be no mapping for any.
fn count() -> io::Result<usize> {
    let mut maps = File::open("/proc/self/maps")?;
    let (mut buffer, mut lines) = ([0; 4096], 0);
    loop {
        match maps.read(&mut buffer)? {
            0 => return Ok(lines),
            // Each line is a mapping.
            bytes => lines += buffer[..bytes].iter().filter(|&&byte| byte == b'\n').count(),
        }
    }
}

fn explained_by(error: io::Error, mappings: usize, allowed: usize) -> io::Error {
    if mappings < allowed - allowed / NEARLY_ALL {
        return error;
    }
    let sentence = format!(
        "{error}; the process has {mappings} mappings, and may have {allowed}: raise vm.max_map_count, or have fewer \
         heaps and type tables at a time"
    );
    io::Error::new(error.kind(), sentence)
}

/// How many more can be drawn. Heaps on other threads may draw some meanwhile: there is the other half.
pub(crate) fn left() -> usize {
    most().saturating_sub(DRAWN.load(Ordering::Relaxed))
}

/// Mappings that have been drawn. Given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Mappings(usize);

impl Mappings {
    /// Draws so many, be they [`left`] or not.
    pub(crate) fn draw(count: usize) -> Mappings {
        DRAWN.fetch_add(count, Ordering::Relaxed);
        Mappings(count)
    }

    /// Draws more, or gives some back, such that there are so many.
    pub(crate) fn set(&mut self, count: usize) {
        if count != self.0 {
            *self = Mappings::draw(count);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        DRAWN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Held by tests that draw many, or count on some that are left.
#[cfg(test)]
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_mappings_is_told_so() {
        let error = |code| io::Error::from_raw_os_error(code);
        let told = explained_by(error(libc::ENOMEM), 65_500, 65_530).to_string();
        assert!(told.contains("65500 mappings, and may have 65530: raise vm.max_map_count"), "{told}");
        assert_eq!(explained_by(error(libc::ENOMEM), 60_000, 65_530).raw_os_error(), Some(libc::ENOMEM));
        for code in [libc::ENOMEM, libc::EINVAL] {
            assert_eq!(explained(error(code)).raw_os_error(), Some(code), "tests have few mappings");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn mappings_are_counted() {
        let _alone = alone();
        let before = count().unwrap();
        let page = crate::os::page_bytes() as usize;
        // Every other page of each can be written: no two neighbours are one mapping.
        let made: Vec<_> = (0..20)
            .map(|_| {
                let reservation = crate::os::Reservation::new(20 * page, "a test").unwrap();
                (0..20).step_by(2).for_each(|number| reservation.commit(number * page, page).unwrap());
                reservation
            })
            .collect();
        // Other tests unmap theirs at the same time.
        assert!(count().unwrap() >= before + 200, "{before} before {} more", 20 * made.len());
    }

    #[test]
    fn what_is_drawn_is_missing_until_it_is_given_back() {
        let _alone = alone();
        // Other tests draw few at the same time.
        let few = 100;
        let before = left();
        let mut drawn = Mappings::draw(before / 2);
        assert!(left() <= before - before / 2 + few);
        drawn.set(before + few);
        assert_eq!((left(), drawn.count()), (0, before + few));
        drawn.set(few);
        assert!(left() > before / 2);
        drop(drawn);
        assert!(left() + few > before);
    }
}
