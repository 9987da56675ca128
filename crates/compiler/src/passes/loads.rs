//! Removes loads of what is known already: of a mutable field or global, or of an element, that was read or written
//! before, where nothing between can have written it. (Immutable ones are [`gvn`](super::gvn)'s.)
//!
//! A forward analysis of what is available: one walk in reverse post-order. What all predecessors agree on is available
//! in a block; a loop's back-edges need not be waited for, as the [effects](super::effects) of its code are known
//! beforehand. So what is available has been computed on every path, and its definition dominates its uses.

use super::effects::{Effects, Field, Write, are_aliases};
use super::flow::Flow;
use super::support::{Roots, replace, resolve_inst, resolve_terminator, terminator};
use legato_heap::layout::StorageKind;

use crate::mir::{Block, Cfg, Extension, Function, Inst, Loops, Op, Terminator, Value};
use crate::module::{GlobalIndex, ModuleInfo, StorageType, ValueType};

/// How many locations are remembered at once; the oldest are forgotten.
const PLACES: usize = 32;

/// What tells elements from fields and globals in the quick look.
const ELEMENTS: u32 = 31;

/// Replaces loads of what is known by what is known.
pub(super) fn loads(function: &mut Function, info: &ModuleInfo, flow: &mut Flow) {
    if !has_repeated(function, info) {
        return;
    }
    let cfg = flow.cfg(function);
    let loops = Loops::new(&cfg, &flow.dominators(function));
    let mut pass = Loads {
        effects: Effects::of_loops(function, info, &cfg, &loops),
        roots: Roots::new(function),
        ends: vec![Vec::new(); function.blocks.len()],
        pending: pending(function, &cfg),
        cfg: &cfg,
        loops: &loops,
        function,
        info,
    };
    for &block in &cfg.order {
        pass.block(block);
    }
    // The edges' arguments may come from anywhere.
    for &block in &cfg.order {
        resolve_terminator(function, block);
    }
}

/// Whether a mutable location may be loaded that is accessed elsewhere too: a quick look, at numbers alone.
fn has_repeated(function: &Function, info: &ModuleInfo) -> bool {
    let (mut loaded, mut accessed) = (0u64, 0u64);
    for &inst in function.blocks.iter().flat_map(|block| &block.insts) {
        let (number, loads) = match function.insts[inst.index()].op {
            Op::StructGet(ty, field, ..) if info.struct_fields(ty)[field as usize].mutable => (field, true),
            Op::StructSet(_, field, _) => (field, false),
            Op::GlobalGet(global) if info.globals[global.index()].mutable => (global.0, true),
            Op::GlobalSet(global) => (global.0, false),
            Op::ArrayGet(ty, ..) => (ty.0 + ELEMENTS, true),
            Op::ArraySet(ty) => (ty.0 + ELEMENTS, false),
            _ => continue,
        };
        // What has numbers that differ by a multiple of 64 passes for one.
        let bit = 1 << (number % 64);
        let others = if loads { accessed } else { loaded };
        if others & bit != 0 {
            return true;
        }
        accessed |= bit;
        if loads {
            loaded |= bit;
        }
    }
    false
}

/// For each block, how many edges lead forward from it.
fn pending(function: &Function, cfg: &Cfg) -> Vec<u32> {
    let mut pending = vec![0; function.blocks.len()];
    for &block in &cfg.order {
        let at = cfg.position[block.index()];
        terminator(function, block)
            .for_each_edge(|edge| pending[block.index()] += u32::from(cfg.position[edge.block.index()] > at));
    }
    pending
}

/// What is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Location {
    /// A field of an object, the latter given by its root. How a packed field is extended makes a difference to the
    /// value.
    Field(Field, Value, Extension),
    Global(GlobalIndex),
    /// An element of an array, the latter given by its root.
    Element {
        kind: StorageKind,
        array: Value,
        index: Value,
        extension: Extension,
    },
}

/// A location whose content is known.
#[derive(Clone, Copy)]
struct Known {
    location: Location,
    value: Value,
    /// Where it was last loaded or stored.
    seen: Block,
}

struct Loads<'a> {
    function: &'a mut Function,
    info: &'a ModuleInfo,
    cfg: &'a Cfg,
    loops: &'a Loops,
    effects: Vec<Effects>,
    roots: Roots,
    /// What is known at the end of each block, for the blocks that come after it.
    ends: Vec<Vec<Known>>,
    /// How many of each block's forward edges have not been followed: at none left, its end is forgotten.
    pending: Vec<u32>,
}

impl Loads<'_> {
    fn block(&mut self, block: Block) {
        let mut known = self.start(block);
        let mut insts = std::mem::take(&mut self.function.blocks[block.index()].insts);
        insts.retain(|&inst| {
            resolve_inst(self.function, inst);
            let superfluous = self.inst(inst, block, &mut known);
            if !superfluous {
                self.roots.visit(self.function, self.info, inst);
            }
            !superfluous
        });
        self.function.blocks[block.index()].insts = insts;
        // Whoever catches an exception does not know what ran before it was thrown.
        let calls = matches!(terminator(self.function, block), Terminator::TryCall { .. } | Terminator::Throw { .. });
        if !calls && self.pending[block.index()] > 0 {
            self.ends[block.index()] = known;
        }
    }

    /// What is known at the start of a block.
    fn start(&mut self, block: Block) -> Vec<Known> {
        let (cfg, loops) = (self.cfg, self.loops);
        let header = loops.innermost[block.index()].filter(|&number| loops.loops[number].header == block);
        let mut common: Option<Vec<Known>> = None;
        for edges in cfg.predecessors(block).chunk_by(|a, b| a.0 == b.0) {
            let source = edges[0].0;
            if cfg.position[source.index()] >= cfg.position[block.index()] {
                // Some other cycle than a loop's: nothing says what it writes.
                if !header.is_some_and(|number| loops.contains(number, source)) {
                    common = Some(Vec::new());
                }
                continue;
            }
            self.pending[source.index()] -= edges.len() as u32;
            let end = match self.pending[source.index()] {
                0 => std::mem::take(&mut self.ends[source.index()]),
                _ => self.ends[source.index()].clone(),
            };
            let known = match &mut common {
                None => common.insert(end),
                Some(known) => {
                    known.retain(|a| end.iter().any(|b| a.location == b.location && a.value == b.value));
                    known
                }
            };
            // A reference that a loop does not use is loaded again behind it rather than kept all the while.
            if let Some(left) = loops.innermost[source.index()].filter(|&number| !loops.contains(number, block)) {
                known.retain(|known| {
                    let is_reference = matches!(self.function.value_type(known.value), ValueType::Ref(_));
                    !is_reference || loops.contains(left, known.seen)
                });
            }
        }
        let mut known = common.unwrap_or_default();
        if let Some(number) = header {
            let effects = &self.effects[number];
            known.retain(|known| match known.location {
                Location::Field(field, ..) => effects.preserve_field(field),
                Location::Global(global) => effects.preserve_global(self.info, global),
                Location::Element { kind, .. } => effects.preserve_elements(kind),
            });
        }
        known
    }

    /// Looks an instruction up in what is known, or takes note of it. Returns whether it is superfluous.
    fn inst(&mut self, inst: Inst, block: Block, known: &mut Vec<Known>) -> bool {
        let data = &self.function.insts[inst.index()];
        match Write::of(&data.op, self.info) {
            Write::Nothing => {}
            Write::Field(written) => {
                known.retain(|known| !matches!(known.location, Location::Field(field, ..) if field == written));
            }
            Write::Global(written) => known.retain(
                |known| !matches!(known.location, Location::Global(global) if are_aliases(self.info, global, written)),
            ),
            Write::Elements(written) => {
                known.retain(|known| !matches!(known.location, Location::Element { kind, .. } if kind == written));
            }
            Write::Anything => known.clear(),
        }
        let (location, value) = match data.op {
            Op::StructGet(ty, number, extension, _) if self.info.struct_fields(ty)[number as usize].mutable => {
                let field = Field::new(self.info, ty, number);
                (Location::Field(field, self.roots.of(data.args[0]), extension), data.results[0])
            }
            Op::StructSet(ty, number, _) => {
                // A packed field does not give back what it was given.
                let StorageType::Value(_) = self.info.struct_fields(ty)[number as usize].storage else { return false };
                let field = Field::new(self.info, ty, number);
                (Location::Field(field, self.roots.of(data.args[0]), Extension::None), data.args[1])
            }
            Op::GlobalGet(global) if self.info.globals[global.index()].mutable => {
                (Location::Global(global), data.results[0])
            }
            Op::GlobalSet(global) => (Location::Global(global), data.args[0]),
            Op::ArrayGet(ty, extension) => {
                let (array, index) = (self.roots.of(data.args[0]), data.args[1]);
                (Location::Element { kind: self.info.element_kind(ty), array, index, extension }, data.results[0])
            }
            Op::ArraySet(ty) => {
                let StorageType::Value(_) = self.info.array_element(ty).storage else { return false };
                let (array, index) = (self.roots.of(data.args[0]), data.args[1]);
                let (kind, extension) = (self.info.element_kind(ty), Extension::None);
                (Location::Element { kind, array, index, extension }, data.args[2])
            }
            _ => return false,
        };
        // What a store writes has been forgotten, so that only loads find anything.
        if let Some(found) = known.iter_mut().find(|known| known.location == location) {
            found.seen = block;
            let value = found.value;
            return replace(self.function, self.info, inst, value);
        }
        if known.len() == PLACES {
            known.remove(0);
        }
        known.push(Known { location, value, seen: block });
        false
    }
}
