//! Swap of our own: a file, or a device in compressed memory.

use super::interrupt;
use super::zram::Zram;
use anyhow::{Context, ensure};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the kernel swaps to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum SwapDevice {
    /// A file: as slow as its disk.
    File,
    /// Compressed memory, by the kernel's zram: fast, and writing to it does not wait for a disk. What it takes counts
    /// for no group.
    Zram,
}

/// Where there is to be swap.
#[derive(Clone, Debug)]
pub(super) enum Place {
    File(PathBuf),
    Zram(Zram),
}

/// What the kernel swaps to until this is dropped.
#[derive(Debug)]
pub(super) struct Swap {
    place: Place,
}

impl Swap {
    /// So many MiB of it.
    ///
    /// # Errors
    /// If there is no place for it, or the kernel does not take it: from others than root, for instance.
    pub(super) fn new(place: Place, mib: u64) -> anyhow::Result<Swap> {
        let swap = Swap { place };
        // Given back before the file is removed, where something fails.
        let _making = interrupt::making();
        match &swap.place {
            Place::File(file) => {
                write(file, mib).with_context(|| format!("cannot write the swap file {}", file.display()))?;
            }
            Place::Zram(zram) => zram.take(mib)?,
        }
        for step in ["mkswap", "swapon"] {
            let done = Command::new(step).arg(swap.place.path()).output();
            let done = done.with_context(|| format!("cannot start {step}, which swap needs"))?;
            let said = String::from_utf8_lossy(&done.stderr);
            let said = said.lines().last().unwrap_or_default();
            ensure!(done.status.success(), "there is no swap for the experiment (as root there could be): {said}");
        }
        Ok(swap)
    }
}

impl Place {
    /// A swap file of this process in a folder, or a device that nobody uses.
    ///
    /// # Errors
    /// If there is no such device.
    pub(super) fn find(device: SwapDevice, folder: &Path) -> anyhow::Result<Place> {
        Ok(match device {
            SwapDevice::File => Place::File(folder.join(format!("legato-lab-swap-{}", std::process::id()))),
            SwapDevice::Zram => Place::Zram(Zram::find(Path::new("/sys/block"))?),
        })
    }

    fn path(&self) -> &Path {
        match self {
            Place::File(file) => file,
            Place::Zram(zram) => &zram.device,
        }
    }

    /// Has the kernel swap to it no more, and removes it. A file that is not swapped to is removed alone, and a device
    /// that was not taken is left as it is.
    pub(super) fn end(&self) {
        let path = self.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_on = || fs::read_to_string("/proc/swaps").is_ok_and(|swaps| is_listed(&swaps, &name));
        if matches!(self, Place::Zram(zram) if !zram.is_taken()) {
            return;
        }
        if is_on() {
            let _ = Command::new("swapoff").arg(path).status();
        }
        if is_on() {
            eprintln!("the kernel still swaps to {}: end that with swapoff, and remove it", path.display());
            return;
        }
        match self {
            Place::File(file) => drop(fs::remove_file(file)),
            Place::Zram(zram) => zram.give_back(),
        }
    }
}

/// Whether the kernel's list of swap has this name, whatever its folder. The list has blanks in names as numbers: names
/// of ours have none, but folders may.
fn is_listed(swaps: &str, name: &str) -> bool {
    let paths = swaps.lines().filter_map(|line| line.split_whitespace().next());
    let mut rests = paths.filter_map(|path| path.rsplit('/').next()?.strip_prefix(name));
    rests.any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

/// Swap files have no holes.
fn write(path: &Path, mib: u64) -> std::io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let zeros = vec![0; 1 << 20];
    (0..mib).try_for_each(|_| file.write_all(&zeros))?;
    file.sync_all()
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _making = interrupt::making();
        self.place.end();
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
        let place = Place::find(SwapDevice::File, folder.path()).unwrap();
        write(place.path(), 1).unwrap();
        place.end();
        assert!(!place.path().exists());
    }

    #[test]
    fn what_fails_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        // No kernel takes so little.
        let place = Place::find(SwapDevice::File, folder.path()).unwrap();
        let error = Swap::new(place, 0).unwrap_err().to_string();
        assert!(error.contains("swap") && !error.contains('\n'), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    #[test]
    fn swap_is_found_by_its_name() {
        let swaps = "Filename Type Size Used Priority\n\
                     /dev/zram10 partition 1 0 -1\n\
                     /a\\040b/legato-lab-swap-7\\040(deleted) file 1 0 -2\n";
        assert!(is_listed(swaps, "zram10") && is_listed(swaps, "legato-lab-swap-7"));
        assert!(!is_listed(swaps, "zram1") && !is_listed(swaps, "zram0") && !is_listed("", "zram0"));
    }
}
