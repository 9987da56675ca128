//! Laying all code of a module out and connecting it.

use cranelift_codegen::binemit::Reloc;
use rustc_hash::FxHashMap;

use super::code::{FunctionCode, Relocation};
use crate::artifact::{CallSite, CodeRange, CodeTables, Handler, StackMapEntry, TrapSite};
use crate::lower::env::Symbol;
use crate::sources::Moved;

/// A module's code and tables under construction. Pieces are appended in their final order.
#[derive(Default)]
pub(super) struct Linker {
    pub(super) code: Vec<u8>,
    pub(super) tables: CodeTables,
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
        append(&mut self.tables, &piece, start);
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
            patch(&mut self.code[relocation.offset as usize..][..4], relocation, relocation.offset, *target)?;
        }
        Ok(())
    }
}

/// Adds what the addresses of a piece mean that begins at `start`.
fn append(tables: &mut CodeTables, piece: &FunctionCode, start: u32) {
    tables.traps.extend(piece.traps.iter().map(|&(offset, code)| TrapSite { offset: start + offset, code }));
    for (offset, slots) in &piece.stack_maps {
        let first = tables.stack_maps.slots.len() as u32;
        let entry = StackMapEntry { offset: start + offset, first, count: slots.len() as u32 };
        tables.stack_maps.slots.extend(slots);
        tables.stack_maps.entries.push(entry);
    }
    for site in &piece.call_sites {
        let first = tables.call_sites.handlers.len() as u32;
        let count = site.handlers.len() as u32;
        let handlers = site.handlers.iter().map(|&(tag, landing)| Handler { tag, landing: start + landing });
        tables.call_sites.handlers.extend(handlers);
        tables.call_sites.entries.push(CallSite {
            offset: start + site.offset,
            sp_distance: site.sp_distance,
            context_offset: site.context_offset,
            first,
            count,
        });
    }
    let mut moved = Moved::new(&piece.sources, None);
    let addresses = piece.addresses.iter();
    tables.addresses.extend(addresses.map(|&(at, source)| (start + at, moved.source(source, &mut tables.sources))));
}

/// Has the word at `place`, which lies at `offset`, lead to `target`.
fn patch(place: &mut [u8], relocation: &Relocation, offset: u32, target: u32) -> Result<(), String> {
    let distance = i64::from(target) + relocation.addend - i64::from(offset);
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
    Ok(())
}

impl FunctionCode {
    /// The code as it is where it begins at offset `start`, a multiple of its [`alignment`](Self::alignment), and what
    /// its addresses mean. `resolve` gives the offset of each of its [`symbols`](Self::symbols). Errors: one of them is
    /// too far away.
    pub fn place(
        &self,
        start: u32,
        resolve: impl Fn(Symbol) -> u32,
    ) -> Result<(Vec<u8>, CodeTables), crate::CompileError> {
        let mut bytes = self.bytes.clone();
        let mut tables = CodeTables::default();
        self.place_in(&mut bytes, &mut tables, start, resolve)?;
        Ok((bytes, tables))
    }

    /// As [`place`](Self::place), behind other code: `bytes`, as long as this code, become it, and `tables` get what is
    /// behind what they have. Errors: as there.
    ///
    /// # Panics
    /// If `bytes` are of another length.
    pub fn place_in(
        &self,
        bytes: &mut [u8],
        tables: &mut CodeTables,
        start: u32,
        resolve: impl Fn(Symbol) -> u32,
    ) -> Result<(), crate::CompileError> {
        bytes.copy_from_slice(&self.bytes);
        for relocation in &self.relocations {
            let offset = relocation.offset;
            patch(&mut bytes[offset as usize..][..4], relocation, start + offset, resolve(relocation.target))
                .map_err(|message| crate::CompileError::CodeGeneration { function: self.index, message })?;
        }
        append(tables, self, start);
        Ok(())
    }
}
