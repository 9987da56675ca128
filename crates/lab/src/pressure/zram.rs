//! A zram device of our own: memory, compressed, that looks like a disk.

use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that nobody used when it was found.
#[derive(Clone, Debug)]
pub(super) struct Zram {
    /// What is swapped to.
    pub(super) device: PathBuf,
    /// Where the kernel is told about it.
    folder: PathBuf,
    /// Whether it is this process's: no other one's is to be reset. The same for all clones.
    is_taken: Arc<AtomicBool>,
}

impl Zram {
    /// The first one without a size in the kernel's folder of block devices.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn find(blocks: &Path) -> anyhow::Result<Zram> {
        let names = fs::read_dir(blocks).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| name.starts_with("zram"));
        names.sort();
        let is_free =
            |name: &String| fs::read_to_string(blocks.join(name).join("disksize")).is_ok_and(|size| size.trim() == "0");
        let name = names.into_iter().find(is_free).context(
            "the machine has no zram device that nobody uses (modprobe zram may bring one): leave --swap-device out",
        )?;
        let (device, folder) = (Path::new("/dev").join(&name), blocks.join(&name));
        Ok(Zram { device, folder, is_taken: Arc::default() })
    }

    /// Gives it so many MiB: the most that fits, before compression. The kernel lets one process do so.
    ///
    /// # Errors
    /// If the kernel refuses: others than root, or since somebody else has taken it meanwhile.
    pub(super) fn take(&self, mib: u64) -> anyhow::Result<()> {
        let device = self.device.display();
        fs::write(self.folder.join("disksize"), format!("{mib}M"))
            .with_context(|| format!("cannot give {device} a size (as root, while nobody else uses it, it can)"))?;
        self.is_taken.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether it has been taken by this process.
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }

    /// Gives its memory back. It must not be swapped to any more.
    pub(super) fn give_back(&self) {
        match fs::write(self.folder.join("reset"), "1") {
            Ok(()) => self.is_taken.store(false, Ordering::Relaxed),
            Err(error) => {
                let (device, folder) = (self.device.display(), self.folder.display());
                eprintln!("{device} keeps its memory ({error}): write 1 to {folder}/reset");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::swap::Place;
    use super::*;

    /// Block devices with these sizes.
    fn blocks(sizes: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, size) in sizes {
            let device = folder.path().join(name);
            fs::create_dir(&device).unwrap();
            fs::write(device.join("disksize"), size).unwrap();
        }
        folder
    }

    #[test]
    fn a_device_that_nobody_uses_is_taken_and_reset() {
        // Names that no machine has, so that nothing is found in the list of swap.
        let folder = blocks(&[("sda", "0\n"), ("zram900", "4096\n"), ("zram901", "0\n"), ("zram902", "0\n")]);
        let zram = Zram::find(folder.path()).unwrap();
        assert_eq!(zram.device, Path::new("/dev/zram901"));
        let (size, reset) = (zram.folder.join("disksize"), zram.folder.join("reset"));
        let place = Place::Zram(zram.clone());
        place.end();
        assert!(!reset.exists(), "what is not ours is not reset");
        zram.take(7).unwrap();
        assert_eq!(fs::read_to_string(size).unwrap(), "7M");
        // Whoever ends the command has a clone from before.
        place.end();
        assert_eq!(fs::read_to_string(reset).unwrap(), "1");
        assert!(!zram.is_taken());
    }

    #[test]
    fn a_machine_without_one_is_told_in_one_sentence() {
        let folder = blocks(&[("sda", "0\n"), ("zram900", "4096\n")]);
        for blocks in [folder.path(), &folder.path().join("none")] {
            let error = Zram::find(blocks).unwrap_err().to_string();
            assert!(error.contains("no zram device") && !error.contains('\n'), "{error}");
        }
    }
}
