//! The guest's linear memory as the calls see it: every access checked, every number little-endian.

use crate::errno::Errno;

/// A guest's memory for the length of one call. A pointer that leads out of it is [`Errno::Fault`].
pub struct GuestMemory<'a> {
    bytes: &'a mut [u8],
}

macro_rules! numbers {
    ($($read:ident $write:ident $ty:ty),*) => {$(
        #[doc = concat!("The `", stringify!($ty), "` at `pointer`.")]
        pub fn $read(&self, pointer: u32) -> Result<$ty, Errno> {
            let mut raw = [0; size_of::<$ty>()];
            raw.copy_from_slice(self.slice(pointer, size_of::<$ty>() as u32)?);
            Ok(<$ty>::from_le_bytes(raw))
        }

        #[doc = concat!("Writes the `", stringify!($ty), "` at `pointer`.")]
        pub fn $write(&mut self, pointer: u32, value: $ty) -> Result<(), Errno> {
            self.write(pointer, &value.to_le_bytes())
        }
    )*};
}

impl<'a> GuestMemory<'a> {
    /// A view of `bytes`, the whole of a guest's memory.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        GuestMemory { bytes }
    }

    fn range(&self, pointer: u32, len: u32) -> Result<std::ops::Range<usize>, Errno> {
        let start = pointer as usize;
        let end = start.checked_add(len as usize).ok_or(Errno::Fault)?;
        if end > self.bytes.len() {
            return Err(Errno::Fault);
        }
        Ok(start..end)
    }

    /// `len` bytes at `pointer`.
    pub fn slice(&self, pointer: u32, len: u32) -> Result<&[u8], Errno> {
        Ok(&self.bytes[self.range(pointer, len)?])
    }

    /// `len` bytes at `pointer`, writable.
    pub fn slice_mut(&mut self, pointer: u32, len: u32) -> Result<&mut [u8], Errno> {
        let range = self.range(pointer, len)?;
        Ok(&mut self.bytes[range])
    }

    /// Copies `bytes` to `pointer`.
    pub fn write(&mut self, pointer: u32, bytes: &[u8]) -> Result<(), Errno> {
        let len = u32::try_from(bytes.len()).map_err(|_| Errno::Fault)?;
        self.slice_mut(pointer, len)?.copy_from_slice(bytes);
        Ok(())
    }

    /// The text of `len` bytes at `pointer`; [`Errno::Ilseq`] if it is not UTF-8.
    pub fn string(&self, pointer: u32, len: u32) -> Result<&str, Errno> {
        std::str::from_utf8(self.slice(pointer, len)?).map_err(|_| Errno::Ilseq)
    }

    numbers!(read_u8 write_u8 u8, read_u16 write_u16 u16, read_u32 write_u32 u32, read_u64 write_u64 u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_access_is_checked() {
        let mut bytes = vec![0; 16];
        let mut memory = GuestMemory::new(&mut bytes);
        memory.write_u64(8, 0x0102_0304_0506_0708).unwrap();
        assert_eq!(memory.read_u32(8), Ok(0x0506_0708));
        assert_eq!(memory.read_u64(9), Err(Errno::Fault));
        assert_eq!(memory.write_u8(16, 1), Err(Errno::Fault));
        assert_eq!(memory.slice(u32::MAX, u32::MAX), Err(Errno::Fault));
        assert_eq!(memory.slice(16, 0), Ok(&[][..]));
        assert_eq!(memory.slice(17, 0), Err(Errno::Fault));
        memory.write(0, b"h\xff").unwrap();
        assert_eq!(memory.string(0, 1), Ok("h"));
        assert_eq!(memory.string(0, 2), Err(Errno::Ilseq));
    }
}
