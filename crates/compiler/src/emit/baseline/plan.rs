//! What [baseline code](super) is planned by: the order of blocks, how often each value is used, which values are never
//! computed by themselves, and where in the frame the others lie.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, Function, Inst, InstructionData, Opcode, StackSlot, Type, Value, ValueDef, types,
};
use cranelift_entity::EntityRef;
use smallvec::SmallVec;

/// How a value comes to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// By an instruction of its own, a parameter, or a call.
    Made,
    /// It is a number; floats are their bits.
    Number(i64),
    /// The address of a byte of a slot that the function has: bytes below the frame pointer.
    Stack(i32),
    /// The function's first parameter, which keeps a register.
    Context,
    /// A sum that is used in addresses alone, where it is computed.
    Address,
    /// A comparison that a single branch uses, where it is made.
    Condition,
}

/// What is known of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    /// The value that it is another name of, perhaps itself: one whose lower bits it is, or the argument of a
    /// parameter.
    pub same: Value,
    pub kind: Kind,
    /// How often it is used; as code is made, how often it still is.
    pub uses: u32,
    /// The uses that are the address of an access, or part of one.
    addresses: u32,
    /// The uses that are the condition of a branch.
    conditions: u32,
    /// The number of the block that makes it, and of the last one for which it is kept.
    first: u32,
    last: u32,
    /// Whether another block uses it.
    is_global: bool,
    /// Whether all bits above the lower 32 are zero.
    is_short: bool,
    /// Bytes from the frame pointer to where it is kept, 0: nowhere.
    pub home: i32,
}

impl Planned {
    /// Of a value that has not been looked at.
    fn unknown() -> Planned {
        Planned {
            same: Value::from_u32(0),
            kind: Kind::Made,
            uses: 0,
            addresses: 0,
            conditions: 0,
            first: 0,
            last: 0,
            is_global: false,
            is_short: false,
            home: 0,
        }
    }
}

/// A block that is reached.
#[derive(Clone, Debug)]
pub(super) struct PlannedBlock {
    pub block: Block,
    /// Edges that lead here.
    pub entries: u32,
    first_entry: u32,
    last_entry: u32,
}

/// The plan of a function.
pub(super) struct Plan {
    values: Vec<Planned>,
    /// In reverse post-order, so that what dominates a block comes before it.
    pub blocks: Vec<PlannedBlock>,
    /// For each block its number among these.
    numbers: Vec<u32>,
    /// Whether an instruction is left out: what it computes is not used, or has another name, or is computed where it
    /// is used.
    left_out: Vec<bool>,
    /// For each of the function's slots bytes from the frame pointer.
    slots: Vec<i32>,
    /// Bytes below the frame pointer that are taken.
    pub frame: i32,
}

const UNREACHED: u32 = u32::MAX;

impl Plan {
    /// Plans a function. `frame`: bytes below the frame pointer that are taken already; the function's slots and the
    /// homes of values come below.
    pub(super) fn new(function: &Function, frame: i32) -> Option<Plan> {
        let mut plan = Plan {
            values: vec![Planned::unknown(); function.dfg.num_values()],
            blocks: Vec::new(),
            numbers: vec![UNREACHED; function.dfg.num_blocks()],
            left_out: vec![false; function.dfg.num_insts()],
            slots: Vec::new(),
            frame,
        };
        plan.lay_out_slots(function);
        plan.order(function);
        plan.name(function)?;
        plan.count(function);
        plan.give_homes(function);
        Some(plan)
    }

    pub(super) fn value(&self, value: Value) -> &Planned {
        &self.values[value.index()]
    }

    pub(super) fn value_mut(&mut self, value: Value) -> &mut Planned {
        &mut self.values[value.index()]
    }

    pub(super) fn number(&self, block: Block) -> usize {
        self.numbers[block.index()] as usize
    }

    pub(super) fn is_reached(&self, block: Block) -> bool {
        self.numbers[block.index()] != UNREACHED
    }

    pub(super) fn is_left_out(&self, inst: Inst) -> bool {
        self.left_out[inst.index()]
    }

    /// The value that stands for one.
    pub(super) fn same(&self, function: &Function, value: Value) -> Value {
        self.value(function.dfg.resolve_aliases(value)).same
    }

    /// Bytes from the frame pointer to one of the function's slots.
    pub(super) fn slot(&self, slot: StackSlot) -> i32 {
        self.slots[slot.index()]
    }

    fn lay_out_slots(&mut self, function: &Function) {
        for slot in function.sized_stack_slots.values() {
            self.frame = aligned(self.frame + slot.size as i32, 1 << slot.align_shift.max(3));
            self.slots.push(-self.frame);
        }
    }

    fn order(&mut self, function: &Function) {
        let Some(entry) = function.layout.entry_block() else { return };
        let mut order = Vec::with_capacity(function.dfg.num_blocks());
        // Each block with how many of its successors have been looked at.
        let mut path: Vec<(Block, usize)> = vec![(entry, 0)];
        self.numbers[entry.index()] = 0;
        while let Some((block, looked_at)) = path.last_mut() {
            let successor = successors(function, *block).get(*looked_at).copied();
            *looked_at += 1;
            match successor {
                Some(successor) if self.numbers[successor.index()] == UNREACHED => {
                    self.numbers[successor.index()] = 0;
                    path.push((successor, 0));
                }
                Some(_) => {}
                None => order.extend(path.pop().map(|(block, _)| block)),
            }
        }
        order.reverse();
        for (number, &block) in order.iter().enumerate() {
            self.numbers[block.index()] = number as u32;
            self.blocks.push(PlannedBlock { block, entries: 0, first_entry: u32::MAX, last_entry: 0 });
        }
        for (number, &block) in order.iter().enumerate() {
            for successor in successors(function, block) {
                let entered = &mut self.blocks[self.numbers[successor.index()] as usize];
                entered.entries += 1;
                entered.first_entry = entered.first_entry.min(number as u32);
                entered.last_entry = entered.last_entry.max(number as u32);
            }
        }
    }

    /// Finds which values are other names of others, and which are no computation. `None`: a type that baseline code
    /// has no registers for.
    fn name(&mut self, function: &Function) -> Option<()> {
        let dfg = &function.dfg;
        let entry = self.blocks.first()?.block;
        for number in 0..self.blocks.len() {
            for &param in dfg.block_params(self.blocks[number].block) {
                self.make(function, param, number)?;
            }
        }
        let context = *dfg.block_params(entry).first()?;
        self.value_mut(context).kind = Kind::Context;
        for number in 0..self.blocks.len() {
            let block = self.blocks[number].block;
            for inst in function.layout.block_insts(block) {
                for &result in dfg.inst_results(inst) {
                    self.make(function, result, number)?;
                }
                if let &[result] = dfg.inst_results(inst) {
                    self.name_result(function, inst, result);
                }
            }
            self.name_params(function, block);
        }
        Some(())
    }

    fn make(&mut self, function: &Function, value: Value, number: usize) -> Option<()> {
        let ty = function.dfg.value_type(value);
        let is_known = ty.is_int() && ty.bits() <= 64 || ty == types::F32 || ty == types::F64;
        let planned = self.value_mut(value);
        (planned.same, planned.first, planned.last) = (value, number as u32, number as u32);
        is_known.then_some(())
    }

    /// The parameters of a block with a single entry are what is passed there.
    fn name_params(&mut self, function: &Function, block: Block) {
        let dfg = &function.dfg;
        let Some(last) = function.layout.last_inst(block) else { return };
        for call in dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
            let to = call.block(&dfg.value_lists);
            if self.blocks[self.number(to)].entries != 1 {
                continue;
            }
            for (&param, argument) in dfg.block_params(to).iter().zip(call.args(&dfg.value_lists)) {
                if let BlockArg::Value(argument) = argument {
                    // What is made of parameters is looked at later: the block comes behind this one.
                    let named = *self.value(self.same(function, argument));
                    *self.value_mut(param) = named;
                }
            }
        }
    }

    fn name_result(&mut self, function: &Function, inst: Inst, result: Value) {
        let dfg = &function.dfg;
        let data = &dfg.insts[inst];
        let ty = dfg.value_type(result);
        let mut kind = Kind::Made;
        let mut is_short = ty.bits() <= 32 && ty.is_int();
        match *data {
            InstructionData::UnaryImm { imm, .. } => {
                let number = lower_bits(imm.bits(), ty);
                is_short = number as u64 <= u64::from(u32::MAX);
                kind = Kind::Number(number);
            }
            InstructionData::Unary { opcode: Opcode::Ireduce | Opcode::Uextend, arg }
                if let Kind::Number(number) = self.value(self.same(function, arg)).kind =>
            {
                kind = Kind::Number(lower_bits(number, ty));
                is_short = true;
            }
            InstructionData::UnaryIeee32 { imm, .. } => kind = Kind::Number(i64::from(imm.bits())),
            InstructionData::UnaryIeee64 { imm, .. } => kind = Kind::Number(imm.bits() as i64),
            InstructionData::StackAddr { stack_slot, offset, .. } => {
                kind = Kind::Stack(self.slot(stack_slot) + i32::from(offset));
            }
            InstructionData::Unary { opcode: Opcode::Ireduce, arg } => return self.rename(function, inst, result, arg),
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => {
                let source = self.value(self.same(function, arg));
                // Of a narrower type, only what a comparison has made is known to be zero above it.
                let from = dfg.value_type(arg);
                if source.is_short && (from == types::I32 || self.is_boolean(function, arg)) {
                    return self.rename(function, inst, result, arg);
                }
                is_short = true;
            }
            InstructionData::Load { opcode, .. } => {
                is_short |= matches!(opcode, Opcode::Uload8 | Opcode::Uload16 | Opcode::Uload32);
            }
            // Results of calls have anything above their lower bits.
            _ if data.opcode().is_call() => is_short = false,
            _ => {}
        }
        if matches!(kind, Kind::Number(_) | Kind::Stack(_)) {
            self.left_out[inst.index()] = true;
        }
        let planned = self.value_mut(result);
        (planned.kind, planned.is_short) = (kind, is_short);
    }

    fn rename(&mut self, function: &Function, inst: Inst, result: Value, source: Value) {
        self.left_out[inst.index()] = true;
        *self.value_mut(result) = *self.value(self.same(function, source));
    }

    /// Whether a value of 8 bits is 0 or 1 in a whole register.
    pub(super) fn is_boolean(&self, function: &Function, value: Value) -> bool {
        let dfg = &function.dfg;
        let ValueDef::Result(inst, _) = dfg.value_def(self.same(function, value)) else { return false };
        match dfg.insts[inst] {
            InstructionData::IntCompare { .. } | InstructionData::FloatCompare { .. } => true,
            InstructionData::UnaryImm { .. } => dfg.value_type(value) == types::I8,
            InstructionData::Binary { opcode: Opcode::Band | Opcode::Bor | Opcode::Bxor, args } => {
                dfg.value_type(value) == types::I8 && args.iter().all(|&arg| self.is_boolean(function, arg))
            }
            _ => false,
        }
    }

    /// Counts uses, from the last to the first: what nothing uses needs none itself.
    fn count(&mut self, function: &Function) {
        let dfg = &function.dfg;
        for number in (0..self.blocks.len()).rev() {
            let block = self.blocks[number].block;
            let mut next = function.layout.last_inst(block);
            while let Some(inst) = next {
                next = function.layout.prev_inst(inst);
                if self.left_out[inst.index()] {
                    continue;
                }
                let data = &dfg.insts[inst];
                if is_removable(function, inst) && dfg.inst_results(inst).iter().all(|&it| self.value(it).uses == 0) {
                    self.left_out[inst.index()] = true;
                    continue;
                }
                for call in data.branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                    let entries = self.blocks[self.number(call.block(&dfg.value_lists))].entries;
                    for argument in call.args(&dfg.value_lists) {
                        if let (BlockArg::Value(value), true) = (argument, entries != 1) {
                            self.value_use(function, value, number);
                        }
                    }
                }
                let times = self.defer(function, inst, data);
                for (position, &arg) in dfg.inst_args(inst).iter().enumerate() {
                    self.value_use(function, arg, number);
                    let (is_address, is_condition) = self.place_of(function, inst, data, position);
                    let used = self.same(function, arg);
                    let planned = self.value_mut(used);
                    planned.uses += times - 1;
                    planned.addresses += times * u32::from(is_address);
                    planned.conditions += u32::from(is_condition);
                }
            }
        }
    }

    fn value_use(&mut self, function: &Function, value: Value, number: usize) {
        let same = self.same(function, value);
        let planned = self.value_mut(same);
        planned.uses += 1;
        planned.is_global |= planned.first != number as u32;
        planned.last = planned.last.max(number as u32);
    }

    /// Leaves an instruction to those that use what it computes, where these can do it. Gives back how often it is
    /// done then.
    fn defer(&mut self, function: &Function, inst: Inst, data: &InstructionData) -> u32 {
        let &[result] = function.dfg.inst_results(inst) else { return 1 };
        let planned = self.value(result);
        let (uses, is_local) = (planned.uses, !planned.is_global);
        let kind = match *data {
            InstructionData::Binary { opcode: Opcode::Iadd, .. }
                if function.dfg.value_type(result) == types::I64 && planned.addresses == uses =>
            {
                Kind::Address
            }
            InstructionData::IntCompare { .. } | InstructionData::FloatCompare { .. }
                if uses == 1 && planned.conditions == 1 =>
            {
                Kind::Condition
            }
            _ => return 1,
        };
        if !is_local {
            return 1;
        }
        self.left_out[inst.index()] = true;
        self.value_mut(result).kind = kind;
        uses
    }

    /// Whether an operand is an address, and whether it is a condition.
    fn place_of(&self, function: &Function, inst: Inst, data: &InstructionData, position: usize) -> (bool, bool) {
        match *data {
            InstructionData::Load { .. } => (true, false),
            InstructionData::Store { .. } => (position == 1, false),
            InstructionData::Brif { .. } | InstructionData::CondTrap { .. } => (false, true),
            InstructionData::Ternary { opcode: Opcode::Select, args } => {
                let condition = self.same(function, args[0]);
                let ValueDef::Result(made, _) = function.dfg.value_def(condition) else { return (false, false) };
                let is_integer = matches!(function.dfg.insts[made], InstructionData::IntCompare { .. });
                (false, position == 0 && is_integer)
            }
            // Part of an address, with a number beside it.
            InstructionData::Binary { opcode: Opcode::Iadd, args } => {
                let result = self.value(function.dfg.first_result(inst));
                let distance = self.value(self.same(function, args[1])).kind;
                (result.kind == Kind::Address && position == 0 && is_distance(distance), false)
            }
            // The inverse of a condition.
            InstructionData::IntCompare { cond: IntCC::Equal | IntCC::NotEqual, args, .. } => {
                let result = self.value(function.dfg.first_result(inst));
                let other = self.value(self.same(function, args[1])).kind;
                (false, result.kind == Kind::Condition && position == 0 && other == Kind::Number(0))
            }
            _ => (false, false),
        }
    }

    /// Gives each value that several blocks use a place in the frame, which it shares with others that are not kept at
    /// the same time.
    fn give_homes(&mut self, function: &Function) {
        let dfg = &function.dfg;
        let mut kept: Vec<Vec<Value>> = vec![Vec::new(); self.blocks.len()];
        let back_edges = self.back_edges(function);
        for number in 0..self.blocks.len() {
            let PlannedBlock { block, entries, first_entry, last_entry } = self.blocks[number];
            for &param in dfg.block_params(block) {
                // What is passed is written where the edges begin.
                if entries > 0 && self.value(param).same == param && self.value(param).uses > 0 {
                    let planned = self.value_mut(param);
                    planned.is_global = true;
                    (planned.first, planned.last) = (planned.first.min(first_entry), planned.last.max(last_entry));
                }
            }
            let results = function.layout.block_insts(block).flat_map(|inst| dfg.inst_results(inst));
            for &value in dfg.block_params(block).iter().chain(results) {
                let planned = self.value_mut(value);
                if planned.same != value || !planned.is_global || planned.kind != Kind::Made {
                    continue;
                }
                // What is kept where a loop begins is kept until it ends.
                let mut last = planned.last;
                loop {
                    let ends = back_edges.iter().filter(|(header, _)| planned.first < *header && *header <= last);
                    match ends.map(|&(_, end)| end).max() {
                        Some(end) if end > last => last = end,
                        _ => break,
                    }
                }
                planned.last = last;
                kept[planned.first as usize].push(value);
            }
        }
        let mut free: Vec<i32> = Vec::new();
        let mut freed: Vec<Vec<i32>> = vec![Vec::new(); self.blocks.len() + 1];
        for (number, values) in kept.into_iter().enumerate() {
            free.append(&mut freed[number]);
            for value in values {
                let home = free.pop().unwrap_or_else(|| {
                    self.frame += 8;
                    -self.frame
                });
                self.value_mut(value).home = home;
                freed[self.value(value).last as usize + 1].push(home);
            }
        }
    }

    /// Edges that lead back: the number of the block that they lead to, and of the one that they come from.
    fn back_edges(&self, function: &Function) -> Vec<(u32, u32)> {
        let mut edges = Vec::new();
        for (from, planned) in self.blocks.iter().enumerate() {
            let to = successors(function, planned.block).into_iter().map(|block| self.numbers[block.index()]);
            edges.extend(to.filter(|&to| to <= from as u32).map(|to| (to, from as u32)));
        }
        edges
    }
}

/// The next multiple of `alignment`, a power of two.
pub(super) fn aligned(bytes: i32, alignment: i32) -> i32 {
    (bytes + alignment - 1) & -alignment
}

/// Whether a number can be part of an address.
pub(super) fn is_distance(kind: Kind) -> bool {
    matches!(kind, Kind::Number(number) if i32::try_from(number).is_ok_and(|it| it.unsigned_abs() < 1 << 30))
}

/// The bits of a number that a type has.
fn lower_bits(number: i64, ty: Type) -> i64 {
    if ty == types::I64 { number } else { number & ((1 << ty.bits()) - 1) }
}

fn is_removable(function: &Function, inst: Inst) -> bool {
    let data = &function.dfg.insts[inst];
    let opcode = data.opcode();
    let may_trap = match data.memflags_data(&function.dfg) {
        Some(flags) => flags.trap_code().is_some(),
        None => opcode.can_trap(),
    };
    !(may_trap || opcode.other_side_effects() || opcode.can_store() || opcode.is_call() || opcode.is_terminator())
}

fn successors(function: &Function, block: Block) -> SmallVec<[Block; 4]> {
    let dfg = &function.dfg;
    let Some(last) = function.layout.last_inst(block) else { return SmallVec::new() };
    let calls = dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
    calls.iter().map(|call| call.block(&dfg.value_lists)).collect()
}
