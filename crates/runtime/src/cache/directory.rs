//! A directory that nobody but the user of this process can have written to, and its files. It is held open: all that
//! happens in it happens in the directory that was checked, wherever its path may lead later.

use std::fs::{DirBuilder, File as StdFile, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The bits of a mode that let others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// How many names are tried for a file that is being written.
const ATTEMPTS: usize = 8;

/// A trusted directory.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    handle: OwnedFd,
}

/// What can be said of a file without opening it.
pub(super) struct File {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// When it was read last, or else written.
    pub(super) used: SystemTime,
}

impl Directory {
    /// Opens a directory, or makes one.
    pub(super) fn open(path: &Path) -> Result<Directory> {
        let shown = path.display();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("cannot make the directory {shown}"))?;
        let handle = StdFile::open(path).with_context(|| format!("cannot open the directory {shown}"))?;
        let metadata = handle.metadata().with_context(|| format!("cannot look at {shown}"))?;
        ensure!(metadata.is_dir(), "{shown} is no directory");
        trusted(&metadata).map_err(|why| why.context(format!("{shown} is not trusted")))?;
        Ok(Directory { path: path.to_owned(), handle: handle.into() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file's contents, if there is such a file; from now on it counts as used.
    ///
    /// # Errors
    /// If it cannot be read, or anybody else may have written it.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        // A pipe or a device of this name must not stop us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = match rustix::fs::openat(&self.handle, name, flags, Mode::empty()) {
            Ok(file) => StdFile::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error).context("it cannot be opened"),
        };
        let metadata = file.metadata()?;
        ensure!(metadata.is_file(), "it is no file");
        trusted(&metadata)?;
        let mut contents = Vec::new();
        contents.try_reserve_exact(usize::try_from(metadata.len())?)?;
        file.read_to_end(&mut contents).context("it cannot be read")?;
        // Without this it is forgotten earlier than others, and no worse.
        let _ = file.set_modified(SystemTime::now());
        Ok(Some(contents))
    }

    /// Writes a file, whole or not at all, in place of any other of this name. While it is being written its name ends
    /// in `unfinished`; it does so for ever only if this process dies meanwhile.
    pub(super) fn write(&self, name: &str, unfinished: &str, contents: &[u8]) -> Result<()> {
        let (beside, mut file) = self.create_beside(name, unfinished)?;
        let written = file.write_all(contents).context("it cannot be written").and_then(|()| {
            rustix::fs::renameat(&self.handle, &beside, &self.handle, name).context("it cannot be renamed")
        });
        if written.is_err() {
            let _ = self.remove(&beside);
        }
        written
    }

    /// A new file that this process alone writes to.
    fn create_beside(&self, name: &str, unfinished: &str) -> Result<(String, StdFile)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            // The number of a process is not enough: processes in containers may have the same.
            let beside = format!("{name}.{:016x}{unfinished}", RandomState::new().hash_one(std::process::id()));
            match rustix::fs::openat(&self.handle, &beside, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok((beside, file.into())),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error).with_context(|| format!("no file can be made in {}", self.shown())),
            }
        }
        bail!("no file of a new name can be made in {}", self.shown())
    }

    /// Removes a file, if it is still there.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("{name} cannot be removed from {}", self.shown())),
        }
    }

    /// All files.
    pub(super) fn files(&self) -> Result<Vec<File>> {
        let mut files = Vec::new();
        for found in Dir::read_from(&self.handle).with_context(|| format!("{} cannot be read", self.shown()))? {
            let found = found.with_context(|| format!("{} cannot be read", self.shown()))?;
            let Ok(name) = found.file_name().to_str() else { continue };
            // It may be gone meanwhile.
            let Ok(status) = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(status.st_mode).is_file() {
                let since = Duration::new(status.st_mtime.max(0) as u64, status.st_mtime_nsec as u32);
                let used = SystemTime::UNIX_EPOCH + since;
                files.push(File { name: name.to_owned(), bytes: status.st_size as u64, used });
            }
        }
        Ok(files)
    }

    fn shown(&self) -> impl std::fmt::Display + '_ {
        self.path.display()
    }
}

/// Whether nobody but this user can have written something. Root could, too; against root there is no protection.
fn trusted(metadata: &Metadata) -> Result<()> {
    let user = rustix::process::geteuid().as_raw();
    ensure!(metadata.uid() == user, "it belongs to user {}, and this process runs as user {user}", metadata.uid());
    let mode = metadata.mode() & 0o7777;
    ensure!(mode & WRITABLE_BY_OTHERS == 0, "others may write to it (its mode is {mode:o})");
    Ok(())
}
