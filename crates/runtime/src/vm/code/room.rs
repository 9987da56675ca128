//! How much address space code gets that is compiled function by function.

use legato_heap::AddressSpace;

use crate::vm::arch;

/// Address space for code, in bytes: so much, and so much for each byte of the module.
const CODE_BYTES: usize = 64 << 20;
const CODE_BYTES_PER_BYTE: usize = 64;
/// Calls reach no farther, with some to spare.
const MAX_CODE_BYTES: usize = 2047 << 20;
/// Where address space is limited, at most one part in so many of what is left. The other constants leave much to
/// spare.
const LEFT_PART: u64 = 8;
/// But never less than one part in so many of what is reserved otherwise: with less, most modules would not fit.
const LEAST_PART: usize = 8;

/// Bytes to reserve for a module's code, behind `data_bytes` of data; `functions` are those that it defines.
pub(super) fn code_bytes(module_bytes: usize, functions: usize, data_bytes: usize) -> usize {
    let bytes = module_bytes.saturating_mul(CODE_BYTES_PER_BYTE).saturating_add(CODE_BYTES);
    bytes_within(bytes, arch::BEGINNING_BYTES * functions, AddressSpace::of_process()).min(MAX_CODE_BYTES - data_bytes)
}

/// How many of these bytes are reserved in a process whose address space has this limit, where the first `beginnings`
/// are needed at once.
fn bytes_within(bytes: usize, beginnings: usize, space: Option<AddressSpace>) -> usize {
    let Some(space) = space else { return bytes };
    let part = usize::try_from(space.left() / LEFT_PART).unwrap_or(usize::MAX);
    bytes.min(part.max(beginnings + bytes / LEAST_PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_takes_a_part_of_a_limited_address_space() {
        const MIB: usize = 1 << 20;
        let within = |left: usize| {
            let space = AddressSpace { limit_bytes: left as u64 + 9, used_bytes: 9 };
            bytes_within(80 * MIB, MIB, Some(space))
        };
        assert_eq!(bytes_within(80 * MIB, MIB, None), 80 * MIB);
        assert_eq!(
            [640, 639, 400, 88, 87, 0].map(|left| within(left * MIB)),
            [80 * MIB, 639 * MIB / 8, 50 * MIB, 11 * MIB, 11 * MIB, 11 * MIB]
        );
        assert_eq!(code_bytes(MIB, 100, 4096), 128 * MIB);
        assert_eq!(code_bytes(usize::MAX, 100, 4096), MAX_CODE_BYTES - 4096);
    }
}
