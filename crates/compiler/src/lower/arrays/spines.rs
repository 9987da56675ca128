//! Arrays of spines and leaves (Z-Rays, sections 4.1 to 4.4).
//!
//! An element within the first N bytes lies where it would in a contiguous array: one comparison with a constant leads
//! to the same access, and none where the index is known to be small. Any other is reached through the table of leaf
//! pointers. With N = 0 there is nothing to compare.
//!
//! Where the first N bytes grow, the comparison is with the array's inline length, and makes the bounds check too where
//! that comes directly before (see [`analysis`](crate::passes::analysis)). What lies beyond is the exception then, and
//! its code out of line. An inline length read before the array grew is too small, which does no harm: the pointers of
//! leaves that have been grown over lead to the same elements.
//!
//! A load needs no check: the zero leaf reads as zeros. A store asks whether the leaf may be written through the
//! pointer found; where not, it calls for one that may be, unless it would but write zero to the zero leaf.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::{INLINE_LENGTH_OFFSET, StorageKind, TAINT, array_elements_offset};
use legato_heap::plan::SpinePlan;

use super::{Element, contiguous};
use crate::abi::Builtin;
use crate::artifact::TrapCode;
use crate::lower::Lowering;
use crate::lower::access::Region;
use crate::lower::barrier::Store;
use crate::lower::env::POINTER;
use crate::lower::structs::null_trap;
use crate::mir::Extension;
use crate::passes::analysis::MergedCheck;

/// Where the element of an access may lie.
enum Distance {
    /// Behind the header.
    Near,
    /// In a leaf or the remainder.
    Far,
    /// Either.
    Either(Near),
}

/// Which elements lie behind the header.
pub(super) enum Near {
    /// Those at indexes below this.
    Below(u32),
    /// Those at indexes below the array's inline length.
    BelowInlineLength,
}

impl Distance {
    fn of(plan: &SpinePlan, element: Element) -> Distance {
        match plan.layout.first_n / element.kind.bytes() {
            _ if element.is_inline => Distance::Near,
            _ if plan.layout.grows => Distance::Either(Near::BelowInlineLength),
            0 => Distance::Far,
            first => Distance::Either(Near::Below(first)),
        }
    }
}

/// Loads an element.
pub(super) fn load(l: &mut Lowering, plan: &SpinePlan, element: Element, extension: Extension) -> ir::Value {
    match Distance::of(plan, element) {
        Distance::Near => contiguous::load(l, element, extension),
        Distance::Far => load_from_leaf(l, plan, element, extension),
        Distance::Either(near) => {
            let join = l.b.create_block();
            let result = l.storage_param(join, element.kind);
            let far = split(l, element, near);
            let value = contiguous::load(l, element, extension);
            let value = l.storage_arg(element.kind, value);
            l.b.ins().jump(join, &[value]);
            enter_far(l, element, far);
            l.apart(|l| {
                let value = load_from_leaf(l, plan, element, extension);
                let value = l.storage_arg(element.kind, value);
                l.b.ins().jump(join, &[value]);
            });
            l.b.switch_to_block(join);
            l.storage_passed(element.kind, result)
        }
    }
}

/// Stores an element. Where something comes after the store, the result is the element's address.
pub(super) fn store(l: &mut Lowering, plan: &SpinePlan, element: Element, store: &Store) -> Option<ir::Value> {
    match Distance::of(plan, element) {
        Distance::Near => store_behind_header(l, element, store),
        Distance::Far => store_to_leaf(l, plan, element, store),
        Distance::Either(near) => {
            let join = l.b.create_block();
            let address = store.has_after().then(|| l.b.append_block_param(join, POINTER));
            let args = |address: Option<ir::Value>| address.map(ir::BlockArg::from).into_iter().collect::<Vec<_>>();
            let far = split(l, element, near);
            let found = store_behind_header(l, element, store);
            l.b.ins().jump(join, &args(found));
            enter_far(l, element, far);
            l.apart(|l| {
                let found = store_to_leaf(l, plan, element, store);
                l.b.ins().jump(join, &args(found));
            });
            l.b.switch_to_block(join);
            address
        }
    }
}

fn store_behind_header(l: &mut Lowering, element: Element, store: &Store) -> Option<ir::Value> {
    if !store.has_after() {
        contiguous::store(l, element, store);
        return None;
    }
    let (address, offset) = contiguous::address(l, element);
    let address = l.b.ins().iadd_imm_s(address, i64::from(offset));
    let flags = l.element_flags(element.kind);
    l.store_in_object(store, flags, address, 0, |l, other| contiguous::address_in(l, element, other));
    Some(address)
}

/// As [`store`], of an element that does not lie behind the header.
pub(super) fn store_to_leaf(l: &mut Lowering, plan: &SpinePlan, element: Element, store: &Store) -> Option<ir::Value> {
    let address = leaf_for_store(l, plan, element, store);
    let flags = l.element_flags(element.kind);
    l.store_in_object(store, flags, address, 0, |l, other| (address_in_leaf(l, plan, element, other), 0));
    store.has_after().then_some(address)
}

/// The address of an element that does not lie behind the header of the array at this address, and that can be written.
fn address_in_leaf(l: &mut Lowering, plan: &SpinePlan, element: Element, start: ir::Value) -> ir::Value {
    let found = InLeaf::find_in(l, plan, element, start);
    let leaf = found.leaf(l, plan);
    found.address(l, leaf)
}

/// The address of an element of the array at this address, wherever it lies, which can be written.
pub(super) fn address_in(l: &mut Lowering, plan: &SpinePlan, element: Element, start: ir::Value) -> (ir::Value, i32) {
    match Distance::of(plan, element) {
        Distance::Near => contiguous::address_in(l, element, start),
        Distance::Far => (address_in_leaf(l, plan, element, start), 0),
        Distance::Either(near) => {
            let join = l.b.create_block();
            let address = l.b.append_block_param(join, POINTER);
            let far = split(l, element, near);
            let (found, offset) = contiguous::address_in(l, element, start);
            let found = l.b.ins().iadd_imm_s(found, i64::from(offset));
            l.b.ins().jump(join, &[found.into()]);
            l.b.switch_to_block(far);
            let found = address_in_leaf(l, plan, element, start);
            l.b.ins().jump(join, &[found.into()]);
            l.b.switch_to_block(join);
            (address, 0)
        }
    }
}

/// Goes on in the block that [`split`] gives, with the bounds check, if that has been left to the access.
fn enter_far(l: &mut Lowering, element: Element, far: ir::Block) {
    l.b.switch_to_block(far);
    if element.check.is_some() {
        // The length is loaded again, rather than kept up to here: the array is known not to be null by now.
        l.apart(|l| {
            let length = l.array_length(element.array, None);
            l.bounds_check(element.index, length);
        });
    }
}

/// Goes on where the element lies behind the header. Returns the block where it does not. With a fixed N that is not a
/// cold one: in programs with large arrays it is the rule, and the jumps there and back would cost more than the
/// access.
pub(super) fn split(l: &mut Lowering, element: Element, near: Near) -> ir::Block {
    let [inside, far] = [(); 2].map(|()| l.b.create_block());
    let limit = match near {
        Near::Below(first) => {
            // Both ways use the array's address.
            l.object(element.array, None, 0);
            l.b.ins().iconst(types::I32, i64::from(first))
        }
        Near::BelowInlineLength => {
            l.b.set_cold_block(far);
            read_inline_length(l, element)
        }
    };
    let is_near = l.b.ins().icmp(IntCC::UnsignedLessThan, element.index, limit);
    l.b.ins().brif(is_near, inside, &[], far, &[]);
    l.b.switch_to_block(inside);
    far
}

/// The inline length of an element's array, as it was read before in this block, or now.
fn read_inline_length(l: &mut Lowering, element: Element) -> ir::Value {
    if let Some(&read) = l.read_lengths.get(&element.array) {
        return read;
    }
    let null = match element.check {
        Some(MergedCheck::LengthOf(_, check)) => null_trap(check),
        _ => None,
    };
    let length = inline_length(l, element.array, null);
    if !l.cold {
        l.read_lengths.insert(element.array, length);
    }
    length
}

/// How many elements of an array lie behind its header, where arrays say so. `null`: the trap where the array is null,
/// if it can be.
fn inline_length(l: &mut Lowering, array: ir::Value, null: Option<TrapCode>) -> ir::Value {
    let object = l.object(array, null, INLINE_LENGTH_OFFSET + 4);
    let flags = l.flags_trapping(Region::Headers, object.null_trap).with_aligned();
    l.b.ins().load(types::I32, flags, object.address, INLINE_LENGTH_OFFSET as i32)
}

/// Loads an element that does not lie behind the header.
pub(super) fn load_from_leaf(l: &mut Lowering, plan: &SpinePlan, element: Element, extension: Extension) -> ir::Value {
    let found = InLeaf::find(l, plan, element);
    let leaf = found.leaf(l, plan);
    let address = found.address(l, leaf);
    let flags = l.element_flags(element.kind);
    l.load_storage(element.kind, extension, flags, address, 0)
}

/// The address of an element behind the first N bytes, in a leaf that may be written, or, where the element is to
/// become zero, in the zero leaf.
fn leaf_for_store(l: &mut Lowering, plan: &SpinePlan, element: Element, store: &Store) -> ir::Value {
    let found = InLeaf::find(l, plan, element);
    let leaf = found.leaf_for_store(l, plan, element, store, plan.layout.grows);
    found.address(l, leaf)
}

/// A leaf, or the remainder, as a strip.
pub(super) struct LeafStrip {
    /// The leaf's address.
    pub(super) address: ir::Value,
    /// The element's offset in the leaf in bytes, 64 bits.
    pub(super) within: ir::Value,
    /// Whether other accesses than this may use the leaf, where that is not certain.
    pub(super) is_kept: Option<ir::Value>,
}

/// Finds the leaf of an element that may lie in one, for a store or a load. `is_written`: stores will use it too.
pub(super) fn find_strip(
    l: &mut Lowering,
    plan: &SpinePlan,
    element: Element,
    store: Option<&Store>,
    is_written: bool,
) -> LeafStrip {
    let found = InLeaf::find(l, plan, element);
    let (leaf, is_kept) = match store {
        Some(store) => {
            let leaf = found.leaf_for_store(l, plan, element, store, true);
            let is_kept =
                plan.zero_leaf.map(|zero_leaf| l.b.ins().icmp_imm_u(IntCC::NotEqual, leaf, i64::from(zero_leaf)));
            (leaf, is_kept)
        }
        None => {
            let is_writable = (is_written && plan.checks_stores()).then(|| {
                let is_unwritable = found.is_unwritable(l, plan);
                l.b.ins().icmp_imm_u(IntCC::Equal, is_unwritable, 0)
            });
            (found.leaf(l, plan), is_writable)
        }
    };
    let cage = l.cage();
    LeafStrip { address: l.b.ins().iadd(cage, leaf), within: found.within, is_kept }
}

/// Whether all bits of an element are zero, as a 32-bit 0 or 1.
fn is_zero_element(l: &mut Lowering, kind: StorageKind, value: ir::Value) -> ir::Value {
    let is_zero = match kind {
        StorageKind::V128 => {
            let any = l.b.ins().vany_true(value);
            l.b.ins().icmp_imm_u(IntCC::Equal, any, 0)
        }
        _ => {
            let bits = l.element_bits(value);
            let bits = match kind {
                StorageKind::I8 => l.b.ins().band_imm_u(bits, 0xff),
                StorageKind::I16 => l.b.ins().band_imm_u(bits, 0xffff),
                _ => bits,
            };
            l.b.ins().icmp_imm_u(IntCC::Equal, bits, 0)
        }
    };
    l.boolean(is_zero)
}

/// An element behind the first N bytes.
struct InLeaf {
    /// The leaf's pointer, 64 bits.
    pointer: ir::Value,
    /// The element's offset in the leaf in bytes, 64 bits.
    within: ir::Value,
}

impl InLeaf {
    /// Loads the pointer.
    fn find(l: &mut Lowering, plan: &SpinePlan, element: Element) -> InLeaf {
        let object = l.object(element.array, None, 0).address;
        InLeaf::find_in(l, plan, element, object)
    }

    /// The same, of the array at this address.
    fn find_in(l: &mut Lowering, plan: &SpinePlan, element: Element, object: ir::Value) -> InLeaf {
        let layout = plan.layout;
        let size_log2 = element.kind.bytes().trailing_zeros();
        let first = layout.first_n >> size_log2;
        let leaf_log2 = u32::from(layout.leaf_log2) - size_log2;
        let index = l.b.ins().uextend(POINTER, element.index);
        let is_aligned = layout.first_n.is_multiple_of(layout.leaf_bytes());
        let mut table = array_elements_offset(element.kind) as i32;
        let mut base = object;
        if layout.grows {
            // The table lies behind the space for all leaves. In 64 bits, so that nothing wraps.
            let length = l.array_length(element.array, None);
            let length = l.b.ins().uextend(POINTER, length);
            let bytes = l.b.ins().ishl_imm_u(length, i64::from(size_log2));
            let leaf = i64::from(layout.leaf_bytes());
            // The first N bytes are rounded with that space where they are a multiple of a leaf, and are added
            // otherwise.
            let first = if is_aligned { 0 } else { layout.first_n };
            table += first as i32;
            let rounded_up = l.b.ins().iadd_imm_s(bytes, leaf - 1 - i64::from(first));
            let space = l.b.ins().band_imm_s(rounded_up, -leaf);
            base = l.b.ins().iadd(object, space);
        } else {
            table += layout.first_n as i32;
        }
        // Where whole leaves would fit the first N bytes, the table begins so many pointers before.
        let beyond = if is_aligned {
            table -= 4 * (layout.first_n >> layout.leaf_log2) as i32;
            index
        } else {
            l.b.ins().iadd_imm_s(index, -i64::from(first))
        };
        let number = l.b.ins().ushr_imm_u(beyond, i64::from(leaf_log2));
        let scaled = l.b.ins().ishl_imm_u(number, 2);
        let slot = l.b.ins().iadd(base, scaled);
        let flags = l.flags(Region::LeafPointers).with_aligned();
        let pointer = l.b.ins().uload32(flags, slot, table);
        let within = l.b.ins().band_imm_u(beyond, (1 << leaf_log2) - 1);
        let within = l.b.ins().ishl_imm_u(within, i64::from(size_log2));
        InLeaf { pointer, within }
    }

    /// The element's address in the leaf at this cage offset (64 bits).
    fn address(&self, l: &mut Lowering, leaf: ir::Value) -> ir::Value {
        let cage = l.cage();
        let leaf = l.b.ins().iadd(cage, leaf);
        l.b.ins().iadd(leaf, self.within)
    }

    /// The leaf's cage offset, 64 bits.
    fn leaf(&self, l: &mut Lowering, plan: &SpinePlan) -> ir::Value {
        match plan.copy_on_write {
            true => l.b.ins().band_imm_s(self.pointer, !i64::from(TAINT)),
            false => self.pointer,
        }
    }

    /// Not zero where the leaf must not be written, where there are such leaves.
    fn is_unwritable(&self, l: &mut Lowering, plan: &SpinePlan) -> ir::Value {
        match (plan.copy_on_write, plan.zero_leaf) {
            (false, Some(zero_leaf)) => l.b.ins().icmp_imm_u(IntCC::Equal, self.pointer, i64::from(zero_leaf)),
            _ => l.b.ins().band_imm_u(self.pointer, i64::from(TAINT)),
        }
    }

    /// The cage offset (64 bits) of a leaf that may be written, or, where the element is to become zero, of the zero
    /// leaf. `is_cold`: this is a cold path.
    fn leaf_for_store(
        &self,
        l: &mut Lowering,
        plan: &SpinePlan,
        element: Element,
        store: &Store,
        is_cold: bool,
    ) -> ir::Value {
        if !plan.checks_stores() {
            return self.pointer;
        }
        let [unwritable, writable] = [(); 2].map(|()| l.b.create_block());
        let leaf = l.b.append_block_param(writable, POINTER);
        let is_unwritable = self.is_unwritable(l, plan);
        l.b.ins().brif(is_unwritable, unwritable, &[], writable, &[self.pointer.into()]);
        l.b.set_cold_block(unwritable);
        if is_cold {
            l.b.set_cold_block(writable);
        }
        l.b.switch_to_block(unwritable);
        l.apart(|l| {
            let is_zero = match store.is_zero {
                Some(known) => l.b.ins().iconst(types::I32, i64::from(known)),
                None => is_zero_element(l, element.kind, store.value),
            };
            if let Some(zero_leaf) = plan.zero_leaf {
                let word = zero_leaf | if plan.copy_on_write { TAINT } else { 0 };
                let changes_nothing = match plan.copy_on_write {
                    true => {
                        let is_zero_leaf = l.b.ins().icmp_imm_u(IntCC::Equal, self.pointer, i64::from(word));
                        let is_zero_leaf = l.boolean(is_zero_leaf);
                        l.b.ins().band(is_zero, is_zero_leaf)
                    }
                    false => is_zero,
                };
                let zero_leaf = l.b.ins().iconst(POINTER, i64::from(zero_leaf));
                let install = l.b.create_block();
                l.b.set_cold_block(install);
                l.b.ins().brif(changes_nothing, writable, &[zero_leaf.into()], install, &[]);
                l.b.switch_to_block(install);
            }
            let leaf = l.builtin_cold(Builtin::LeafForStore, &[element.array, element.index, is_zero]);
            l.empty_strips();
            let leaf = l.b.ins().uextend(POINTER, leaf);
            l.b.ins().jump(writable, &[leaf.into()]);
        });
        l.b.switch_to_block(writable);
        leaf
    }
}
