//! Blocks of the cage that lie in a file in memory, so that their pages can be mapped a second time (A Guide to Double
//! Map Arraylets, approach 1, in the better way that it names: only the regions where leaves lie are shared).
//!
//! There is one file, as large as the cage and without memory where nothing was written; a block lies at its cage
//! offset. A block becomes shared when leaves are first allocated in it, and stays so whatever it is used for later:
//! mapping it back would cost more than it gives. Neighbouring blocks are one mapping, as their offsets in the file
//! follow each other.

use super::{CAGE_BYTES, Cage};
use crate::error::HeapError;
use crate::geometry::{BLOCK_BYTES, block_of, block_start};
use crate::os::Reservation;
use crate::os::mappings::{self, Mappings};
use crate::os::sharing::MemoryFile;

/// The file, and the blocks that it lies behind.
#[derive(Debug)]
pub(super) struct SharedBlocks {
    file: MemoryFile,
    /// A bit for each block of the cage.
    blocks: Vec<u64>,
    /// Those of the runs of shared blocks, and of what they split off.
    mappings: Mappings,
}

impl SharedBlocks {
    fn new() -> Result<SharedBlocks, HeapError> {
        let file = MemoryFile::new(c"legato-leaves", CAGE_BYTES, "the leaves of arrays")?;
        Ok(SharedBlocks {
            file,
            blocks: vec![0; (CAGE_BYTES / u64::from(BLOCK_BYTES) / 64) as usize],
            mappings: Mappings::default(),
        })
    }

    fn contains(&self, block: u32) -> bool {
        self.blocks[block as usize / 64] >> (block % 64) & 1 == 1
    }

    /// The runs of equal blocks of a range of whole blocks: start, bytes, whether they are shared.
    pub(super) fn runs(&self, start: u32, bytes: usize) -> impl Iterator<Item = (u32, usize, bool)> {
        let (mut block, end) = (block_of(start), block_of(start) + (bytes / BLOCK_BYTES as usize) as u32);
        std::iter::from_fn(move || {
            if block == end {
                return None;
            }
            let (first, is_shared) = (block, self.contains(block));
            while block < end && self.contains(block) == is_shared {
                block += 1;
            }
            Some((block_start(first), (block - first) as usize * BLOCK_BYTES as usize, is_shared))
        })
    }

    /// Gives the memory of shared blocks back.
    pub(super) fn decommit(&self, start: u32, bytes: usize) -> bool {
        self.file.punch(start.into(), bytes as u64)
    }
}

impl Cage {
    /// Lets blocks be shared from now on.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system has no such file.
    pub(crate) fn allow_sharing(&mut self) -> Result<(), HeapError> {
        self.shared = Some(SharedBlocks::new()?);
        Ok(())
    }

    /// Moves blocks that hold nothing to the file, where that is allowed; calls `moved` for each that is, which is zero
    /// then. A block that the system refuses to map, or for which there is no mapping left, stays as it is.
    pub(crate) fn share(&mut self, first: u32, count: u32, mut moved: impl FnMut(u32)) {
        let Some(shared) = &mut self.shared else { return };
        let private: Vec<_> = shared
            .runs(block_start(first), count as usize * BLOCK_BYTES as usize)
            .filter(|&(_, _, is_shared)| !is_shared)
            .collect();
        for (start, bytes, _) in private {
            // One more run, and what is behind it; one longer run; or two become one.
            let neighbours = [start.checked_sub(1), start.checked_add(bytes as u32)].into_iter().flatten();
            let joined = neighbours.filter(|&neighbour| shared.contains(block_of(neighbour))).count();
            let drawn = shared.mappings.count() + 2 - 2 * joined;
            if joined == 0 && mappings::left() < 2 {
                continue;
            }
            let at = self.extent.below + start as usize;
            if self.reservation.map_shared(at, bytes, &shared.file, start.into(), false) {
                shared.mappings.set(drawn);
                for block in block_of(start)..block_of(start) + (bytes / BLOCK_BYTES as usize) as u32 {
                    shared.blocks[block as usize / 64] |= 1 << (block % 64);
                    moved(block);
                }
            }
        }
    }

    /// Whether the block of an offset is shared.
    pub(crate) fn is_shared(&self, offset: u32) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.contains(block_of(offset)))
    }

    /// Maps `bytes` of shared blocks from `offset` on into a reservation, as in [`Reservation::map_shared`].
    pub(crate) fn map_again(&self, offset: u32, bytes: usize, into: &Reservation, at: usize, populate: bool) -> bool {
        let file = self.shared.as_ref().map(|shared| &shared.file);
        file.is_some_and(|file| into.map_shared(at, bytes, file, offset.into(), populate))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::cage::Extent;

    #[test]
    fn memory_of_both_kinds_is_given_back() {
        let mut cage = Cage::new(Extent::WHOLE).unwrap();
        let start = block_start(10);
        cage.commit(start, 8 * BLOCK_BYTES as usize).unwrap();
        let words: Vec<u32> = (0..8).map(|block| start + block * BLOCK_BYTES + 64).collect();
        // SAFETY: the range is committed.
        let write = |cage: &Cage| words.iter().for_each(|&word| unsafe { cage.write(word, 7) });
        // SAFETY: the range is committed.
        let read = |cage: &Cage| words.iter().map(|&word| unsafe { cage.read(word) }).collect::<Vec<_>>();
        cage.share(10, 8, |_| panic!("not allowed yet"));
        cage.allow_sharing().unwrap();
        write(&cage);
        let mut moved = Vec::new();
        cage.share(12, 2, |block| moved.push(block));
        cage.share(11, 4, |block| moved.push(block));
        assert_eq!(moved, [12, 13, 11, 14]);
        assert_eq!(read(&cage), [7, 0, 0, 0, 0, 7, 7, 7], "what is moved is zero");
        assert_eq!(words.iter().filter(|&&word| cage.is_shared(word)).count(), 4);
        write(&cage);
        let view = Reservation::new(BLOCK_BYTES as usize, "a test").unwrap();
        assert!(cage.map_again(block_start(12), BLOCK_BYTES as usize, &view, 0, true));
        // SAFETY: just mapped.
        assert_eq!(unsafe { view.base().add(64).cast::<u32>().read() }, 7);
        assert!(cage.decommit(start, 8 * BLOCK_BYTES as usize));
        assert_eq!(read(&cage), [0; 8]);
    }
}
