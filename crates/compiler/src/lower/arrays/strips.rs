//! Accesses by strips: see [`passes::analysis`](crate::passes::analysis).

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::array_elements_offset;
use legato_heap::plan::{ArrayPlan, SpinePlan};

use super::Element;
use super::spines;
use crate::lower::Lowering;
use crate::lower::barrier::Store;
use crate::lower::env::POINTER;
use crate::lower::state::StripVariables;
use crate::mir::{Block, Extension, Terminator};
use crate::passes::analysis::{LAST, StripUse};

/// What `end` is where there is no strip: no index is on the right side of it.
const fn nowhere(is_downward: bool) -> i64 {
    if is_downward { i32::MAX as i64 } else { 0 }
}

impl Lowering<'_, '_> {
    pub(in crate::lower) fn create_strips(&mut self) {
        for _ in 0..self.strips.strips.len() {
            let variables = StripVariables { base: self.b.declare_var(POINTER), end: self.b.declare_var(types::I32) };
            self.strip_variables.push(variables);
        }
    }

    /// Empties the strips in use: what they hold may have changed.
    pub(in crate::lower) fn empty_strips(&mut self) {
        for strip in self.active_strips.clone() {
            let none = self.b.ins().iconst(types::I32, nowhere(self.strips.strips[strip].is_downward));
            self.b.def_var(self.strip_variables[strip].end, none);
        }
    }

    /// At the end of a block: sets up the strips of the loops that it enters. Where an array is known not to be null,
    /// its strip begins as what lies in the spine, so that short arrays never need another; a downward one as nothing,
    /// as where it comes from is not known.
    pub(in crate::lower) fn start_strips(&mut self, block: Block, terminator: &Terminator) {
        let ArrayPlan::Spines(plan) = self.env.plan.arrays else { return };
        let collects = matches!(terminator, Terminator::TryCall { .. } | Terminator::Throw { .. });
        for number in self.strips.entered(block) {
            let strip = &self.strips.strips[number];
            let (array, kind, length, is_downward) = (strip.array, strip.kind, strip.length, strip.is_downward);
            let first = plan.layout.first_n / kind.bytes();
            let (base, end) = match length {
                Some(length) if first > 0 && !collects && !is_downward => {
                    let array = self.value(array);
                    let start = self.object(array, None, 0).address;
                    let base = self.b.ins().iadd_imm_s(start, i64::from(array_elements_offset(kind)));
                    let length = self.value(length);
                    let first = self.b.ins().iconst(types::I32, i64::from(first));
                    (base, self.b.ins().umin(length, first))
                }
                _ => (self.b.ins().iconst(POINTER, 0), self.b.ins().iconst(types::I32, nowhere(is_downward))),
            };
            let variables = self.strip_variables[number];
            self.note_guarded(base);
            self.b.def_var(variables.base, base);
            self.b.def_var(variables.end, end);
        }
    }

    /// Goes on where an element lies in its strip. Returns the block, out of line, where it does not.
    fn outside_strip(&mut self, to: StripUse, element: Element) -> ir::Block {
        // Both ways use the cage.
        self.cage();
        let [inside, outside] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(outside);
        let end = self.b.use_var(self.strip_variables[to.strip].end);
        let inside_where = match self.strips.strips[to.strip].is_downward {
            true => IntCC::SignedGreaterThan,
            false => IntCC::UnsignedLessThan,
        };
        let is_inside = self.b.ins().icmp(inside_where, element.index, end);
        self.b.ins().brif(is_inside, inside, &[], outside, &[]);
        self.b.switch_to_block(inside);
        outside
    }

    /// Goes on in the block that [`outside_strip`](Self::outside_strip) gives, with the bounds check, if that has been
    /// left to the access.
    fn enter_outside(&mut self, element: Element, outside: ir::Block) {
        self.b.switch_to_block(outside);
        self.apart(|l| l.check_element(element));
    }

    /// The address of an element that lies in its strip.
    fn in_strip(&mut self, to: StripUse, element: Element) -> ir::Value {
        let base = self.b.use_var(self.strip_variables[to.strip].base);
        let index = self.b.ins().uextend(POINTER, element.index);
        let scaled = self.b.ins().ishl_imm_u(index, i64::from(element.kind.bytes().trailing_zeros()));
        self.b.ins().iadd(base, scaled)
    }

    /// Makes the strip be one that an element lies in, where it is not, for the access that leads.
    fn lead_strip(&mut self, plan: &SpinePlan, to: StripUse, element: Element, store: Option<&Store>) {
        let outside = self.outside_strip(to, element);
        let access = self.b.create_block();
        self.b.ins().jump(access, &[]);
        self.enter_outside(element, outside);
        self.apart(|l| {
            l.next_strip(plan, to, element, store);
            l.b.ins().jump(access, &[]);
        });
        self.b.switch_to_block(access);
    }

    /// Looks up the strip that an element lies in. Where no strip may be kept, an empty one remains, whose base serves
    /// this access.
    fn next_strip(&mut self, plan: &SpinePlan, to: StripUse, element: Element, store: Option<&Store>) {
        let size_log2 = i64::from(element.kind.bytes().trailing_zeros());
        let is_downward = self.strips.strips[to.strip].is_downward;
        let object = self.object(element.array, None, 0).address;
        let length = self.array_length(element.array, None);
        let found = self.b.create_block();
        let base = self.b.append_block_param(found, POINTER);
        let end = self.b.append_block_param(found, types::I32);
        let first = plan.layout.first_n / element.kind.bytes();
        if first > 0 {
            let [near, far] = [(); 2].map(|()| self.b.create_block());
            let first = self.b.ins().iconst(types::I32, i64::from(first));
            let is_near = self.b.ins().icmp(IntCC::UnsignedLessThan, element.index, first);
            self.b.ins().brif(is_near, near, &[], far, &[]);
            for block in [near, far] {
                self.b.set_cold_block(block);
            }
            self.b.switch_to_block(near);
            let base = self.b.ins().iadd_imm_s(object, i64::from(array_elements_offset(element.kind)));
            let end = match is_downward {
                true => self.b.ins().iconst(types::I32, -1),
                false => self.b.ins().umin(first, length),
            };
            self.b.ins().jump(found, &[base.into(), end.into()]);
            self.b.switch_to_block(far);
        }
        let is_written = self.strips.strips[to.strip].is_written;
        let leaf = spines::find_strip(self, plan, element, store, is_written);
        // In 64 bits, so that nothing wraps.
        let index = self.b.ins().uextend(POINTER, element.index);
        let within = self.b.ins().ushr_imm_u(leaf.within, size_log2);
        let leaf_start = self.b.ins().isub(index, within);
        let scaled = self.b.ins().ishl_imm_u(leaf_start, size_log2);
        let leaf_base = self.b.ins().isub(leaf.address, scaled);
        let none = self.b.ins().iconst(types::I32, nowhere(is_downward));
        let mut leaf_end = match is_downward {
            true => {
                let before = self.b.ins().iadd_imm_s(leaf_start, -1);
                self.b.ins().ireduce(types::I32, before)
            }
            false => self.end_of_leaf(plan, element, leaf_start, length),
        };
        if let Some(is_kept) = leaf.is_kept {
            leaf_end = self.b.ins().select(is_kept, leaf_end, none);
        }
        self.b.ins().jump(found, &[leaf_base.into(), leaf_end.into()]);

        self.b.set_cold_block(found);
        self.b.switch_to_block(found);
        let variables = self.strip_variables[to.strip];
        self.note_guarded(base);
        self.b.def_var(variables.base, base);
        self.b.def_var(variables.end, end);
    }

    /// Where the strip of a leaf ends that begins with this index (64 bits): 0 where the element lies so far that it
    /// has none.
    fn end_of_leaf(
        &mut self,
        plan: &SpinePlan,
        element: Element,
        leaf_start: ir::Value,
        length: ir::Value,
    ) -> ir::Value {
        let in_leaf = plan.layout.leaf_bytes() / element.kind.bytes();
        let leaf_end = self.b.ins().iadd_imm_s(leaf_start, i64::from(in_leaf));
        let length = self.b.ins().uextend(POINTER, length);
        let leaf_end = self.b.ins().umin(leaf_end, length);
        let last = self.b.ins().iconst(POINTER, i64::from(LAST));
        let leaf_end = self.b.ins().umin(leaf_end, last);
        let leaf_end = self.b.ins().ireduce(types::I32, leaf_end);
        let none = self.b.ins().iconst(types::I32, 0);
        let is_inside = self.b.ins().icmp(IntCC::UnsignedLessThan, element.index, leaf_end);
        self.b.ins().select(is_inside, leaf_end, none)
    }
}

/// Loads an element.
pub(super) fn load(
    l: &mut Lowering,
    plan: &SpinePlan,
    to: StripUse,
    element: Element,
    extension: Extension,
) -> ir::Value {
    let flags = l.element_flags(element.kind);
    if to.leads {
        l.lead_strip(plan, to, element, None);
        let address = l.in_strip(to, element);
        return l.load_storage(element.kind, extension, flags, address, 0);
    }
    let join = l.b.create_block();
    let result = l.storage_param(join, element.kind);
    let outside = l.outside_strip(to, element);
    let address = l.in_strip(to, element);
    let value = l.load_storage(element.kind, extension, flags, address, 0);
    let value = l.storage_arg(element.kind, value);
    l.b.ins().jump(join, &[value]);
    l.enter_outside(element, outside);
    l.apart(|l| {
        let value = spines::load(l, plan, Element { check: None, ..element }, extension);
        let value = l.storage_arg(element.kind, value);
        l.b.ins().jump(join, &[value]);
    });
    l.b.switch_to_block(join);
    l.storage_passed(element.kind, result)
}

/// Stores an element. Where something comes after the store, the result is the element's address.
pub(super) fn store(
    l: &mut Lowering,
    plan: &SpinePlan,
    to: StripUse,
    element: Element,
    store: &Store,
) -> Option<ir::Value> {
    let flags = l.element_flags(element.kind);
    if to.leads {
        l.lead_strip(plan, to, element, Some(store));
        let address = l.in_strip(to, element);
        l.store_in_object(store, flags, address, 0, |l, other| spines::address_in(l, plan, element, other));
        return Some(address);
    }
    let join = l.b.create_block();
    let address = store.has_after().then(|| l.b.append_block_param(join, POINTER));
    let outside = l.outside_strip(to, element);
    let inside = l.in_strip(to, element);
    l.store_in_object(store, flags, inside, 0, |l, other| spines::address_in(l, plan, element, other));
    let args: &[ir::BlockArg] = if store.has_after() { &[inside.into()] } else { &[] };
    l.b.ins().jump(join, args);
    l.enter_outside(element, outside);
    l.apart(|l| {
        let found = spines::store(l, plan, Element { check: None, ..element }, store);
        let args: Vec<ir::BlockArg> = found.into_iter().map(Into::into).collect();
        l.b.ins().jump(join, &args);
    });
    l.b.switch_to_block(join);
    address
}
