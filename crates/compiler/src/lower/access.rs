//! Memory accesses: alias regions, flags, and the words of the instance context.

use cranelift_codegen::ir::{self, AliasRegion, AliasRegionData, InstBuilder, MemFlagsData, types};
use legato_heap::layout::StorageKind;

use super::Lowering;
use super::env::{POINTER, element_type};
use super::made::{Bases, Made};
use crate::abi::ContextHead;
use crate::artifact::TrapCode;
use crate::mir::Extension;
use crate::module::{TagIndex, TypeIndex};

/// Disjoint parts of memory: an access of one never touches another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    /// Instance contexts, but for globals and heads of memories and tables.
    Context,
    /// Globals.
    Globals,
    /// [`MemoryHead`](crate::abi::MemoryHead)s.
    MemoryHeads,
    /// [`TableHead`](crate::abi::TableHead)s.
    TableHeads,
    /// Linear memories.
    Memory,
    /// Elements of tables.
    Tables,
    /// Function reference records.
    FuncRefs,
    /// The address of their table.
    FuncTable,
    /// The allocation cursors.
    Runs,
    /// The poll word.
    Poll,
    /// The type table.
    Types,
    /// Handle words.
    Handles,
    /// Object headers.
    Headers,
    /// Array lengths.
    Lengths,
    /// The card table.
    Cards,
    /// The ages of blocks.
    Ages,
    /// The store buffer and its words.
    StoreBuffer,
    /// What stores have to do before.
    BarrierState,
    /// The pointers of spines.
    LeafPointers,
    /// The counters of accesses.
    Counters,
    /// Stack slots.
    Stack,
    /// The cells of cold calls.
    ColdCells,
    /// The count of iterations.
    Loops,
    /// Struct fields of one kind.
    Fields(StorageKind),
    /// Array elements of one kind.
    Elements(StorageKind),
}

impl Region {
    fn number(self) -> u32 {
        match self {
            Region::Context => 0,
            Region::Globals => 1,
            Region::MemoryHeads => 2,
            Region::TableHeads => 3,
            Region::Memory => 4,
            Region::Tables => 5,
            Region::FuncRefs => 6,
            Region::Runs => 7,
            Region::Poll => 8,
            Region::Types => 9,
            Region::Handles => 10,
            Region::Headers => 11,
            Region::Lengths => 12,
            Region::Stack => 13,
            Region::Cards => 14,
            Region::Ages => 15,
            Region::StoreBuffer => 16,
            Region::LeafPointers => 17,
            Region::Counters => 18,
            Region::ColdCells => 19,
            Region::BarrierState => 20,
            Region::Loops => 21,
            Region::FuncTable => 22,
            Region::Fields(kind) => 23 + kind as u32,
            Region::Elements(kind) => 32 + kind as u32,
        }
    }

    /// The region of what stores have to do, by its number.
    pub(super) fn is_barrier_state(number: u32) -> bool {
        number == Region::BarrierState.number()
    }

    /// The region of the ages of blocks, by its number.
    pub(super) fn is_ages(number: u32) -> bool {
        number == Region::Ages.number()
    }

    /// The regions that hold fields and elements, by their numbers.
    pub(super) fn is_in_objects(number: u32) -> bool {
        number >= Region::Fields(StorageKind::I8).number()
    }

    /// The regions that hold references which the barrier of stores sees, by their numbers.
    pub(super) fn is_seen_by_barrier(number: u32) -> bool {
        [Region::Globals, Region::Tables, Region::Fields(StorageKind::Ref), Region::Elements(StorageKind::Ref)]
            .into_iter()
            .any(|region| region.number() == number)
    }
}

/// The engine's id of a type, as code has it.
#[derive(Clone, Copy)]
pub(super) enum TypeIdOperand {
    /// A constant, in code for one engine.
    Known(u32),
    /// The word of the instance context at this offset. It is loaded where it is needed: allocations need it in two
    /// forms, in blocks of which one is cold.
    Word(u32),
}

/// Cranelift's form of a trap code.
pub(crate) fn trap(code: TrapCode) -> ir::TrapCode {
    ir::TrapCode::unwrap_user(code as u8)
}

impl Lowering<'_, '_> {
    /// The flags of an access to `region` that cannot fault.
    pub(super) fn flags(&mut self, region: Region) -> MemFlagsData {
        let region = self.region(region);
        MemFlagsData::new().with_notrap().with_alias_region(Some(region))
    }

    /// The flags of an access to `region` that faults with `trap_code`, where one is given.
    pub(super) fn flags_trapping(&mut self, region: Region, trap_code: Option<TrapCode>) -> MemFlagsData {
        self.flags(region).with_trap_code(trap_code.map(trap))
    }

    /// The flags of a load of a word that does not change while the function runs.
    pub(super) fn constant_flags(&mut self, region: Region) -> MemFlagsData {
        self.flags(region).with_aligned().with_readonly().with_can_move()
    }

    fn region(&mut self, region: Region) -> AliasRegion {
        let number = region.number();
        if let Some(&found) = self.regions.get(&number) {
            return found;
        }
        let data = AliasRegionData { user_id: number, description: format!("{region:?}").into() };
        let created = self.b.func.dfg.alias_regions.insert(data);
        self.regions.insert(number, created);
        created
    }

    /// A word of the instance context that does not change while the function runs.
    pub(super) fn context_constant(&mut self, ty: ir::Type, offset: u32) -> ir::Value {
        let flags = self.constant_flags(Region::Context);
        self.b.ins().load(ty, flags, self.context, offset as i32)
    }

    /// A base address, by its number.
    pub(super) fn base(&mut self, number: usize, make: impl FnOnce(&mut Self) -> ir::Value) -> ir::Value {
        if let Some(value) = self.bases[number] {
            return value;
        }
        let value = make(self);
        if !self.cold {
            self.bases[number] = Some(value);
        }
        value
    }

    /// Behind code that is not always reached: the base addresses that were known before it, and those that have been
    /// loaded since in the block it began in.
    pub(super) fn return_to_bases(&mut self, before: Bases, began: Option<ir::Block>) {
        let function = &self.b.func;
        let block_of = |value| function.layout.inst_block(function.dfg.value_def(value).unwrap_inst());
        for (known, before) in self.bases.iter_mut().zip(before) {
            if before.is_some() || known.is_some_and(|value| block_of(value) != began) {
                *known = before;
            }
        }
    }

    /// What is made from a value, unless it has been made in this block.
    pub(super) fn made(&mut self, made: Made, from: ir::Value, make: impl FnOnce(&mut Self) -> ir::Value) -> ir::Value {
        let block = self.b.current_block();
        if let Some(&(made_in, value)) = self.made.get(&(made, from))
            && Some(made_in) == block
        {
            return value;
        }
        let value = make(self);
        self.note_made(made, from, value);
        value
    }

    /// Notes what has been made from a value, or is known to be the same, in this block.
    pub(super) fn note_made(&mut self, made: Made, from: ir::Value, value: ir::Value) {
        let block = self.b.current_block();
        self.made.extend(block.map(|block| ((made, from), (block, value))));
    }

    /// The cage's base address.
    pub(super) fn cage(&mut self) -> ir::Value {
        self.base(0, |l| l.context_constant(POINTER, std::mem::offset_of!(ContextHead, cage) as u32))
    }

    /// The address of the mutator context.
    pub(super) fn mutator(&mut self) -> ir::Value {
        self.base(1, |l| l.context_constant(POINTER, std::mem::offset_of!(ContextHead, mutator) as u32))
    }

    /// The type table's base address.
    pub(super) fn types(&mut self) -> ir::Value {
        self.base(2, |l| l.context_constant(POINTER, std::mem::offset_of!(ContextHead, types) as u32))
    }

    /// Where the engine's id of a type of the module is to be found.
    pub(super) fn type_id_operand(&self, ty: TypeIndex) -> TypeIdOperand {
        match self.env.type_ids {
            Some(ids) => TypeIdOperand::Known(ids[ty.index()]),
            None => TypeIdOperand::Word(self.env.layout.type_ids + 4 * ty.0),
        }
    }

    /// The engine's id of a type of the module, 32 bits.
    pub(super) fn type_id(&mut self, ty: TypeIndex) -> ir::Value {
        let operand = self.type_id_operand(ty);
        self.type_id_value(operand)
    }

    /// A type id, 32 bits.
    pub(super) fn type_id_value(&mut self, operand: TypeIdOperand) -> ir::Value {
        match operand {
            TypeIdOperand::Known(id) => self.b.ins().iconst(types::I32, i64::from(id)),
            TypeIdOperand::Word(offset) => self.context_constant(types::I32, offset),
        }
    }

    /// A type id, zero-extended to 64 bits.
    pub(super) fn wide_type_id_value(&mut self, operand: TypeIdOperand) -> ir::Value {
        match operand {
            TypeIdOperand::Known(id) => self.b.ins().iconst(types::I64, i64::from(id)),
            TypeIdOperand::Word(offset) => {
                let flags = self.constant_flags(Region::Context);
                self.b.ins().uload32(flags, self.context, offset as i32)
            }
        }
    }

    /// The store's id of a tag, 32 bits.
    pub(super) fn tag_id(&mut self, tag: TagIndex) -> ir::Value {
        self.context_constant(types::I32, self.env.layout.tags + 4 * tag.0)
    }

    /// Where the engine's type id of a tag's exceptions is to be found.
    pub(super) fn exception_type_id_operand(&self, tag: TagIndex) -> TypeIdOperand {
        TypeIdOperand::Word(self.env.layout.exception_types + 4 * tag.0)
    }

    /// The address of cage offset `offset` (32 bits).
    pub(super) fn cage_address(&mut self, offset: ir::Value) -> ir::Value {
        let cage = self.cage();
        let wide = self.widen(offset);
        self.made(Made::Address, wide, |l| l.b.ins().iadd(cage, wide))
    }

    /// The address of a function reference's record, until the next call. Null has one too.
    pub(super) fn func_ref_record(&mut self, reference: ir::Value) -> ir::Value {
        // Not a constant: the table moves when it grows.
        let flags = self.flags(Region::FuncTable).with_aligned();
        let offset = std::mem::offset_of!(ContextHead, func_table) as i32;
        let table = self.b.ins().load(POINTER, flags, self.context, offset);
        let wide = self.widen(reference);
        self.b.ins().iadd(table, wide)
    }

    /// A field of a function reference's record at `record`.
    pub(super) fn func_ref_field(&mut self, ty: ir::Type, record: ir::Value, offset: usize) -> ir::Value {
        let flags = self.flags(Region::FuncRefs).with_aligned();
        self.b.ins().load(ty, flags, record, offset as i32)
    }

    /// Loads a reference, or the offset of an object.
    pub(super) fn load_reference(&mut self, flags: MemFlagsData, address: ir::Value, offset: i32) -> ir::Value {
        let wide = self.b.ins().uload32(flags.with_aligned(), address, offset);
        self.narrow(wide)
    }

    /// Loads a field or element of `kind`.
    pub(super) fn load_storage(
        &mut self,
        kind: StorageKind,
        extension: Extension,
        flags: MemFlagsData,
        address: ir::Value,
        offset: i32,
    ) -> ir::Value {
        let signed = extension == Extension::Signed;
        if is_reference(kind) {
            return self.load_reference(flags, address, offset);
        }
        let ins = self.b.ins();
        match kind {
            StorageKind::I8 if signed => ins.sload8(types::I32, flags, address, offset),
            StorageKind::I8 => ins.uload8(types::I32, flags, address, offset),
            StorageKind::I16 if signed => ins.sload16(types::I32, flags, address, offset),
            StorageKind::I16 => ins.uload16(types::I32, flags, address, offset),
            StorageKind::I32 => ins.load(types::I32, flags.with_aligned(), address, offset),
            StorageKind::Ref | StorageKind::Immortal => unreachable!("loaded above"),
            StorageKind::I64 => ins.load(types::I64, flags.with_aligned(), address, offset),
            StorageKind::F32 => ins.load(types::F32, flags.with_aligned(), address, offset),
            StorageKind::F64 => ins.load(types::F64, flags.with_aligned(), address, offset),
            StorageKind::V128 => ins.load(types::I8X16, flags, address, offset),
        }
    }

    /// A parameter of `block` by which what has been loaded from a field or element of `kind` comes.
    pub(super) fn storage_param(&mut self, block: ir::Block, kind: StorageKind) -> ir::Value {
        self.b.append_block_param(block, if is_reference(kind) { POINTER } else { element_type(kind) })
    }

    /// What has been loaded from a field or element of `kind`, as it is passed to such a parameter.
    pub(super) fn storage_arg(&mut self, kind: StorageKind, loaded: ir::Value) -> ir::BlockArg {
        if is_reference(kind) { self.widen(loaded) } else { loaded }.into()
    }

    /// What has been loaded from a field or element of `kind`, in the block to which it has been passed.
    pub(super) fn storage_passed(&mut self, kind: StorageKind, param: ir::Value) -> ir::Value {
        if is_reference(kind) { self.narrow(param) } else { param }
    }

    /// An index or length as 64 bits: 32-bit ones are zero-extended.
    pub(super) fn index64(&mut self, value: ir::Value) -> ir::Value {
        if self.b.func.dfg.value_type(value) == types::I32 { self.b.ins().uextend(types::I64, value) } else { value }
    }
}

/// Whether what is stored is a reference: to an object, or to a function.
fn is_reference(kind: StorageKind) -> bool {
    matches!(kind, StorageKind::Ref | StorageKind::Immortal)
}
