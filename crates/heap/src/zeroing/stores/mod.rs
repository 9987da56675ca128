//! Loops that zero memory: with ordinary stores, or with streaming ones, which go to memory past the caches.
//!
//! A streaming store does not fetch the line that it overwrites and displaces no other, but evicts it where it was
//! cached: whoever uses the memory next fetches it (Why Nothing Matters, sections 2 and 6.1). Streaming stores are
//! weakly ordered on x86-64: each call here ends with a fence, so that a plain release publishes the zeros to other
//! threads.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod other;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
use other as arch;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

/// Alignment of what the loops zero, in bytes, and the multiple that its length is: a cache line of most processors.
pub(crate) const LINE_BYTES: usize = 64;

/// With which stores memory is zeroed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stores {
    /// What the compiler's memory fill does.
    Ordinary,
    /// Streaming stores of 8 bytes each (x86-64: `movnti`).
    Streaming8,
    /// Streaming stores of 16 bytes each (x86-64: `movntdq`).
    Streaming16,
    /// Streaming stores of 32 bytes each (x86-64: `vmovntdq` of AVX).
    Streaming32,
}

impl Stores {
    /// Every value.
    pub const ALL: &[Stores] = &[Stores::Ordinary, Stores::Streaming8, Stores::Streaming16, Stores::Streaming32];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Stores::Ordinary => "ordinary",
            Stores::Streaming8 => "streaming 8",
            Stores::Streaming16 => "streaming 16",
            Stores::Streaming32 => "streaming 32",
        }
    }

    /// Whether this processor has such stores.
    pub fn is_available(self) -> bool {
        self == Stores::Ordinary || arch::has(self)
    }

    /// The widest streaming stores of at most `bytes` (8, 16 or 32) that this processor has; ordinary ones where it has
    /// none.
    pub fn streaming(bytes: u32) -> Stores {
        let widest = match bytes {
            ..16 => &[Stores::Streaming8][..],
            16..32 => &[Stores::Streaming16, Stores::Streaming8],
            _ => &[Stores::Streaming32, Stores::Streaming16, Stores::Streaming8],
        };
        widest.iter().copied().find(|stores| stores.is_available()).unwrap_or(Stores::Ordinary)
    }

    /// Zeroes a slice. Ends that no line fills are zeroed with ordinary stores; so is everything where the processor
    /// does not have these ones.
    pub fn zero_slice(self, memory: &mut [u8]) {
        let head = memory.as_ptr().align_offset(LINE_BYTES).min(memory.len());
        let (head, rest) = memory.split_at_mut(head);
        let (lines, tail) = rest.split_at_mut(rest.len() / LINE_BYTES * LINE_BYTES);
        head.fill(0);
        tail.fill(0);
        if lines.is_empty() {
            return;
        }
        let stores = if self.is_available() { self } else { Stores::Ordinary };
        // SAFETY: the lines are borrowed mutably and begin and end where a line does, and the processor has the stores.
        unsafe { stores.zero(lines.as_mut_ptr(), lines.len()) }
    }

    /// Zeroes `[address, address + bytes)`.
    ///
    /// # Safety
    /// The range is writable, and nobody else uses it during the call. It begins at a multiple of [`LINE_BYTES`] and is
    /// a multiple of it long. The processor has these stores ([`is_available`](Self::is_available)).
    pub(crate) unsafe fn zero(self, address: *mut u8, bytes: usize) {
        debug_assert!((address as usize).is_multiple_of(LINE_BYTES) && bytes.is_multiple_of(LINE_BYTES));
        debug_assert!(self.is_available());
        match self {
            // SAFETY: by the contract.
            Stores::Ordinary => unsafe { address.write_bytes(0, bytes) },
            // SAFETY: by the contract.
            _ => unsafe { arch::stream(self, address, bytes) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_zeroes_exactly_the_slice() {
        for &stores in Stores::ALL {
            for (start, end) in [(0, 4096), (64, 128), (1, 4095), (63, 65), (100, 100), (130, 190), (0, 0)] {
                let mut memory = vec![0xa5u8; 4096];
                stores.zero_slice(&mut memory[start..end]);
                for (at, &byte) in memory.iter().enumerate() {
                    let expected = if (start..end).contains(&at) { 0 } else { 0xa5 };
                    assert_eq!(byte, expected, "{stores:?} of {start}..{end}, at {at}");
                }
            }
        }
    }

    #[test]
    fn widths_are_narrowed_to_what_there_is() {
        for bytes in [8, 16, 32] {
            let stores = Stores::streaming(bytes);
            assert!(stores.is_available());
            let named = stores.name().strip_prefix("streaming ").map_or(0, |width| width.parse::<u32>().unwrap());
            assert!(named <= bytes, "{stores:?} for {bytes}");
            if cfg!(target_arch = "x86_64") {
                assert!(named == bytes || bytes == 32, "every x86-64 processor streams 8 and 16 bytes");
            }
        }
    }
}
