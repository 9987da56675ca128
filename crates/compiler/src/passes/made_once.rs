//! Values that are made when they are first asked for: a global or a field is zero, is computed, and is read from then
//! on. Class libraries cache so what a string hashes to, or the boxes of small numbers.

use super::support::{origin, root};
use crate::mir::{Block, Cfg, Dominators, Function, Op, Terminator, UnaryOp, Value};
use crate::module::{GlobalIndex, TypeIndex};

/// Where such a value is kept.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Global(GlobalIndex),
    /// A field of this object.
    Field(TypeIndex, u32, Value),
}

/// The blocks that control comes to because a place holds zero, or null, and behind which alone the same place is
/// stored to: they probably run once for each place.
pub(super) fn made_once(function: &Function, cfg: &Cfg) -> Vec<Block> {
    let stores: Vec<(Place, Block)> = cfg
        .order
        .iter()
        .flat_map(|&block| function.blocks[block.index()].insts.iter().map(move |&inst| (block, inst)))
        .filter_map(|(block, inst)| {
            let data = &function.insts[inst.index()];
            let place = match data.op {
                Op::GlobalSet(global) => Place::Global(global),
                Op::StructSet(ty, field, _) => Place::Field(ty, field, root(function, data.args[0])),
                _ => return None,
            };
            Some((place, block))
        })
        .collect();
    let mut made = Vec::new();
    // Few functions store to what they have compared.
    let mut dominators = None;
    for &block in &cfg.order {
        let Some((place, arm)) = compared(function, block) else { continue };
        let [_] = cfg.predecessors(arm) else { continue };
        let mut of_place = stores.iter().filter(|(stored, _)| *stored == place).peekable();
        if of_place.peek().is_none() {
            continue;
        }
        let dominators = dominators.get_or_insert_with(|| Dominators::new(function, cfg));
        if of_place.all(|&(_, store)| dominators.dominates(arm, store)) {
            made.push(arm);
        }
    }
    made
}

/// The place that a block compares with zero, and where control goes if it is.
fn compared(function: &Function, block: Block) -> Option<(Place, Block)> {
    let Some(Terminator::Branch { cond, then, otherwise }) = &function.blocks[block.index()].terminator else {
        return None;
    };
    let (loaded, arm) = match origin(function, *cond) {
        Some((Op::RefIsNull | Op::Unary(UnaryOp::I32Eqz), args)) => (args[0], then.block),
        _ => (*cond, otherwise.block),
    };
    let place = match origin(function, root(function, loaded))? {
        (&Op::GlobalGet(global), _) => Place::Global(global),
        (&Op::StructGet(ty, field, ..), args) => Place::Field(ty, field, root(function, args[0])),
        _ => return None,
    };
    Some((place, arm))
}
