//! Modules that are wrong: what an engine must refuse with an error, or run without harm, but never die of.

use crate::random::Random;

/// How many kinds of change [`mutation`] knows.
const KINDS: usize = 7;

/// A module with one to four random changes: bits flipped, bytes replaced, removed, inserted or copied from elsewhere,
/// numbers replaced by extreme ones, or the end cut off. Never longer than twice the original and 16 bytes.
pub fn mutation(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut wasm = original.to_vec();
    for _ in 0..=random.below(4) {
        if wasm.is_empty() {
            break;
        }
        // The header is left alone in most cases: a module that fails at byte 4 tests little.
        let from = if wasm.len() > 8 && random.below(16) > 0 { 8 } else { 0 };
        let at = from + random.below(wasm.len() - from);
        match random.below(KINDS) {
            0 => wasm[at] ^= 1 << random.below(8),
            1 => wasm[at] = random.bits() as u8,
            2 => {
                let end = (at + 1 + random.below(8)).min(wasm.len());
                wasm.drain(at..end);
            }
            3 => wasm.insert(at, random.bits() as u8),
            4 => {
                let length = 1 + random.below(16.min(wasm.len()));
                let source = random.below(wasm.len() - length + 1);
                let copy = wasm[source..source + length].to_vec();
                let end = (at + length).min(wasm.len());
                wasm[at..end].copy_from_slice(&copy[..end - at]);
            }
            5 => {
                // Extremes in LEB128: 2^32 - 1, -2^31, 2^31 - 1, one.
                const EXTREMES: [&[u8]; 4] = [
                    &[0xff, 0xff, 0xff, 0xff, 0x0f],
                    &[0x80, 0x80, 0x80, 0x80, 0x78],
                    &[0xff, 0xff, 0xff, 0xff, 0x07],
                    &[0x01],
                ];
                let extreme = EXTREMES[random.below(EXTREMES.len())];
                wasm.splice(at..at + 1, extreme.iter().copied());
            }
            _ => wasm.truncate(at),
        }
    }
    wasm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_differ_and_are_reproducible() {
        let original: Vec<u8> = (0..200).collect();
        let all = |seed| {
            let mut random = Random::new(seed);
            (0..500).map(|_| mutation(&original, &mut random)).collect::<Vec<_>>()
        };
        let mutations = all(1);
        assert_eq!(mutations, all(1));
        assert!(mutations.iter().filter(|wasm| **wasm != original).count() > 450);
        assert!(mutations.iter().all(|wasm| wasm.len() <= 2 * original.len() + 16));
        mutation(&[], &mut Random::new(1));
    }
}
