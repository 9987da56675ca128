//! A swap file of our own.

use super::interrupt;
use anyhow::{Context, ensure};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that the kernel swaps to until this is dropped.
#[derive(Debug)]
pub(super) struct SwapFile {
    file: PathBuf,
}

impl SwapFile {
    /// A new one of so many MiB in a folder.
    ///
    /// # Errors
    /// If there is no place for it, or the kernel does not take it: from others than root, for instance.
    pub(super) fn new(folder: &Path, mib: u64) -> anyhow::Result<SwapFile> {
        let swap = SwapFile { file: place(folder) };
        // Given back before the file is removed, where something fails.
        let _making = interrupt::making();
        write(&swap.file, mib).with_context(|| format!("cannot write the swap file {}", swap.file.display()))?;
        for step in ["mkswap", "swapon"] {
            let done = Command::new(step).arg(&swap.file).output();
            let done = done.with_context(|| format!("cannot start {step}, which a swap file needs"))?;
            let said = String::from_utf8_lossy(&done.stderr);
            let said = said.lines().last().unwrap_or_default();
            ensure!(done.status.success(), "there is no swap for the experiment (as root there could be): {said}");
        }
        Ok(swap)
    }
}

/// Where the swap file of this process is, if it has one.
pub(super) fn place(folder: &Path) -> PathBuf {
    folder.join(format!("legato-lab-swap-{}", std::process::id()))
}

/// Has the kernel swap to a file no more, and removes it. One that is not swapped to is removed alone.
pub(super) fn end(file: &Path) {
    let is_on = || {
        // The kernel's list has blanks in names as numbers: names of ours have none, but folders may.
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.contains(&name))
    };
    if is_on() {
        let _ = Command::new("swapoff").arg(file).status();
    }
    if is_on() {
        eprintln!("the kernel still swaps to {}: end that with swapoff, and remove it", file.display());
        return;
    }
    let _ = fs::remove_file(file);
}

/// Swap files have no holes.
fn write(path: &Path, mib: u64) -> std::io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let zeros = vec![0; 1 << 20];
    (0..mib).try_for_each(|_| file.write_all(&zeros))?;
    file.sync_all()
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        let _making = interrupt::making();
        end(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_file_is_whole_and_for_its_owner_alone() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("swap");
        write(&path, 2).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.len(), found.mode() & 0o777), (2 << 20, 0o600));
        assert!(found.blocks() * 512 >= 2 << 20, "no holes");
        assert!(write(&path, 1).is_err(), "a file that is there is nobody else's to overwrite");
    }

    #[test]
    fn a_file_that_is_not_yet_swapped_to_is_removed_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = place(folder.path());
        write(&file, 1).unwrap();
        end(&file);
        assert!(!file.exists());
    }

    #[test]
    fn what_fails_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        // No kernel takes so little.
        let error = SwapFile::new(folder.path(), 0).unwrap_err().to_string();
        assert!(error.contains("swap") && !error.contains('\n'), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
