//! An entry of the cache: a container of fixed layout around contents that it knows nothing of.
//!
//! Magic (8 bytes), version of the container (4), its key (32), length of the contents (8), hash of the contents (32),
//! contents; numbers in little endian.

use super::Key;

const MAGIC: &[u8; 8] = b"\x7fLEGATOC";
/// Changes whenever what follows changes its meaning.
const VERSION: u32 = 1;
/// Bytes before the contents.
const HEADER: usize = MAGIC.len() + 4 + Key::BYTES + 8 + 32;

/// An entry with these contents.
pub(super) fn seal(key: &Key, contents: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(HEADER + contents.len());
    entry.extend_from_slice(&header(key, contents));
    entry.extend_from_slice(contents);
    entry
}

/// The contents of an entry that is whole and has this key; else what is wrong with it.
pub(super) fn open(key: &Key, mut entry: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    let (found, contents) = entry.split_at_checked(HEADER).ok_or("it is cut off")?;
    let expected = header(key, contents);
    let names = ["it is something else", "it is of another version", "it is another module's"];
    let mut start = 0;
    for (bytes, wrong) in [MAGIC.len(), 4, Key::BYTES].into_iter().zip(names) {
        if found[start..start + bytes] != expected[start..start + bytes] {
            return Err(wrong);
        }
        start += bytes;
    }
    if found[start..] != expected[start..] {
        return Err("it is damaged");
    }
    entry.drain(..HEADER);
    Ok(entry)
}

fn header(key: &Key, contents: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let hash = blake3::hash(contents);
    let parts: [&[u8]; 5] =
        [MAGIC, &VERSION.to_le_bytes(), key.bytes(), &(contents.len() as u64).to_le_bytes(), hash.as_bytes()];
    let mut rest = &mut header[..];
    for part in parts {
        let (place, behind) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = behind;
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_and_every_cut_is_found() {
        let key = Key::of_bytes(b"one");
        let entry = seal(&key, b"contents");
        assert_eq!(open(&key, entry.clone()), Ok(b"contents".to_vec()));
        for bit in 0..entry.len() * 8 {
            let mut damaged = entry.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&key, damaged).is_err(), "bit {bit}");
        }
        for length in 0..entry.len() {
            assert!(open(&key, entry[..length].to_vec()).is_err(), "{length} bytes");
        }
        assert!(open(&key, [&entry[..], b"more"].concat()).is_err());
        assert_eq!(open(&Key::of_bytes(b"other"), entry), Err("it is another module's"));
    }
}
