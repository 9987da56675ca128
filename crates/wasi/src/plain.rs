//! What other host interfaces of the same guest ask of its context: plain Rust instead of guest memory.
//!
//! A path is found below the directories that the guest was given, by their guest names: the longest that is a prefix
//! of it. Relative paths begin at `/`.

use std::io::{self, Write};

use cap_std::fs::{Dir, OpenOptions};

use crate::ctx::WasiCtx;
use crate::errno::Errno;
use crate::stdio::Stream;
use crate::table::Object;
use crate::types::Rights;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// Something else.
    Other,
}

impl WasiCtx {
    /// The guest's arguments, by custom its name first.
    pub fn arguments(&self) -> &[String] {
        &self.args
    }

    /// The guest's environment variables, as name and value.
    pub fn environment(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env.iter().map(|variable| variable.split_once('=').unwrap_or((variable, "")))
    }

    /// Sets an environment variable of the guest, or removes it.
    pub fn set_variable(&mut self, key: &str, value: Option<&str>) {
        self.env.retain(|variable| variable.split_once('=').is_none_or(|(name, _)| name != key));
        self.env.extend(value.map(|value| format!("{key}={value}")));
    }

    /// Adds to standard output. It goes out when a line ends, or after a while.
    ///
    /// # Errors
    /// The host's, such as a closed pipe.
    pub fn write_stdout(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.console.write(Stream::Out, bytes)?;
        self.console.finish(Stream::Out)
    }

    /// Reads from standard input, after letting out what was written; returns how many bytes, 0 at its end.
    ///
    /// # Errors
    /// The host's, and [`ErrorKind::Interrupted`](io::ErrorKind::Interrupted) where the guest is to stop
    /// ([`interrupted_by`](Self::interrupted_by)): it is not to be tried again then.
    pub fn read_stdin(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.console.flush()?;
        self.await_input().map_err(|error| match error {
            Errno::Intr => io::ErrorKind::Interrupted.into(),
            error => io::Error::other(format!("waiting for standard input failed: {error:?}")),
        })?;
        self.input.read(buffer)
    }

    /// The contents of a file.
    ///
    /// # Errors
    /// If no directory that the guest was given holds it, or the host's.
    pub fn read_file(&self, path: &str) -> io::Result<Vec<u8>> {
        let (dir, rest) = self.find(path, Rights::PATH_OPEN)?;
        dir.read(rest)
    }

    /// Makes a file of these contents, in place of what it held.
    ///
    /// # Errors
    /// As of [`read_file`](Self::read_file), or where the directory is read-only.
    pub fn write_file(&self, path: &str, contents: &[u8]) -> io::Result<()> {
        let (dir, rest) = self.find(path, Rights::PATH_CREATE_FILE)?;
        let mut options = OpenOptions::new();
        dir.open_with(rest, options.write(true).create(true).truncate(true))?.write_all(contents)
    }

    /// The names in a directory that are UTF-8, sorted.
    ///
    /// # Errors
    /// As of [`read_file`](Self::read_file).
    pub fn read_dir(&self, path: &str) -> io::Result<Vec<String>> {
        let (dir, rest) = self.find(path, Rights::FD_READDIR)?;
        let mut names = Vec::new();
        for entry in dir.read_dir(rest)? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As of [`write_file`](Self::write_file).
    pub fn create_dir(&self, path: &str) -> io::Result<()> {
        let (dir, rest) = self.find(path, Rights::PATH_CREATE_DIRECTORY)?;
        dir.create_dir(rest)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As of [`write_file`](Self::write_file).
    pub fn remove_file(&self, path: &str) -> io::Result<()> {
        let (dir, rest) = self.find(path, Rights::PATH_UNLINK_FILE)?;
        dir.remove_file(rest)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As of [`write_file`](Self::write_file).
    pub fn remove_dir(&self, path: &str) -> io::Result<()> {
        let (dir, rest) = self.find(path, Rights::PATH_REMOVE_DIRECTORY)?;
        dir.remove_dir(rest)
    }

    /// What is at a path, symbolic links followed.
    ///
    /// # Errors
    /// If nothing is there, or as of [`read_file`](Self::read_file).
    pub fn path_kind(&self, path: &str) -> io::Result<PathKind> {
        let (dir, rest) = self.find(path, Rights::PATH_FILESTAT_GET)?;
        let metadata = dir.metadata(rest)?;
        Ok(match (metadata.is_file(), metadata.is_dir()) {
            (true, _) => PathKind::File,
            (_, true) => PathKind::Directory,
            _ => PathKind::Other,
        })
    }

    /// The directory that holds `path`, if it gives `rights`, and the way from there.
    fn find(&self, path: &str, rights: Rights) -> io::Result<(&Dir, String)> {
        let wanted = components(path);
        let found = self.table.descriptors().filter_map(|descriptor| {
            let Object::Dir(open) = &descriptor.object else { return None };
            let root = components(open.preopen.as_deref()?);
            wanted.starts_with(&root).then_some((root.len(), descriptor, &open.dir))
        });
        let Some((depth, descriptor, dir)) = found.max_by_key(|(depth, ..)| *depth) else {
            let text = format!("{path} is in no directory that the program was given");
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        };
        if !descriptor.rights.contains(rights) {
            let text = format!("{path} is in a directory that the program may only read");
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text));
        }
        let rest = &wanted[depth..];
        Ok((dir, if rest.is_empty() { ".".into() } else { rest.join("/") }))
    }
}

/// The steps of a path from `/`. Steps upwards stay where they are: what they lead to depends on links.
pub(crate) fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|step| !step.is_empty() && *step != ".").collect()
}
