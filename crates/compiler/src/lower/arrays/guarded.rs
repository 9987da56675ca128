//! Accesses on the edge of the program's own bounds check: see [`passes::analysis`](crate::passes::analysis).

use cranelift_codegen::ir::{self, InstBuilder, SourceLoc};
use legato_heap::plan::{ArrayPlan, SpinePlan};

use super::spines::{self, Near};
use super::{Element, contiguous};
use crate::lower::Lowering;
use crate::lower::barrier::{Container, Store};
use crate::lower::env::element_type;
use crate::mir::{Edge, Extension, Op};
use crate::passes::analysis::{Guard, MergedCheck};
use crate::passes::{definition, root};

/// What a guarded access does.
#[derive(Clone, Copy)]
enum Access {
    Load(Extension),
    Store(Store),
}

impl Lowering<'_, '_> {
    /// A branch on a guard. The access is made on the edge to its block, which gets what is loaded as one more
    /// parameter.
    pub(in crate::lower) fn branch_on_guard(&mut self, guard: Guard, then: &Edge, otherwise: &Edge) {
        let ArrayPlan::Spines(plan) = self.env.plan.arrays else { unreachable!("only arrays of spines are guarded") };
        let mir = self.mir;
        let data = &mir.insts[guard.access.index()];
        let (Op::ArrayGet(ty, ..) | Op::ArraySet(ty)) = data.op else { unreachable!("an access is guarded") };
        let element = Element {
            kind: self.env.element_kind(ty),
            array: self.value(root(mir, data.args[0])),
            index: self.value(data.args[1]),
            is_inline: false,
            check: self.checks.of(guard.access),
        };
        let access = match data.op {
            Op::ArrayGet(_, extension) => Access::Load(extension),
            _ => Access::Store(self.store_into(Container::Array(data.args[0]), element.kind, data.args[2])),
        };
        let (inside, outside) = if guard.holds_inside { (then, otherwise) } else { (otherwise, then) };
        let (inside, inside_args) = self.edge(inside);
        let (outside, outside_args) = self.edge(outside);
        if let Access::Load(_) = access {
            let loaded = self.b.append_block_param(inside, element_type(element.kind));
            self.values[data.results[0].index()] = Some(loaded);
        }

        if let Some(MergedCheck::LengthOf(..)) = element.check
            && let Some(read) = definition(mir, guard.length)
        {
            // It is the read of the length that traps where the array is null.
            self.b.set_srcloc(SourceLoc::new(mir.insts[read.index()].source));
        }
        let not_near = spines::split(self, element, Near::BelowInlineLength);
        self.b.set_srcloc(SourceLoc::new(data.source));
        let goes_on = |l: &mut Self, loaded: Option<ir::Value>| {
            let args: Vec<_> = inside_args.iter().copied().chain(loaded.map(Into::into)).collect();
            l.b.ins().jump(inside, &args);
        };
        let loaded = match access {
            Access::Load(extension) => Some(contiguous::load(self, element, extension)),
            Access::Store(store) => {
                contiguous::store(self, element, &store);
                None
            }
        };
        goes_on(self, loaded);

        self.b.switch_to_block(not_near);
        self.apart(|l| {
            let far = l.b.create_block();
            l.b.set_cold_block(far);
            let holds = l.compare_with_length(guard, element);
            if guard.holds_inside {
                l.b.ins().brif(holds, far, &[], outside, &outside_args);
            } else {
                l.b.ins().brif(holds, outside, &outside_args, far, &[]);
            }
            l.b.switch_to_block(far);
            let loaded = l.access_far(&plan, element, access);
            goes_on(l, loaded);
        });
    }

    /// The program's own comparison, with the length loaded again: the array is known not to be null by now.
    fn compare_with_length(&mut self, guard: Guard, element: Element) -> ir::Value {
        let data = &self.mir.insts[guard.compare.index()];
        let Op::Compare(op) = data.op else { unreachable!("guards compare") };
        let length = self.array_length(element.array, None);
        let [left, right] = [0, 1].map(|position| match self.mir.resolve(data.args[position]) == guard.length {
            true => length,
            false => element.index,
        });
        self.compare(op, left, right)
    }

    fn access_far(&mut self, plan: &SpinePlan, element: Element, access: Access) -> Option<ir::Value> {
        match access {
            Access::Load(extension) => Some(spines::load_from_leaf(self, plan, element, extension)),
            Access::Store(store) => spines::store_to_leaf(self, plan, element, &store),
        }
    }
}
