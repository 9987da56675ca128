//! What operations and loops may write of what loads read: mutable fields and globals, elements of arrays.

use legato_heap::layout::StorageKind;
use rustc_hash::FxHashSet;

use super::support::terminator;
use crate::mir::{Cfg, Function, Loops, Memory, Op, Terminator};
use crate::module::{GlobalIndex, ModuleInfo, TypeIndex};

/// How many different fields and globals a loop nest may write before it counts as writing anything.
const MAX_WRITES: usize = 64;

/// A field under one name, whichever type it is reached through: accesses of different fields never reach the same
/// place, as an object's type inherits the field from one type alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Field {
    /// The topmost supertype that has the field.
    declared_in: TypeIndex,
    number: u32,
}

impl Field {
    pub(super) fn new(info: &ModuleInfo, ty: TypeIndex, number: u32) -> Field {
        let mut declared_in = ty;
        while let Some(above) = info.types[declared_in.index()].supertype
            && (number as usize) < info.struct_fields(above).len()
        {
            declared_in = above;
        }
        Field { declared_in, number }
    }
}

/// What an operation may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Write {
    /// No field or element of an object that was there before, and no global.
    Nothing,
    /// This field of an object.
    Field(Field),
    /// This global.
    Global(GlobalIndex),
    /// Elements of arrays of this kind.
    Elements(StorageKind),
    /// It runs code of functions or of the host.
    Anything,
}

impl Write {
    pub(super) fn of(op: &Op, info: &ModuleInfo) -> Write {
        match op.properties().writes {
            Memory::Field(ty, number) => Write::Field(Field::new(info, ty, number)),
            Memory::Global(global) => Write::Global(global),
            Memory::Elements(ty) => Write::Elements(info.element_kind(ty)),
            Memory::All => Write::Anything,
            // Memories, tables and segments are apart from objects and globals.
            Memory::None | Memory::Constant | Memory::Other => Write::Nothing,
        }
    }
}

fn is_imported(info: &ModuleInfo, global: GlobalIndex) -> bool {
    global.0 < info.imported_globals
}

/// Whether two indexes may be names of one global: two imports may be given the same.
pub(super) fn are_aliases(info: &ModuleInfo, a: GlobalIndex, b: GlobalIndex) -> bool {
    a == b || (is_imported(info, a) && is_imported(info, b))
}

/// What the code of a loop may write of what a load could otherwise be moved past.
#[derive(Clone, Default)]
pub(crate) struct Effects {
    /// It calls, so that it may write anything.
    calls: bool,
    fields: FxHashSet<Field>,
    globals: FxHashSet<GlobalIndex>,
    /// The kinds of elements, a bit each.
    elements: u16,
    /// Whether one of the globals is imported.
    imported: bool,
}

impl Effects {
    /// The effects of each loop, those within included.
    pub(crate) fn of_loops(function: &Function, info: &ModuleInfo, cfg: &Cfg, loops: &Loops) -> Vec<Effects> {
        let mut all = vec![Effects::default(); loops.loops.len()];
        for &block in &cfg.order {
            let Some(number) = loops.innermost[block.index()] else { continue };
            let effects = &mut all[number];
            effects.calls |= matches!(terminator(function, block), Terminator::TryCall { .. });
            for &inst in &function.blocks[block.index()].insts {
                match Write::of(&function.insts[inst.index()].op, info) {
                    Write::Nothing => {}
                    Write::Field(field) => {
                        effects.fields.insert(field);
                    }
                    Write::Global(global) => {
                        effects.globals.insert(global);
                        effects.imported |= is_imported(info, global);
                    }
                    Write::Elements(kind) => effects.elements |= 1 << kind as u16,
                    Write::Anything => effects.calls = true,
                }
            }
        }
        // Inner loops have larger numbers. What calls needs no list, so that deep nests do not copy long ones.
        for number in (0..all.len()).rev() {
            let Some(parent) = loops.loops[number].parent else { continue };
            let Effects { calls, fields, globals, elements, imported } = all[number].clone();
            let outer = &mut all[parent];
            outer.elements |= elements;
            outer.calls |= calls || outer.fields.len() + fields.len() + globals.len() > MAX_WRITES;
            if !outer.calls {
                outer.fields.extend(fields);
                outer.globals.extend(globals);
                outer.imported |= imported;
            }
        }
        all
    }

    /// Whether the loop leaves a field alone, of all objects.
    pub(super) fn preserve_field(&self, field: Field) -> bool {
        !self.calls && !self.fields.contains(&field)
    }

    /// Whether the loop leaves a global alone.
    pub(super) fn preserve_global(&self, info: &ModuleInfo, global: GlobalIndex) -> bool {
        let aliased = self.imported && is_imported(info, global);
        !self.calls && !self.globals.contains(&global) && !aliased
    }

    /// Whether the loop leaves the elements of arrays of a kind alone.
    pub(crate) fn preserve_elements(&self, kind: StorageKind) -> bool {
        !self.calls && self.elements & (1 << kind as u16) == 0
    }

    /// Whether an operation gives the same result everywhere in the loop, given the same operands.
    pub(super) fn preserve(&self, op: &Op, info: &ModuleInfo) -> bool {
        let properties = op.properties();
        properties.is_pure(info)
            || match properties.reads {
                Memory::Field(ty, number) => self.preserve_field(Field::new(info, ty, number)),
                Memory::Global(global) => self.preserve_global(info, global),
                Memory::None | Memory::Constant | Memory::Elements(_) | Memory::Other | Memory::All => false,
            }
    }
}
