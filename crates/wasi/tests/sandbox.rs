//! A guest gets at what lies below its directories and at nothing else.

mod support;

use std::fs;

use legato_wasi::{Access, Errno, LookupFlags, OFlags, Rights};
use support::{Guest, builder, sandbox};

/// Every way out of the directory that paths offer.
const ESCAPES: &[&str] = &[
    "..",
    "../outside/secret",
    "sub/../../outside/secret",
    "./sub/./../../outside/secret",
    "sub/deep/../../../outside/secret",
    "/etc/passwd",
    "/",
    "//etc/passwd",
    "to-secret",
    "to-outside/secret",
    "to-link/secret",
    "sub/to-secret",
    "absolute",
    "host-root/etc/passwd",
    "to-sub/../../outside/secret",
];

const NO_FLAGS: OFlags = OFlags::empty();

#[test]
fn no_path_leads_out() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    for path in ESCAPES {
        assert_eq!(guest.open(3, path, NO_FLAGS), Err(Errno::Perm), "open {path}");
        assert_eq!(guest.open(3, path, OFlags::CREAT), Err(Errno::Perm), "create {path}");
        assert_eq!(guest.open(3, path, OFlags::TRUNC), Err(Errno::Perm), "truncate {path}");
        assert_eq!(guest.open_dir(3, path), Err(Errno::Perm), "open directory {path}");
        assert_eq!(guest.stat(3, path, true).unwrap_err(), Errno::Perm, "stat {path}");
        assert_eq!(guest.set_times(3, path, true, 1, 1, 5), Err(Errno::Perm), "times {path}");
        let followed = guest.link(3, path, LookupFlags::SYMLINK_FOLLOW, 3, "linked");
        assert_eq!(followed, Err(Errno::Perm), "link {path}");
    }
    assert_eq!(fs::read_to_string(root.path().join("outside/secret")).unwrap(), "secret");
    assert_eq!(fs::read_dir(root.path().join("outside")).unwrap().count(), 1);
}

#[test]
fn nothing_outside_is_made_moved_or_removed() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    let outside = ["../outside/new", "to-outside/new", "/tmp/legato-new", "host-root/tmp/legato-new"];
    for path in outside {
        assert_eq!(guest.mkdir(3, path), Err(Errno::Perm), "{path}");
        assert_eq!(guest.symlink("file", 3, path), Err(Errno::Perm), "{path}");
        assert_eq!(guest.rename(3, "file", 3, path), Err(Errno::Perm), "{path}");
        assert_eq!(guest.link(3, "file", LookupFlags::empty(), 3, path), Err(Errno::Perm), "{path}");
    }
    for path in ["../outside/secret", "to-outside/secret", "to-link/secret"] {
        assert_eq!(guest.unlink(3, path), Err(Errno::Perm), "{path}");
        assert_eq!(guest.rename(3, path, 3, "mine"), Err(Errno::Perm), "{path}");
        assert_eq!(guest.link(3, path, LookupFlags::empty(), 3, "mine"), Err(Errno::Perm), "{path}");
        assert_eq!(guest.readlink(3, path, 100), Err(Errno::Perm), "{path}");
    }
    assert_eq!(guest.rmdir(3, "../outside"), Err(Errno::Perm));
    assert_eq!(guest.symlink("/etc/passwd", 3, "new"), Err(Errno::Perm));
    // A link that the guest makes itself leads out as little as one that it finds.
    guest.symlink("../outside/secret", 3, "made").unwrap();
    assert_eq!(guest.open(3, "made", NO_FLAGS), Err(Errno::Perm));
    guest.symlink("..", 3, "up").unwrap();
    assert_eq!(guest.open(3, "up/outside/secret", NO_FLAGS), Err(Errno::Perm));
    guest.rename(3, "up", 3, "sub/up").unwrap();
    assert_eq!(guest.open(3, "sub/up/up", NO_FLAGS), Err(Errno::Noent));
    assert!(guest.open(3, "sub/up/file", NO_FLAGS).is_ok());
    assert_eq!(fs::read_to_string(root.path().join("outside/secret")).unwrap(), "secret");
    assert_eq!(fs::read_dir(root.path().join("outside")).unwrap().count(), 1);
}

#[test]
fn links_within_are_followed_or_not_as_asked() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    for path in ["to-file", "sub/to-file", "to-sub/../file", "to-sub/to-file", "./file"] {
        let fd = guest.open(3, path, NO_FLAGS).unwrap();
        assert_eq!(guest.read(fd, 20).unwrap(), b"contents", "{path}");
    }
    for path in ["to-file", "to-secret", "absolute", "loop"] {
        let opened = guest.open_as(3, path, false, NO_FLAGS, Rights::FILE, 0);
        assert_eq!(opened, Err(Errno::Loop), "{path}");
        assert_eq!(guest.stat(3, path, false).unwrap().filetype, 7, "{path}");
    }
    let opened = guest.open_as(3, "to-sub", false, OFlags::DIRECTORY, Rights::DIRECTORY, 0);
    assert!(matches!(opened, Err(Errno::Loop | Errno::Notdir)), "{opened:?}");
    assert_eq!(guest.open(3, "loop", NO_FLAGS), Err(Errno::Loop));
    // Only the last component: a link on the way is followed all the same.
    assert!(guest.open_as(3, "to-sub/other", false, NO_FLAGS, Rights::FILE, 0).is_ok());
    assert_eq!(guest.readlink(3, "to-sub", 100).unwrap(), "sub");
    assert_eq!(guest.readlink(3, "to-secret", 5).unwrap(), "../ou");
    assert_eq!(guest.readlink(3, "file", 5), Err(Errno::Inval));
}

#[test]
fn an_opened_directory_is_a_root_of_its_own() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    let sub = guest.open_dir(3, "sub").unwrap();
    assert!(guest.open(sub, "other", NO_FLAGS).is_ok());
    assert_eq!(guest.open(sub, "../file", NO_FLAGS), Err(Errno::Perm));
    assert_eq!(guest.open(sub, "to-file", NO_FLAGS), Err(Errno::Perm));
    assert_eq!(guest.open_dir(sub, ".."), Err(Errno::Perm));
    assert!(guest.open(sub, "deep/../other", NO_FLAGS).is_ok());
}

#[test]
fn two_directories_exchange_but_do_not_reach_through_each_other() {
    let root = sandbox();
    let mut builder = builder();
    builder.preopened_dir(root.path().join("inside"), "/a", Access::ReadWrite).unwrap();
    builder.preopened_dir(root.path().join("outside"), "/b", Access::ReadWrite).unwrap();
    let mut guest = Guest::new(builder);
    assert_eq!(guest.open(3, "../outside/secret", NO_FLAGS), Err(Errno::Perm));
    guest.rename(3, "file", 4, "moved").unwrap();
    guest.link(4, "secret", LookupFlags::empty(), 3, "sub/shared").unwrap();
    assert_eq!(guest.stat(4, "secret", false).unwrap().nlink, 2);
    assert_eq!(guest.rename(3, "sub", 4, "../elsewhere"), Err(Errno::Perm));
    assert_eq!(guest.link(4, "../inside/sub/other", LookupFlags::empty(), 4, "got"), Err(Errno::Perm));
    assert_eq!(fs::read_to_string(root.path().join("outside/moved")).unwrap(), "contents");
}

#[test]
fn a_read_only_directory_stays_as_it_is() {
    let root = sandbox();
    let inside = root.path().join("inside");
    let mut builder = builder();
    builder.preopened_dir(&inside, "/", Access::ReadOnly).unwrap();
    builder.preopened_dir(root.path().join("outside"), "/w", Access::ReadWrite).unwrap();
    let mut guest = Guest::new(builder);
    let all_but_write = Rights::FILE - Rights::FD_WRITE;
    let fd = guest.open_as(3, "file", true, NO_FLAGS, all_but_write, 0).unwrap();
    assert_eq!(guest.read(fd, 8).unwrap(), b"contents");
    assert_eq!(guest.write(fd, b"x"), Err(Errno::Notcapable));
    assert_eq!(guest.ctx.fd_filestat_set_size(fd, 0), Err(Errno::Notcapable));
    assert_eq!(guest.ctx.fd_allocate(fd, 0, 100), Err(Errno::Notcapable));
    assert_eq!(guest.ctx.fd_filestat_set_times(fd, 0, 0, 5), Err(Errno::Notcapable));
    assert_eq!(guest.open(3, "file", NO_FLAGS), Err(Errno::Notcapable));
    for flags in [OFlags::CREAT, OFlags::TRUNC] {
        let opened = guest.open_as(3, "file", true, flags, Rights::FD_READ, 0);
        assert_eq!(opened, Err(Errno::Notcapable));
    }
    let sub = guest.open_dir(3, "sub").unwrap();
    for dir in [3, sub] {
        // So that a library that masks what it asks for by what is passed on does ask to write, and is refused.
        assert!(guest.fdstat(dir).unwrap().3.contains(Rights::FD_WRITE));
        assert_eq!(guest.mkdir(dir, "new"), Err(Errno::Notcapable));
        assert_eq!(guest.unlink(dir, "other"), Err(Errno::Notcapable));
        assert_eq!(guest.rmdir(dir, "deep"), Err(Errno::Notcapable));
        assert_eq!(guest.symlink("other", dir, "new"), Err(Errno::Notcapable));
        assert_eq!(guest.rename(dir, "other", 4, "new"), Err(Errno::Notcapable));
        assert_eq!(guest.rename(4, "secret", dir, "new"), Err(Errno::Notcapable));
        assert_eq!(guest.link(dir, "other", LookupFlags::empty(), 4, "new"), Err(Errno::Notcapable));
        assert_eq!(guest.set_times(dir, "other", true, 0, 0, 5), Err(Errno::Notcapable));
    }
}

#[test]
fn a_directory_is_not_opened_for_writing() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    let mut open = |path, rights| guest.open_as(3, path, true, OFlags::DIRECTORY, rights, 0);
    assert_eq!(open("sub", Rights::FD_READ | Rights::FD_WRITE), Err(Errno::Isdir));
    assert_eq!(open("file", Rights::FD_WRITE), Err(Errno::Notdir));
    assert_eq!(open("absent", Rights::FD_WRITE), Err(Errno::Noent));
    assert!(open("sub", Rights::FD_READ).is_ok());
}

#[test]
fn a_name_is_given_to_one_directory() {
    let root = sandbox();
    let mut builder = builder();
    builder.preopened_dir(root.path().join("inside"), "/data", Access::ReadWrite).unwrap();
    for same in ["/data", "data", "/data/", "./data"] {
        let error = builder.preopened_dir(root.path().join("outside"), same, Access::ReadOnly).err().unwrap();
        assert!(error.to_string().contains("two directories are given as"), "{error:#}");
    }
    builder.preopened_dir(root.path().join("outside"), "/data/more", Access::ReadOnly).unwrap();
}

#[test]
fn no_descriptor_is_a_socket() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    let file = guest.open(3, "file", NO_FLAGS).unwrap();
    for open in [0, 3, file] {
        assert_eq!(guest.ctx.sock_shutdown(open, 1), Err(Errno::Notsock));
    }
    assert_eq!(guest.ctx.sock_shutdown(file + 1, 1), Err(Errno::Badf));
}

#[test]
fn rights_can_be_given_up_but_not_gained() {
    let root = sandbox();
    let mut guest = Guest::in_dir(&root.path().join("inside"));
    let fd = guest.open(3, "file", NO_FLAGS).unwrap();
    let less = Rights::FD_READ | Rights::FD_TELL;
    guest.ctx.fd_fdstat_set_rights(fd, less.bits(), 0).unwrap();
    assert_eq!(guest.fdstat(fd).unwrap().2, less);
    assert_eq!(guest.write(fd, b"x"), Err(Errno::Notcapable));
    assert_eq!(guest.seek(fd, 0, 0), Err(Errno::Notcapable));
    assert_eq!(guest.seek(fd, 0, 1), Ok(0));
    let more = Rights::FILE.bits();
    assert_eq!(guest.ctx.fd_fdstat_set_rights(fd, more, 0), Err(Errno::Notcapable));
    assert_eq!(guest.ctx.fd_fdstat_set_rights(fd, u64::MAX, 0), Err(Errno::Notcapable));

    let only_read = (Rights::FD_READ | Rights::DIRECTORY).bits();
    guest.ctx.fd_fdstat_set_rights(3, Rights::PATH_OPEN.bits(), only_read).unwrap();
    assert_eq!(guest.open(3, "file", NO_FLAGS), Err(Errno::Notcapable));
    assert_eq!(guest.mkdir(3, "new"), Err(Errno::Notcapable));
    let all_but_write = Rights::all() - Rights::FD_WRITE;
    let sub = guest.open_as(3, "sub", true, OFlags::DIRECTORY, all_but_write, 0).unwrap();
    assert_eq!(guest.open(sub, "other", NO_FLAGS), Err(Errno::Notcapable));
    assert!(guest.open_as(sub, "other", true, NO_FLAGS, Rights::FD_READ, 0).is_ok());
}

#[test]
fn descriptors_are_counted() {
    let root = sandbox();
    let inside = root.path().join("inside");
    let mut given = builder();
    given.preopened_dir(&inside, "/", Access::ReadWrite).unwrap().max_descriptors(6);
    let mut guest = Guest::new(given);
    let [first, _] = [4, 5].map(|fd| {
        assert_eq!(guest.open(3, "file", OFlags::empty()), Ok(fd));
        fd
    });
    assert_eq!(guest.open(3, "more", OFlags::CREAT), Err(Errno::Mfile));
    assert!(!inside.join("more").exists(), "nothing is made that cannot be opened");
    guest.ctx.fd_close(first).unwrap();
    assert_eq!(guest.open(3, "more", OFlags::CREAT), Ok(first));

    // What was given has room.
    let mut given = builder();
    given.preopened_dir(&inside, "/", Access::ReadWrite).unwrap().max_descriptors(0);
    assert_eq!(Guest::new(given).open(3, "file", OFlags::empty()), Err(Errno::Mfile));
}
