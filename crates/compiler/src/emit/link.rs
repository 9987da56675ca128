//! Laying all code of a module out and connecting it.

use cranelift_codegen::binemit::Reloc;
use rustc_hash::FxHashMap;

use super::code::{FunctionCode, Relocation};
use crate::artifact::{CallSite, CallSites, CodeRange, Handler, StackMapEntry, StackMaps, TrapSite};
use crate::lower::env::Symbol;

/// A module's code and tables under construction. Pieces are appended in their final order.
#[derive(Default)]
pub(super) struct Linker {
    pub(super) code: Vec<u8>,
    pub(super) traps: Vec<TrapSite>,
    pub(super) stack_maps: StackMaps,
    pub(super) call_sites: CallSites,
    pub(super) addresses: Vec<(u32, u32)>,
    symbols: FxHashMap<Symbol, u32>,
    relocations: Vec<Relocation>,
}

/// What lies between functions: traps, on x86-64.
const PADDING: u8 = if cfg!(target_arch = "x86_64") { 0xcc } else { 0 };

impl Linker {
    /// Appends a piece of code. Errors: the module's code passes 2 GiB, the reach of calls.
    pub(super) fn add(&mut self, symbol: Option<Symbol>, piece: FunctionCode) -> Result<CodeRange, String> {
        let start = self.code.len().next_multiple_of(piece.alignment as usize);
        if start + piece.bytes.len() > i32::MAX as usize {
            return Err("the module's code passes 2 GiB".to_owned());
        }
        self.code.resize(start, PADDING);
        self.code.extend_from_slice(&piece.bytes);
        let start = start as u32;
        if let Some(symbol) = symbol {
            self.symbols.insert(symbol, start);
        }
        self.traps.extend(piece.traps.iter().map(|&(offset, code)| TrapSite { offset: start + offset, code }));
        for (offset, slots) in piece.stack_maps {
            let first = self.stack_maps.slots.len() as u32;
            let entry = StackMapEntry { offset: start + offset, first, count: slots.len() as u32 };
            self.stack_maps.slots.extend(slots);
            self.stack_maps.entries.push(entry);
        }
        for site in piece.call_sites {
            let first = self.call_sites.handlers.len() as u32;
            let count = site.handlers.len() as u32;
            let handlers = site.handlers.iter().map(|&(tag, landing)| Handler { tag, landing: start + landing });
            self.call_sites.handlers.extend(handlers);
            self.call_sites.entries.push(CallSite {
                offset: start + site.offset,
                sp_distance: site.sp_distance,
                context_offset: site.context_offset,
                first,
                count,
            });
        }
        self.addresses.extend(piece.addresses.iter().map(|&(offset, source)| (start + offset, source)));
        let relocations = piece.relocations.iter();
        self.relocations
            .extend(relocations.map(|relocation| Relocation { offset: start + relocation.offset, ..*relocation }));
        Ok(CodeRange { start, length: piece.bytes.len() as u32 })
    }

    /// The symbols that are referred to but not there yet, ascending.
    pub(super) fn missing(&self) -> Vec<Symbol> {
        let mut missing: Vec<_> = self
            .relocations
            .iter()
            .map(|relocation| relocation.target)
            .filter(|target| !self.symbols.contains_key(target))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Resolves all references.
    pub(super) fn relocate(&mut self) -> Result<(), String> {
        for relocation in &self.relocations {
            let target = self
                .symbols
                .get(&relocation.target)
                .ok_or_else(|| format!("{:?} is called but was not compiled", relocation.target))?;
            let distance = i64::from(*target) + relocation.addend - i64::from(relocation.offset);
            let place = &mut self.code[relocation.offset as usize..][..4];
            let word = match relocation.kind {
                Reloc::X86CallPCRel4 | Reloc::X86PCRel4 => distance as i32 as u32,
                Reloc::Arm64Call => {
                    let instruction = u32::from_le_bytes([place[0], place[1], place[2], place[3]]);
                    if !(-(1 << 27)..1 << 27).contains(&distance) {
                        return Err("a call reaches farther than 128 MiB".to_owned());
                    }
                    instruction & 0xfc00_0000 | (distance >> 2) as u32 & 0x03ff_ffff
                }
                other => return Err(format!("a relocation of kind {other:?}")),
            };
            place.copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }
}
