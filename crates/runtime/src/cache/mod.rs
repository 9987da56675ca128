//! The code cache: compiled modules that are kept in a directory, and found there by later processes.
//!
//! An entry is named by a hash of all that its code follows from ([`Key`]), carries a hash of its contents
//! (`entry`), and appears whole or not at all (`directory`). Nothing is locked: of two processes that write one entry
//! the later one's stays, which is as good, and whoever reads one that is being removed has it already. The cache helps
//! or does nothing: no failure in it is one of the program's.

mod directory;
mod entry;
mod key;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Error, Result};

use directory::{Directory, File};
pub(crate) use key::Key;

/// What the names of entries end in.
const ENTRY: &str = ".code";
/// What the names of files end in that are being written.
const UNFINISHED: &str = ".tmp";
/// The age after which nobody is still writing such a file.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A directory of compiled code, for [`Config::cache`](crate::Config::cache). Cheap to clone. Any number of processes
/// may use one directory.
///
/// What lies there is machine code, and is run. So the directory must belong to the user of this process, and nobody
/// else may write to it; an entry that is another user's, or that others may write to, is never used.
///
/// ```
/// use legato::{Cache, Config, Engine, Module};
///
/// let directory = std::env::temp_dir().join(format!("legato-cache-example-{}", std::process::id()));
/// let cache = Cache::open(&directory, Cache::DEFAULT_LIMIT)?;
/// let engine = Engine::new(Config::new().cache(Some(cache.clone())))?;
/// // Looked up in the cache, or else compiled and put there.
/// let module = Module::new(&engine, r#"(module (func (export "run")))"#)?;
/// assert_eq!(cache.size()?.modules, 1);
/// assert_eq!(cache.clear()?.modules, 1);
/// # std::fs::remove_dir(&directory)?;
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: Directory,
    limit: u64,
}

/// What a [`Cache`] holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CacheSize {
    /// Compiled modules; of functions that were compiled by need, with ids of types in them or without, each counts.
    pub modules: usize,
    /// Bytes of all files.
    pub bytes: u64,
}

impl Cache {
    /// Bytes that a cache keeps at most where nobody says otherwise.
    pub const DEFAULT_LIMIT: u64 = 512 << 20;

    /// The cache in this directory, which is made if there is none. Where its files would be more than `limit` bytes,
    /// those that were used least recently go.
    ///
    /// # Errors
    /// If the directory cannot be made or opened, belongs to another user, or others may write to it.
    pub fn open(directory: impl AsRef<Path>, limit: u64) -> Result<Cache> {
        let directory = Directory::open(directory.as_ref())?;
        Ok(Cache { inner: Arc::new(Inner { directory, limit }) })
    }

    /// Where the XDG base directory specification puts it: `legato` in `$XDG_CACHE_HOME` or else in `~/.cache`. `None`
    /// where neither is an absolute path.
    pub fn default_directory() -> Option<PathBuf> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Some(caches?.join("legato"))
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        self.inner.directory.path()
    }

    /// What it holds now.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn size(&self) -> Result<CacheSize> {
        Ok(total(&self.files()?))
    }

    /// Removes all that it holds, and says what that was. Programs that run from it go on.
    ///
    /// # Errors
    /// If the directory cannot be read, or a file in it not be removed.
    pub fn clear(&self) -> Result<CacheSize> {
        let files = self.files()?;
        for file in &files {
            self.inner.directory.remove(&file.name)?;
        }
        Ok(total(&files))
    }

    /// What `decode` makes of the contents of the entry with this key, if there is one that is whole and trusted.
    pub(crate) fn find<T>(&self, key: &Key, decode: impl FnOnce(&[u8]) -> Result<T>) -> Option<T> {
        let name = name(key);
        let open = |entry: Vec<u8>| decode(entry::open(key, &entry).map_err(Error::msg)?);
        match self.inner.directory.read(&name).and_then(|found| found.map(open).transpose()) {
            Ok(found) => found.inspect(|_| log::debug!("cached code {} is used", self.shown(&name))),
            Err(error) => {
                log::info!("cached code {} is not used: {error:#}", self.shown(&name));
                None
            }
        }
    }

    /// Keeps `contents` under this key, and removes what was used least recently where that is too much.
    pub(crate) fn keep(&self, key: &Key, contents: &[u8]) {
        let name = name(key);
        let entry = entry::seal(key, contents);
        if entry.len() as u64 > self.inner.limit {
            log::info!("compiled code is not cached: {} bytes are more than the cache may hold", entry.len());
            return;
        }
        match self.inner.directory.write(&name, UNFINISHED, &entry).and_then(|()| self.evict()) {
            Ok(()) => log::debug!("compiled code is cached as {}", self.shown(&name)),
            Err(error) => log::info!("compiled code is not cached: {error:#}"),
        }
    }

    /// Removes the entries that were used least recently, until no more than the limit is left; and files that nobody
    /// is going to finish. Those that somebody may be writing stay, and are counted when they are entries.
    fn evict(&self) -> Result<()> {
        let (mut entries, unfinished): (Vec<File>, _) =
            self.files()?.into_iter().partition(|file| file.name.ends_with(ENTRY));
        let now = SystemTime::now();
        for file in unfinished {
            if now.duration_since(file.used).is_ok_and(|age| age > ABANDONED) {
                self.inner.directory.remove(&file.name)?;
            }
        }
        entries.sort_by_key(|file| file.used);
        let mut bytes = total(&entries).bytes;
        for file in &entries {
            if bytes <= self.inner.limit {
                break;
            }
            self.inner.directory.remove(&file.name)?;
            bytes -= file.bytes;
        }
        Ok(())
    }

    /// Its files; whatever else lies in the directory is none of its business.
    fn files(&self) -> Result<Vec<File>> {
        let mut files = self.inner.directory.files()?;
        files.retain(|file| file.name.ends_with(ENTRY) || file.name.ends_with(UNFINISHED));
        Ok(files)
    }

    fn shown(&self, name: &str) -> String {
        self.directory().join(name).display().to_string()
    }
}

fn name(key: &Key) -> String {
    format!("{key}{ENTRY}")
}

fn total(files: &[File]) -> CacheSize {
    CacheSize {
        modules: files.iter().filter(|file| file.name.ends_with(ENTRY)).count(),
        bytes: files.iter().map(|file| file.bytes).sum(),
    }
}
