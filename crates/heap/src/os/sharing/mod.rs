//! Pages that several mappings share: a file in memory, and what the page tables say of a page.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{MemoryFile, PageTables};
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{MemoryFile, PageTables};

/// What stands behind a page of a private mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageState {
    /// Nothing of its own: it has not been touched, or shows the file's page.
    NotOwn,
    /// Memory of its own, swapped out or not.
    Own,
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::os::{Reservation, page_bytes};

    #[test]
    fn pages_of_a_file_are_private_once_they_are_written() {
        let (page, file, tables) = (
            page_bytes() as usize,
            MemoryFile::new(c"test", 0, "a test").unwrap(),
            PageTables::new(page_bytes()).unwrap(),
        );
        let contents = vec![7u8; 4 * page];
        assert!(file.write(page as u64, &contents));
        let reservation = Reservation::new(1 << 20, "a test").unwrap();
        reservation.commit(0, 1 << 20).unwrap();
        assert!(reservation.map_file(page, 4 * page, &file, page as u64));
        let states = || {
            let mut states = Vec::new();
            assert!(tables.read(reservation.base(), 6, &mut states));
            states.iter().map(|&state| state == PageState::Own).collect::<Vec<_>>()
        };
        let byte = |at: usize| reservation.base().wrapping_add(at);
        // SAFETY: the range is accessible.
        unsafe {
            byte(0).write(1);
            assert_eq!(byte(2 * page).read(), 7);
            byte(3 * page).write(9);
        }
        assert_eq!(states(), [true, false, false, true, false, false]);
        let mut back = vec![0u8; page];
        assert!(file.read(3 * page as u64, &mut back));
        assert!(back.iter().all(|&byte| byte == 7), "the file keeps what it had");
        // What is punched out of the file leaves the private page alone.
        assert!(file.punch(page as u64, 4 * page as u64));
        // SAFETY: the range is accessible.
        unsafe { assert_eq!((byte(2 * page).read(), byte(3 * page).read()), (0, 9)) };
        assert!(reservation.map_fresh(page, 4 * page));
        // SAFETY: the range is accessible.
        unsafe { assert_eq!((byte(0).read(), byte(3 * page).read()), (1, 0)) };
    }

    #[test]
    fn a_page_is_seen_at_two_addresses_until_it_is_given_back() {
        let page = page_bytes() as usize;
        let file = MemoryFile::new(c"test", 1 << 20, "a test").unwrap();
        let (first, second) =
            (Reservation::new(4 * page, "a test").unwrap(), Reservation::new(4 * page, "a test").unwrap());
        assert!(first.map_shared(page, 2 * page, &file, 3 * page as u64, false));
        assert!(second.map_shared(0, page, &file, 4 * page as u64, true));
        let (here, there) = (first.base().wrapping_add(2 * page).cast::<u64>(), second.base().cast::<u64>());
        // SAFETY: both pages have just been mapped.
        unsafe {
            assert_eq!(there.read_volatile(), 0);
            here.write_volatile(7);
            assert_eq!(there.read_volatile(), 7);
            there.write_volatile(8);
            assert_eq!(here.read_volatile(), 8);
            assert!(file.punch(4 * page as u64, page as u64));
            assert_eq!((here.read_volatile(), there.read_volatile()), (0, 0));
        }
    }
}
