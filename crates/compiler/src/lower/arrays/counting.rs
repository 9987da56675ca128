//! Counted builds: each access to an element is counted by whether it lies within the first N bytes (Z-Rays, Table 1).

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, types};
use legato_heap::plan::AccessCounters;

use super::Element;
use crate::lower::Lowering;
use crate::lower::access::Region;
use crate::lower::env::POINTER;

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
}

impl Lowering<'_, '_> {
    /// Counts an access, where accesses are counted.
    pub(super) fn count_access(&mut self, element: Element, access: Access) {
        let Some(plan) = self.env.plan.counting else { return };
        let (fast, slow) = match access {
            Access::Read => {
                (std::mem::offset_of!(AccessCounters, fast_reads), std::mem::offset_of!(AccessCounters, slow_reads))
            }
            Access::Write => {
                (std::mem::offset_of!(AccessCounters, fast_writes), std::mem::offset_of!(AccessCounters, slow_writes))
            }
        };
        let first = plan.first_n / element.kind.bytes();
        let counters = self.mutator();
        let counters = self.b.ins().iadd_imm_s(counters, i64::from(plan.counters_offset));
        let first = self.b.ins().iconst(types::I32, i64::from(first));
        let is_slow = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, element.index, first);
        let fast = self.b.ins().iadd_imm_s(counters, fast as i64);
        let slow = self.b.ins().iadd_imm_s(counters, slow as i64);
        let counter = self.b.ins().select(is_slow, slow, fast);
        let flags = self.flags(Region::Counters).with_aligned();
        let count = self.b.ins().load(POINTER, flags, counter, 0);
        let count = self.b.ins().iadd_imm_s(count, 1);
        self.b.ins().store(flags, count, counter, 0);
    }
}
