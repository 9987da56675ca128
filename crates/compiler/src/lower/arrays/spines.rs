//! Arrays of spines and leaves (Z-Rays, sections 4.1 to 4.4).
//!
//! An element within the first N bytes lies where it would in a contiguous array: one comparison with a constant leads to
//! the same access, and none where the index is known to be small. Any other is reached through the table of leaf pointers.
//! With N = 0 there is nothing to compare.
//!
//! A load needs no check: the zero leaf reads as zeros. A store asks whether the leaf may be written through the pointer found;
//! where not, it calls for one that may be, unless it would but write zero to the zero leaf.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::layout::{StorageKind, TAINT, array_elements_offset};
use legato_heap::plan::SpinePlan;

use super::{Element, contiguous};
use crate::abi::Builtin;
use crate::lower::Lowering;
use crate::lower::access::Region;
use crate::lower::env::{POINTER, element_type};
use crate::mir::Extension;

/// What a store stores.
#[derive(Clone, Copy)]
pub(super) struct ToStore {
    pub(super) value: ir::Value,
    /// Whether all its bits are zero, where that is known.
    pub(super) is_zero: Option<bool>,
}

/// Which parts of an array an access may reach.
enum Reach {
    /// The first N bytes.
    First,
    /// Leaves and the remainder.
    Leaves,
    /// Either: the first where the index is below this.
    Either(u32),
}

impl Reach {
    fn of(plan: &SpinePlan, element: Element) -> Reach {
        let first = plan.layout.first_n / element.kind.bytes();
        match element.most {
            _ if first == 0 => Reach::Leaves,
            Some(most) if most < first => Reach::First,
            _ => Reach::Either(first),
        }
    }
}

/// Loads an element.
pub(super) fn load(l: &mut Lowering, plan: &SpinePlan, element: Element, extension: Extension) -> ir::Value {
    match Reach::of(plan, element) {
        Reach::First => contiguous::load(l, element, extension),
        Reach::Leaves => load_from_leaf(l, plan, element, extension),
        Reach::Either(first) => {
            let join = l.b.create_block();
            let result = l.b.append_block_param(join, element_type(element.kind));
            let far = divide(l, element, first);
            let value = contiguous::load(l, element, extension);
            l.b.ins().jump(join, &[value.into()]);
            l.b.switch_to_block(far);
            l.apart(|l| {
                let value = load_from_leaf(l, plan, element, extension);
                l.b.ins().jump(join, &[value.into()]);
            });
            l.b.switch_to_block(join);
            result
        }
    }
}

/// Stores an element. With `wants_address`, the result is the element's address.
pub(super) fn store(
    l: &mut Lowering,
    plan: &SpinePlan,
    element: Element,
    stored: ToStore,
    wants_address: bool,
) -> Option<ir::Value> {
    let flags = l.element_flags(element.kind);
    let reach = Reach::of(plan, element);
    if !wants_address {
        let Reach::Either(first) = reach else {
            let (address, offset) = match reach {
                Reach::First => contiguous::address(l, element),
                _ => (leaf_for_store(l, plan, element, stored), 0),
            };
            l.store_storage(element.kind, flags, stored.value, address, offset);
            return None;
        };
        let join = l.b.create_block();
        let far = divide(l, element, first);
        contiguous::store(l, element, stored.value);
        l.b.ins().jump(join, &[]);
        l.b.switch_to_block(far);
        l.apart(|l| {
            let address = leaf_for_store(l, plan, element, stored);
            l.store_storage(element.kind, flags, stored.value, address, 0);
            l.b.ins().jump(join, &[]);
        });
        l.b.switch_to_block(join);
        return None;
    }
    let near = |l: &mut Lowering| {
        let (address, offset) = contiguous::address(l, element);
        l.b.ins().iadd_imm_s(address, i64::from(offset))
    };
    let address = match reach {
        Reach::First => near(l),
        Reach::Leaves => leaf_for_store(l, plan, element, stored),
        Reach::Either(first) => {
            let join = l.b.create_block();
            let address = l.b.append_block_param(join, POINTER);
            let far = divide(l, element, first);
            let found = near(l);
            l.b.ins().jump(join, &[found.into()]);
            l.b.switch_to_block(far);
            l.apart(|l| {
                let found = leaf_for_store(l, plan, element, stored);
                l.b.ins().jump(join, &[found.into()]);
            });
            l.b.switch_to_block(join);
            address
        }
    };
    l.store_storage(element.kind, flags, stored.value, address, 0);
    Some(address)
}

/// Goes on where the index is below `first`. Returns the block where it is not. That is not a cold one: in programs with large arrays
/// it is the rule, and the jumps there and back would cost more than the access.
fn divide(l: &mut Lowering, element: Element, first: u32) -> ir::Block {
    // Both ways use the array's address.
    l.object(element.array, None, 0);
    let [near, far] = [(); 2].map(|()| l.b.create_block());
    let first = l.b.ins().iconst(types::I32, i64::from(first));
    let is_near = l.b.ins().icmp(IntCC::UnsignedLessThan, element.index, first);
    l.b.ins().brif(is_near, near, &[], far, &[]);
    l.b.switch_to_block(near);
    far
}

fn load_from_leaf(l: &mut Lowering, plan: &SpinePlan, element: Element, extension: Extension) -> ir::Value {
    let found = InLeaf::find(l, plan, element);
    let leaf = found.leaf(l, plan);
    let address = found.address(l, leaf);
    let flags = l.element_flags(element.kind);
    l.load_storage(element.kind, extension, flags, address, 0)
}

/// The address of an element behind the first N bytes, in a leaf that may be written, or, where the element is to become zero,
/// in the zero leaf.
fn leaf_for_store(l: &mut Lowering, plan: &SpinePlan, element: Element, stored: ToStore) -> ir::Value {
    let found = InLeaf::find(l, plan, element);
    let leaf = found.leaf_for_store(l, plan, element, stored);
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

/// Finds the leaf of an element behind the first N bytes, for a store or a load. `is_written`: stores will use it too.
pub(super) fn find_strip(
    l: &mut Lowering,
    plan: &SpinePlan,
    element: Element,
    stored: Option<ToStore>,
    is_written: bool,
) -> LeafStrip {
    let found = InLeaf::find(l, plan, element);
    let (leaf, is_kept) = match stored {
        Some(stored) => {
            let leaf = found.leaf_for_store(l, plan, element, stored);
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
        let layout = plan.layout;
        let size_log2 = element.kind.bytes().trailing_zeros();
        let first = layout.first_n >> size_log2;
        let leaf_log2 = u32::from(layout.leaf_log2) - size_log2;
        let object = l.object(element.array, None, 0).address;
        let index = l.b.ins().uextend(POINTER, element.index);
        let mut table = array_elements_offset(element.kind) + layout.first_n;
        // Where whole leaves would fit the first N bytes, the table begins so many pointers before.
        let beyond = if layout.first_n.is_multiple_of(layout.leaf_bytes()) {
            table -= 4 * (layout.first_n >> layout.leaf_log2);
            index
        } else {
            l.b.ins().iadd_imm_s(index, -i64::from(first))
        };
        let number = l.b.ins().ushr_imm_u(beyond, i64::from(leaf_log2));
        let scaled = l.b.ins().ishl_imm_u(number, 2);
        let slot = l.b.ins().iadd(object, scaled);
        let flags = l.flags(Region::LeafPointers).with_aligned();
        let pointer = l.b.ins().uload32(flags, slot, table as i32);
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

    /// The cage offset (64 bits) of a leaf that may be written, or, where the element is to become zero, of the zero leaf.
    fn leaf_for_store(&self, l: &mut Lowering, plan: &SpinePlan, element: Element, stored: ToStore) -> ir::Value {
        if !plan.checks_stores() {
            return self.pointer;
        }
        let [unwritable, writable] = [(); 2].map(|()| l.b.create_block());
        let leaf = l.b.append_block_param(writable, POINTER);
        let is_unwritable = self.is_unwritable(l, plan);
        l.b.ins().brif(is_unwritable, unwritable, &[], writable, &[self.pointer.into()]);
        l.b.set_cold_block(unwritable);
        l.b.switch_to_block(unwritable);
        l.apart(|l| {
            let is_zero = match stored.is_zero {
                Some(known) => l.b.ins().iconst(types::I32, i64::from(known)),
                None => is_zero_element(l, element.kind, stored.value),
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
