//! Files and directories as a guest works with them.

mod support;

use std::fs;

use legato_wasi::{Errno, LookupFlags, OFlags, Rights};
use support::{Guest, sandbox};

const NO_FLAGS: OFlags = OFlags::empty();

#[test]
fn reading_writing_and_positions() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    let fd = guest.open(3, "new", OFlags::CREAT | OFlags::EXCL).unwrap();
    assert_eq!(guest.open(3, "new", OFlags::CREAT | OFlags::EXCL), Err(Errno::Exist));
    assert_eq!(guest.write(fd, b"hello, world"), Ok(12));
    assert_eq!(guest.tell(fd), Ok(12));
    assert_eq!(guest.seek(fd, -5, 2), Ok(7));
    assert_eq!(guest.read(fd, 100).unwrap(), b"world");
    assert_eq!(guest.read(fd, 100).unwrap(), b"");
    assert_eq!(guest.pwrite(fd, b"HELLO", 0), Ok(5));
    assert_eq!(guest.pread(fd, 7, 2).unwrap(), b"LLO, wo");
    assert_eq!(guest.pread(fd, 7, 10).unwrap(), b"ld");
    assert_eq!(guest.tell(fd), Ok(12));
    assert_eq!(guest.seek(fd, 0, 0), Ok(0));
    assert_eq!(guest.seek(fd, -1, 0), Err(Errno::Inval));
    assert_eq!(guest.seek(fd, -1, 1), Err(Errno::Inval));
    assert_eq!(guest.seek(fd, 0, 3), Err(Errno::Inval));
    assert_eq!(guest.pread(fd, 4, u64::MAX), Err(Errno::Inval));
    guest.ctx.fd_filestat_set_size(fd, 3).unwrap();
    guest.ctx.fd_allocate(fd, 0, 8).unwrap();
    assert_eq!(guest.fd_stat(fd).unwrap().size, 8);
    guest.ctx.fd_advise(fd, 0, 0, 1).unwrap();
    assert_eq!(guest.ctx.fd_advise(fd, 0, 0, 6), Err(Errno::Inval));
    guest.ctx.fd_sync(fd).unwrap();
    guest.ctx.fd_datasync(fd).unwrap();
    guest.ctx.fd_sync(3).unwrap();
    guest.ctx.fd_close(fd).unwrap();
    assert_eq!(guest.ctx.fd_close(fd), Err(Errno::Badf));
    assert_eq!(guest.read(fd, 1), Err(Errno::Badf));
    assert_eq!(fs::read(root.path().join("inside/new")).unwrap(), b"HEL\0\0\0\0\0");
}

#[test]
fn opening() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    assert_eq!(guest.open(3, "absent", NO_FLAGS), Err(Errno::Noent));
    assert_eq!(guest.open(3, "", NO_FLAGS), Err(Errno::Noent));
    assert_eq!(guest.open(3, "a\0b", NO_FLAGS), Err(Errno::Inval));
    assert_eq!(guest.open(3, "file/x", NO_FLAGS), Err(Errno::Notdir));
    assert_eq!(guest.open_dir(3, "file"), Err(Errno::Notdir));
    assert_eq!(guest.open(3, "sub", NO_FLAGS), Err(Errno::Isdir));
    assert_eq!(guest.open(3, "sub", OFlags::CREAT | OFlags::DIRECTORY), Err(Errno::Inval));
    assert_eq!(guest.open(1, "file", NO_FLAGS), Err(Errno::Notdir));
    assert_eq!(guest.open(99, "file", NO_FLAGS), Err(Errno::Badf));

    let read = guest.open_as(3, "file", true, NO_FLAGS, Rights::FD_READ, 0).unwrap();
    assert_eq!(guest.write(read, b"x"), Err(Errno::Notcapable));
    let write = guest.open_as(3, "file", true, NO_FLAGS, Rights::FD_WRITE, 0).unwrap();
    assert_eq!(guest.read(write, 1), Err(Errno::Notcapable));
    let nothing = guest.open_as(3, "file", true, NO_FLAGS, Rights::FD_FILESTAT_GET, 0).unwrap();
    assert_eq!(guest.fd_stat(nothing).unwrap().size, 8);

    // A directory that was not asked for as one still opens as one.
    let dir = guest.open_as(3, "sub", true, NO_FLAGS, Rights::FD_READ | Rights::DIRECTORY, 0).unwrap();
    assert_eq!(guest.fdstat(dir).unwrap().0, 3);
    assert_eq!(guest.read(dir, 1), Err(Errno::Isdir));
    assert!(guest.open(dir, "other", NO_FLAGS).is_ok());

    // Created without the right to write: the right is still missing afterwards.
    let created = guest.open_as(3, "made", true, OFlags::CREAT, Rights::FD_READ, 0).unwrap();
    assert_eq!(guest.write(created, b"x"), Err(Errno::Notcapable));
    guest.open(3, "file", OFlags::TRUNC).unwrap();
    assert_eq!(guest.stat(3, "file", true).unwrap().size, 0);
}

#[test]
fn flags_of_open_files() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    let fd = guest.open_as(3, "file", true, NO_FLAGS, Rights::FILE, 1).unwrap();
    assert_eq!(guest.fdstat(fd).unwrap().1, 1);
    guest.seek(fd, 0, 0).unwrap();
    guest.write(fd, b"+").unwrap();
    assert_eq!(guest.stat(3, "file", true).unwrap().size, 9);
    guest.ctx.fd_fdstat_set_flags(fd, 0).unwrap();
    assert_eq!(guest.fdstat(fd).unwrap().1, 0);
    guest.seek(fd, 0, 0).unwrap();
    guest.write(fd, b"C").unwrap();
    assert_eq!(guest.ctx.fd_fdstat_set_flags(fd, 16), Err(Errno::Notsup));
    assert_eq!(guest.ctx.fd_fdstat_set_flags(fd, 32), Err(Errno::Inval));
    assert_eq!(fs::read(root.path().join("inside/file")).unwrap(), b"Contents+");
    let synchronous = guest.open_as(3, "file", true, NO_FLAGS, Rights::FILE, 16).unwrap();
    assert_eq!(guest.fdstat(synchronous).unwrap().1 & 16, 16);
    guest.ctx.fd_fdstat_set_flags(synchronous, 16 | 1).unwrap();
}

#[test]
fn directories_are_read_by_cookie() {
    let root = sandbox();
    let dir = root.path().join("many");
    fs::create_dir(&dir).unwrap();
    for index in 0..50 {
        fs::write(dir.join(format!("file-{index:02}")), "").unwrap();
    }
    let mut guest = Guest::in_dir(&dir);
    let mut names = Vec::new();
    let mut cookie = 0;
    // Room for two entries and a bit.
    loop {
        let (entries, used) = guest.readdir(3, 80, cookie).unwrap();
        for (next, kind, name) in entries {
            assert_eq!(kind, if name.starts_with('.') { 3 } else { 4 }, "{name}");
            cookie = next;
            names.push(name);
        }
        if names.len() == 10 {
            // What comes and goes while the guest reads confuses nothing.
            fs::remove_file(dir.join("file-03")).unwrap();
            fs::write(dir.join("added"), "").unwrap();
        }
        if used < 80 {
            break;
        }
    }
    names.sort();
    let expected: Vec<String> =
        [".".into(), "..".into()].into_iter().chain((0..50).map(|index| format!("file-{index:02}"))).collect();
    assert_eq!(names, expected);
    let (again, _) = guest.readdir(3, 4096, 0).unwrap();
    assert!(again.iter().any(|(_, _, name)| name == "added"));
    assert!(!again.iter().any(|(_, _, name)| name == "file-03"));
    assert_eq!(guest.readdir(3, 4096, u64::MAX).unwrap(), (vec![], 0));
    assert_eq!(guest.readdir(1, 4096, 0).unwrap_err(), Errno::Notdir);
}

#[test]
fn making_moving_and_removing() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    guest.mkdir(3, "made").unwrap();
    assert_eq!(guest.mkdir(3, "made"), Err(Errno::Exist));
    guest.rename(3, "file", 3, "made/file").unwrap();
    assert_eq!(guest.rmdir(3, "made"), Err(Errno::Notempty));
    assert_eq!(guest.rmdir(3, "made/file"), Err(Errno::Notdir));
    assert_eq!(guest.unlink(3, "sub"), Err(Errno::Isdir));
    guest.symlink("made/file", 3, "pointer").unwrap();
    let inode = guest.stat(3, "made/file", true).unwrap().ino;
    assert_eq!(guest.stat(3, "pointer", true).unwrap().ino, inode);
    guest.link(3, "pointer", LookupFlags::SYMLINK_FOLLOW, 3, "second").unwrap();
    assert_eq!(guest.stat(3, "second", false).unwrap().ino, inode);
    guest.link(3, "pointer", LookupFlags::empty(), 3, "second-pointer").unwrap();
    assert_eq!(guest.stat(3, "second-pointer", false).unwrap().filetype, 7);
    guest.unlink(3, "pointer").unwrap();
    guest.unlink(3, "made/file").unwrap();
    guest.rmdir(3, "made").unwrap();
    assert_eq!(guest.stat(3, "second", false).unwrap().nlink, 1);
    assert_eq!(guest.unlink(3, "second/"), Err(Errno::Notdir));
}

#[test]
fn times() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    let (first, second) = (1_500_000_000_123_456_789, 1_600_000_000_000_000_001);
    guest.set_times(3, "to-file", true, first, second, 5).unwrap();
    let stat = guest.stat(3, "file", true).unwrap();
    assert_eq!((stat.atim, stat.mtim), (first, second));
    assert_ne!(guest.stat(3, "to-file", false).unwrap().mtim, second);
    guest.set_times(3, "to-file", false, 7, 8, 5).unwrap();
    assert_eq!(guest.stat(3, "to-file", false).unwrap().mtim, 8);
    let fd = guest.open(3, "file", NO_FLAGS).unwrap();
    guest.ctx.fd_filestat_set_times(fd, 42, 0, 1).unwrap();
    let stat = guest.fd_stat(fd).unwrap();
    assert_eq!((stat.atim, stat.mtim), (42, second));
    guest.ctx.fd_filestat_set_times(fd, 0, 0, 8).unwrap();
    assert!(guest.fd_stat(fd).unwrap().mtim > second);
    guest.ctx.fd_filestat_set_times(3, 9, 9, 5).unwrap();
    assert_eq!(guest.fd_stat(3).unwrap().mtim, 9);
    assert_eq!(guest.ctx.fd_filestat_set_times(fd, 0, 0, 3), Err(Errno::Inval));
    assert_eq!(guest.ctx.fd_filestat_set_times(fd, 0, 0, 16), Err(Errno::Inval));
}

#[test]
fn renumbering() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    let file = guest.open(3, "file", NO_FLAGS).unwrap();
    let other = guest.open(3, "sub/other", NO_FLAGS).unwrap();
    assert_eq!((file, other), (4, 5));
    guest.ctx.fd_renumber(other, file).unwrap();
    assert_eq!(guest.read(file, 9).unwrap(), b"more");
    assert_eq!(guest.read(other, 9), Err(Errno::Badf));
    assert_eq!(guest.ctx.fd_renumber(file, 77), Err(Errno::Badf));
    assert_eq!(guest.ctx.fd_renumber(77, file), Err(Errno::Badf));
    assert_eq!(guest.open(3, "file", NO_FLAGS), Ok(5));
    // Output that is renumbered over goes to the file from then on.
    guest.ctx.fd_renumber(5, 1).unwrap();
    guest.write(1, b"printed!").unwrap();
    assert_eq!(fs::read(root.path().join("inside/file")).unwrap(), b"printed!");
}
