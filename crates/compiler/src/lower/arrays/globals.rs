//! Elements of new arrays that immutable globals hold: stored by the runtime, which is told ranges of globals.
//!
//! Programs that make an array of all their strings have thousands of them in one function that runs once. A call for
//! each six ranges takes less time to compile than a load and a store for each element.

use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::StorageKind;
use legato_heap::plan::ArrayPlan;

use crate::abi::{Builtin, GlobalRange};
use crate::lower::Lowering;
use crate::mir::{Op, Value};

/// Fewer elements than this are stored inline.
const FEWEST: usize = 16;

/// How many ranges a call names.
const RANGES: usize = 6;

/// Globals that become elements one behind the other.
#[derive(Clone, Copy)]
struct Stretch {
    /// The first element.
    start: u32,
    range: GlobalRange,
}

impl Stretch {
    /// The element behind it.
    fn end(self) -> u32 {
        self.start + self.range.count
    }
}

impl Lowering<'_, '_> {
    /// Whether the elements of a new array that are [late globals](Self::late_global) are stored by calls: in long
    /// functions without loops that are compiled for compile time. Where the array may grow when it is written, the
    /// caller has to find it anew: there they are not.
    pub(super) fn stores_globals_by_calls(&self, kind: StorageKind, args: &[Value]) -> bool {
        let may_grow = matches!(self.env.plan.arrays, ArrayPlan::Spines(plan) if plan.checks_stores());
        self.stores_by_calls
            && kind == StorageKind::Ref
            && !may_grow
            && args.iter().filter(|&&arg| self.late_global(arg).is_some()).count() >= FEWEST
    }

    /// The immutable global that a value is, if it is read where it is used.
    pub(super) fn late_global(&self, value: Value) -> Option<u32> {
        match self.late_op(value)? {
            Op::GlobalGet(global) => Some(global.0),
            _ => None,
        }
    }

    /// Stores the elements of a new array that are late globals.
    pub(super) fn store_globals(&mut self, array: ir::Value, args: &[Value]) {
        let mut stretches: Vec<Stretch> = Vec::new();
        for (element, &arg) in args.iter().enumerate() {
            let Some(global) = self.late_global(arg) else { continue };
            let element = element as u32;
            match stretches.last_mut() {
                Some(last)
                    if last.end() == element
                        && last.range.first + last.range.count == global
                        && last.range.count < GlobalRange::LONGEST =>
                {
                    last.range.count += 1;
                }
                _ => stretches.push(Stretch { start: element, range: GlobalRange { first: global, count: 1 } }),
            }
        }
        // A call's elements lie one behind the other.
        for stretches in stretches.chunk_by(|first, second| first.end() == second.start) {
            for stretches in stretches.chunks(RANGES) {
                let start = self.b.ins().iconst(types::I32, i64::from(stretches[0].start));
                let word = |number: usize| stretches.get(number).map_or(0, |stretch| u64::from(stretch.range.word()));
                let words = [0, 2, 4].map(|number| word(number) | word(number + 1) << 32);
                let [first, second, third] = words.map(|word| self.b.ins().iconst(types::I64, word as i64));
                self.builtin(Builtin::InitialiseElements, &[array, start, first, second, third]);
            }
        }
    }
}
