//! An open directory: the root of what a guest reaches through it.

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsMaybeDirExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, OpenOptions};
use std::fs::File;
use std::io;

use crate::errno::Errno;
use crate::os;
use crate::types::{FdFlags, FileStat, FileType, LookupFlags, OFlags};

/// An open directory.
pub(crate) struct OpenDir {
    pub dir: Dir,
    /// The guest's name of it, if it was opened before the guest began.
    pub preopen: Option<String>,
    /// The host gave it, or a directory above it, for reading alone.
    pub read_only: bool,
    /// The entries as they were when the guest last began to read them: cookies index this list, so that they stay
    /// valid while entries come and go.
    listing: Vec<Entry>,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub ino: u64,
    pub filetype: FileType,
}

/// What [`OpenDir::open`] is asked for.
pub(crate) struct OpenRequest {
    pub follow: LookupFlags,
    pub oflags: OFlags,
    pub fdflags: FdFlags,
    pub read: bool,
    pub write: bool,
}

impl OpenDir {
    pub fn new(dir: Dir, preopen: Option<String>, read_only: bool) -> Self {
        OpenDir { dir, preopen, read_only, listing: Vec::new() }
    }

    pub fn stat(&self) -> Result<FileStat, Errno> {
        Ok(os::file_stat(&self.dir.dir_metadata()?))
    }

    /// The directory as a file: `cap-std` may hold it open for the resolution of paths alone (`O_PATH`).
    pub fn reopen(&self) -> Result<File, Errno> {
        Ok(self.dir.open(".")?.into_std())
    }

    /// What `path` leads to, with the last component followed or not.
    pub fn stat_at(&self, path: &str, flags: LookupFlags) -> Result<FileStat, Errno> {
        let metadata = if flags.contains(LookupFlags::SYMLINK_FOLLOW) {
            self.dir.metadata(path)?
        } else {
            self.dir.symlink_metadata(path)?
        };
        Ok(os::file_stat(&metadata))
    }

    /// The entries from `cookie` on. Cookie 0 reads the directory anew.
    pub fn list(&mut self, cookie: u64) -> Result<&[Entry], Errno> {
        if cookie == 0 {
            self.listing = self.read_entries()?;
        }
        let from = usize::try_from(cookie)?.min(self.listing.len());
        Ok(&self.listing[from..])
    }

    fn read_entries(&self) -> Result<Vec<Entry>, Errno> {
        // The parent may lie outside of what the guest may see, so that both dots give the directory itself.
        let ino = self.stat()?.ino;
        let mut entries: Vec<Entry> =
            [".", ".."].map(|name| Entry { name: name.into(), ino, filetype: FileType::Directory }).into();
        for entry in self.dir.entries()? {
            let entry = entry?;
            // A name that is not UTF-8 cannot be told to the guest, nor could it open it.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            entries.push(Entry {
                name,
                ino: os::entry_inode(&metadata),
                filetype: os::file_type(metadata.file_type()),
            });
        }
        Ok(entries)
    }

    /// Opens the directory at `path`.
    pub fn open_dir(&self, path: &str, flags: LookupFlags) -> Result<Dir, Errno> {
        Ok(if flags.contains(LookupFlags::SYMLINK_FOLLOW) {
            self.dir.open_dir(path)?
        } else {
            self.dir.open_dir_nofollow(path)?
        })
    }

    /// Opens whatever is at `path`.
    pub fn open(&self, path: &str, request: &OpenRequest) -> Result<File, Errno> {
        let create = request.oflags.contains(OFlags::CREAT);
        let exclusive = request.oflags.contains(OFlags::EXCL);
        let truncate = request.oflags.contains(OFlags::TRUNC);

        let mut options = OpenOptions::new();
        // Creating and truncating need a file open for writing, whatever the guest may do with it afterwards.
        let write = request.write || truncate;
        options.read(request.read || !write).write(write).truncate(truncate).maybe_dir(true);
        options.follow(if request.follow.contains(LookupFlags::SYMLINK_FOLLOW) {
            FollowSymlinks::Yes
        } else {
            FollowSymlinks::No
        });
        options
            .sync(request.fdflags.contains(FdFlags::SYNC))
            .dsync(request.fdflags.contains(FdFlags::DSYNC))
            .rsync(request.fdflags.contains(FdFlags::RSYNC))
            .nonblock(request.fdflags.contains(FdFlags::NONBLOCK));

        let file = if create && !exclusive && !write {
            // Without the right to write, an existing file must open even where the host's modes forbid writing.
            match self.dir.open_with(path, &options) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.dir.open_with(path, options.write(true).create(true))?
                }
                result => result?,
            }
        } else {
            if create {
                options.write(true).create(true).create_new(exclusive);
            }
            self.dir.open_with(path, &options)?
        };
        let file = file.into_std();
        if request.fdflags.contains(FdFlags::APPEND) {
            os::set_fd_flags(&file, request.fdflags)?;
        }
        Ok(file)
    }
}
