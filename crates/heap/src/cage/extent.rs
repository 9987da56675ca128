//! How much address space a cage has.

use crate::geometry::{BLOCK_TABLE_BELOW, BYTES_PER_MARK_WORD, CAGE_BYTES, marks_below};

/// Bytes at the start of the cage that are never accessible.
pub(crate) const NULL_GUARD_BYTES: u32 = 64 << 10;
/// Guards of a whole cage.
const GUARD_BELOW: usize = 2 << 30;
const GUARD_ABOVE: usize = (64 << 30) + (2 << 30);
/// The guard above a smaller one: what vector instructions and wrong small offsets might reach.
const SMALL_GUARD_ABOVE: usize = 1 << 20;
/// The largest maximum of a heap whose cage is smaller.
pub(crate) const MOST_FITTED: u64 = 1 << 30;
/// The most addresses beyond the maximum: so much may be lost between large objects.
const MOST_SPARE: u64 = 1 << 30;
/// Addresses for each byte of the maximum, where that does not come to more spare ones.
const ADDRESSES_PER_BYTE: u64 = 4;
/// The largest maximum of a heap whose side tables and first blocks are one mapping.
const MOST_JOINED: u64 = 64 << 20;
/// What extents other than whole ones are rounded to.
const GRAIN: u64 = 1 << 20;

/// How much address space a cage has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// What references can lead to: 4 GiB, or fewer.
    pub(super) bytes: u64,
    pub(super) below: usize,
    pub(super) above: usize,
    /// Whether all side tables are accessible at once, in one mapping with the first blocks: the system lets a process
    /// have some 65,000 mappings, and thousands of heaps are to share them.
    pub(super) joined: bool,
}

impl Extent {
    /// 4 GiB, and guards for any reference.
    pub(crate) const WHOLE: Extent =
        Extent { bytes: CAGE_BYTES, below: GUARD_BELOW, above: GUARD_ABOVE, joined: false };

    /// What a heap of at most `maximum` bytes needs, whose objects have no more addresses than memory. More than the
    /// maximum, since gaps between large objects can be too short for the next one.
    pub(crate) fn fitting(maximum: u64) -> Extent {
        if maximum > MOST_FITTED {
            return Extent::WHOLE;
        }
        let spare = ((ADDRESSES_PER_BYTE - 1) * maximum).min(MOST_SPARE);
        Extent { joined: maximum <= MOST_JOINED, ..Extent::of(u64::from(NULL_GUARD_BYTES) + maximum + spare) }
    }

    /// What a heap of at most `maximum` bytes gets, whose objects may have addresses without memory, where at most
    /// `share` bytes of address space are for it: all of them up to a cage of 4 GiB, but never less than other heaps of
    /// this maximum.
    pub(crate) fn roomy(maximum: u64, share: u64) -> Extent {
        if maximum > MOST_FITTED {
            return Extent::WHOLE;
        }
        let least = Extent::fitting(maximum).bytes;
        Extent::of(addresses_within(share).clamp(least, CAGE_BYTES))
    }

    /// The largest maximum, in bytes, of a heap that [`fitting`](Self::fitting) gives at most `share` bytes of address
    /// space; with `is_roomy`, of one that [`roomy`](Self::roomy) gives so much, and some addresses for each byte.
    pub(crate) fn most_within(share: u64, is_roomy: bool) -> u64 {
        let addresses = addresses_within(share).saturating_sub(u64::from(NULL_GUARD_BYTES));
        let most = addresses / ADDRESSES_PER_BYTE;
        // Beyond this the spare addresses are no longer in proportion.
        let most = if is_roomy { most } else { most.max(addresses.saturating_sub(MOST_SPARE)) };
        most.min(MOST_FITTED)
    }

    /// Small guards around so many bytes, rounded up.
    fn of(bytes: u64) -> Extent {
        let bytes = bytes.next_multiple_of(GRAIN);
        let below = (marks_below(1, bytes) as u64).next_multiple_of(GRAIN) as usize;
        Extent { bytes, below, above: SMALL_GUARD_ABOVE, joined: false }
    }

    /// Bytes of address space in all.
    pub(crate) const fn total(&self) -> u64 {
        self.below as u64 + self.bytes + self.above as u64
    }
}

/// Bytes of a cage that takes at most `share` bytes of address space together with its side tables and small guards: a
/// multiple of [`GRAIN`].
fn addresses_within(share: u64) -> u64 {
    // Two planes of mark bits.
    let per_byte = u64::from(BYTES_PER_MARK_WORD) / (2 * size_of::<u64>() as u64);
    let fixed = u64::from(BLOCK_TABLE_BELOW) + GRAIN + SMALL_GUARD_ABOVE as u64;
    let bytes = share.saturating_sub(fixed) / (per_byte + 1) * per_byte;
    bytes - bytes % GRAIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_maximum_is_the_largest_whose_cage_fits_a_share() {
        for share in [25, 30, 64, 500, 1000, 1500, 2000, 2100, 2200, 3000, 9000].map(|mib| mib * MIB + 12345) {
            let maximum = Extent::most_within(share, false);
            assert!(Extent::fitting(maximum).total() <= share, "{share}");
            // What rounding may lose.
            let more = maximum + 4 * MIB;
            assert!(more > MOST_FITTED || Extent::fitting(more).total() > share, "{share}");

            let roomy = Extent::most_within(share, true);
            let extent = Extent::roomy(roomy, share);
            assert!(extent.total() <= share && extent.bytes >= 4 * roomy && roomy <= maximum, "{share}");
            assert!(extent.bytes == CAGE_BYTES || extent.total() + 4 * MIB > share, "{share}");
        }
        assert_eq!((Extent::most_within(0, false), Extent::most_within(u64::MAX, true)), (0, MOST_FITTED));
        assert_eq!(Extent::roomy(MIB, 0).bytes, Extent::fitting(MIB).bytes);
        assert_eq!(Extent::roomy(MOST_FITTED + 1, 4 << 30), Extent::WHOLE);
    }
}
