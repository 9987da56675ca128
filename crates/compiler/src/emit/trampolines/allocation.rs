//! Allocation for code that calls for each object, as all does that was compiled quickly: what optimised code does
//! inline is done here, in the trampoline of the runtime's builtin, and the runtime is called only where that does not
//! find a cell.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use legato_heap::AccessPlan;
use legato_heap::layout::{ARRAY_LENGTH_OFFSET, HEADER_BYTES, OBJECT_ALIGNMENT, TYPE_ID_OFFSET, elements_offset};
use legato_heap::plan::{AllocationPlan, ArrayPlan, CollectorWord, ReferencePlan, SizeRun};
use legato_heap::types::TypeRecord;

use super::Trampoline;
use crate::abi::{Builtin, ContextHead};
use crate::lower::env::POINTER;

/// A larger object takes the slow path, where zeroing it is another matter. In bytes; the table of sizes holds it.
const MOST_BYTES: u32 = 256;

/// Whether objects of this builtin's can be allocated in its trampoline.
pub(super) fn is_here(builtin: Builtin, plan: &AccessPlan) -> bool {
    let ReferencePlan { handles: None, collector_word: CollectorWord::Zero, .. } = plan.references else {
        return false;
    };
    match builtin {
        Builtin::AllocateStruct => true,
        // A counted build counts arrays where they are allocated: in the runtime.
        Builtin::AllocateArray => plan.arrays == ArrayPlan::Contiguous && plan.counting.is_none(),
        _ => false,
    }
}

impl Trampoline<'_, '_> {
    /// Returns a zeroed object of the type, an array if there is a length; goes on where it takes the runtime to find
    /// a cell for it.
    pub(super) fn allocate(
        &mut self,
        plan: &AccessPlan,
        instance: ir::Value,
        ty: ir::Value,
        length: Option<ir::Value>,
    ) {
        let slow = self.b.create_block();
        let ty = self.b.ins().uextend(POINTER, ty);
        let length = length.map(|length| self.b.ins().uextend(POINTER, length));
        let records = self.load(POINTER, instance, std::mem::offset_of!(ContextHead, types) as i32);
        let record = self.b.ins().iadd(records, ty);
        let bytes = self.load_word(record, TypeRecord::BYTES_OFFSET as usize);
        let bytes = match length {
            // A length of 32 bits and an element of at most 16 bytes: the sum cannot wrap.
            Some(length) => self.array_bytes(bytes, length),
            None => bytes,
        };
        let most = match plan.allocation {
            AllocationPlan::Bump { max_bytes, .. } => max_bytes.min(MOST_BYTES),
            AllocationPlan::SizeClasses { ref cell_bytes, .. } => {
                cell_bytes.last().map_or(0, |&cell| cell.min(MOST_BYTES))
            }
        };
        let is_large = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, bytes, i64::from(most));
        self.leave_if(is_large, slow);

        let mutator = self.load(POINTER, instance, std::mem::offset_of!(ContextHead, mutator) as i32);
        let (run, cell) = self.run(plan, mutator, bytes);
        let cursor = self.load_word(run, 0);
        let limit = self.load_word(run, 4);
        let next = self.b.ins().iadd(cursor, cell);
        let is_over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, next, limit);
        self.leave_if(is_over, slow);
        let next = self.b.ins().ireduce(types::I32, next);
        self.store(next, run, 0);

        let cage = self.load(POINTER, instance, std::mem::offset_of!(ContextHead, cage) as i32);
        let address = self.b.ins().iadd(cage, cursor);
        // With a collector word of zero.
        self.store(ty, address, TYPE_ID_OFFSET as usize);
        let written = match length {
            Some(length) => {
                // With the first elements, or what lies before them: nothing as yet.
                self.store(length, address, ARRAY_LENGTH_OFFSET as usize);
                ARRAY_LENGTH_OFFSET + 8
            }
            None => HEADER_BYTES,
        };
        if !plan.fresh_memory_is_zero {
            self.zero(address, written, bytes);
        }
        let reference = self.b.ins().ireduce(types::I32, cursor);
        self.b.ins().return_(&[reference]);
        self.b.set_cold_block(slow);
        self.b.switch_to_block(slow);
    }

    /// Bytes of an array, as the heap counts them.
    fn array_bytes(&mut self, element_bytes: ir::Value, length: ir::Value) -> ir::Value {
        let elements = self.b.ins().imul(element_bytes, length);
        let is_wide = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, element_bytes, 8);
        let [wide, narrow] = [8, 1].map(|bytes| self.b.ins().iconst(POINTER, i64::from(elements_offset(bytes))));
        let offset = self.b.ins().select(is_wide, wide, narrow);
        let end = self.b.ins().iadd(elements, offset);
        let end = self.b.ins().iadd_imm_s(end, i64::from(OBJECT_ALIGNMENT) - 1);
        self.b.ins().band_imm_s(end, -i64::from(OBJECT_ALIGNMENT))
    }

    /// The address of the run that an object of so many bytes is taken from, and what it is bumped by.
    fn run(&mut self, plan: &AccessPlan, mutator: ir::Value, bytes: ir::Value) -> (ir::Value, ir::Value) {
        match plan.allocation {
            AllocationPlan::Bump { run_offset, .. } => (self.b.ins().iadd_imm_s(mutator, i64::from(run_offset)), bytes),
            AllocationPlan::SizeClasses { sizes_offset, .. } => {
                const { assert!(size_of::<SizeRun>() * 2 == OBJECT_ALIGNMENT as usize) };
                let entry = self.b.ins().ushr_imm_u(bytes, 1);
                let entry = self.b.ins().iadd(mutator, entry);
                let mut half = |offset: usize| {
                    let offset = sizes_offset as usize + offset;
                    self.b.ins().uload16(POINTER, ir::MemFlagsData::trusted(), entry, offset as i32)
                };
                let run = half(std::mem::offset_of!(SizeRun, run_offset));
                let cell = half(std::mem::offset_of!(SizeRun, cell_bytes));
                (self.b.ins().iadd(mutator, run), cell)
            }
        }
    }

    /// Zeroes an object from an offset on, in words.
    fn zero(&mut self, address: ir::Value, from: u32, bytes: ir::Value) {
        let [head, body, done] = [(); 3].map(|()| self.b.create_block());
        let at = self.b.append_block_param(head, POINTER);
        let start = self.b.ins().iadd_imm_s(address, i64::from(from));
        let end = self.b.ins().iadd(address, bytes);
        self.b.ins().jump(head, &[start.into()]);
        self.b.switch_to_block(head);
        let is_done = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, at, end);
        self.b.ins().brif(is_done, done, &[], body, &[]);
        self.b.switch_to_block(body);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.store(zero, at, 0);
        let next = self.b.ins().iadd_imm_s(at, 8);
        self.b.ins().jump(head, &[next.into()]);
        self.b.switch_to_block(done);
    }

    fn load_word(&mut self, base: ir::Value, offset: usize) -> ir::Value {
        self.b.ins().uload32(ir::MemFlagsData::trusted(), base, offset as i32)
    }

    /// Goes on at a block where a condition holds.
    fn leave_if(&mut self, condition: ir::Value, to: ir::Block) {
        let stay = self.b.create_block();
        self.b.ins().brif(condition, to, &[], stay, &[]);
        self.b.switch_to_block(stay);
    }
}
