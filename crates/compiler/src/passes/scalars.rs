//! Scalar replacement: a struct to which no reference leaves the function is not made. Each of its fields becomes a
//! value, with parameters of blocks where ways meet on which it was set to different ones. Such objects are iterators,
//! closures, pairs and boxes whose users have been inlined.
//!
//! A reference leaves by being passed, stored, returned, thrown or given to a block's parameter; also on cold paths.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::block_params::block_params;
use super::dead::dead;
use super::flow::Flow;
use super::support::{become_constant, ref_type, replace, terminator};
use crate::mir::{BinaryOp, Block, Cfg, Constant, Extension, Function, Inst, Op, UnaryOp, Value};
use crate::module::{HeapType, ModuleInfo, StorageType, TypeIndex, ValueType};

/// Structs with more fields stay as they are.
const MAX_FIELDS: usize = 16;
/// So do those that would take more parameters of blocks.
const MAX_PARAMS: usize = 256;
/// All structs of a function together are looked for in so many times as many blocks as it has, and a few more.
const VISITS: usize = 16;
const MIN_VISITS: usize = 4096;
/// A struct that only another one held is found in the next of so many rounds.
const ROUNDS: usize = 4;

/// Replaces structs by the values of their fields.
pub(super) fn scalars(function: &mut Function, info: &ModuleInfo, flow: &mut Flow) {
    for _ in 0..ROUNDS {
        let cfg = flow.cfg(function);
        let objects = private_objects(function, info, &cfg);
        if objects.is_empty() {
            return;
        }
        let visits = MIN_VISITS + VISITS * function.blocks.len();
        let mut pass = Scalars { function, info, cfg: &cfg, instead: FxHashMap::default(), visits };
        objects.iter().for_each(|object| pass.replace(object));
        let instead = pass.instead;
        for block in &mut function.blocks {
            if block.insts.iter().any(|inst| instead.contains_key(inst)) {
                let insts = std::mem::take(&mut block.insts);
                for inst in insts {
                    match instead.get(&inst) {
                        Some(others) => block.insts.extend_from_slice(others),
                        None => block.insts.push(inst),
                    }
                }
            }
        }
        function.resolve_aliases();
        // Parameters that nothing needs would let references go.
        dead(function, flow);
        block_params(function, flow);
    }
}

/// A struct made in the function.
struct Object {
    inst: Inst,
    block: Block,
    ty: TypeIndex,
    /// Instructions that use it, in an order in which each comes behind all that dominate it.
    uses: Vec<(Block, Inst)>,
    escapes: bool,
}

/// The structs to which no reference leaves the function.
fn private_objects(function: &Function, info: &ModuleInfo, cfg: &Cfg) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    // By value, one more than the number of the object that it refers to.
    let mut referred: Vec<u32> = Vec::new();
    for &block in &cfg.order {
        for &inst in &function.blocks[block.index()].insts {
            let data = &function.insts[inst.index()];
            if let Op::StructNew(ty) | Op::StructNewDefault(ty) = data.op
                && info.struct_fields(ty).len() <= MAX_FIELDS
            {
                if referred.is_empty() {
                    referred = vec![0; function.values.len()];
                }
                objects.push(Object { inst, block, ty, uses: Vec::new(), escapes: false });
                referred[data.results[0].index()] = objects.len() as u32;
            }
            if objects.is_empty() {
                continue;
            }
            let number = |value: Value| (referred[value.index()] as usize).checked_sub(1);
            let first = data.args.first().and_then(|&value| number(value));
            // An operand that is used without letting the reference go.
            let used = match data.op {
                Op::StructGet(..) | Op::StructSet(..) | Op::RefIsNull | Op::RefTest(_) => 1,
                Op::RefEq => 2,
                Op::Refine(_) | Op::NullCheck | Op::RefCast(_) => {
                    usize::from(first.is_some_and(|first| is_copy(function, info, inst, objects[first].ty)))
                }
                _ => 0,
            };
            if used == 1 && data.op.properties().copies {
                referred[data.results[0].index()] = referred[data.args[0].index()];
            }
            let number = |value: Value| (referred[value.index()] as usize).checked_sub(1);
            for (position, &value) in data.args.iter().enumerate() {
                let Some(number) = number(value) else { continue };
                match position < used {
                    true if objects[number].uses.last() != Some(&(block, inst)) => {
                        objects[number].uses.push((block, inst));
                    }
                    true => {}
                    false => objects[number].escapes = true,
                }
            }
            data.op.for_each_use(|value| {
                if let Some(number) = number(value) {
                    objects[number].escapes = true;
                }
            });
        }
        if !objects.is_empty() {
            terminator(function, block).for_each_use(|value| {
                if let Some(number) = (referred[value.index()] as usize).checked_sub(1) {
                    objects[number].escapes = true;
                }
            });
        }
    }
    objects.retain(|object| !object.escapes);
    objects
}

/// Whether an operation that copies references gives the object itself, if it is given one of this type.
fn is_copy(function: &Function, info: &ModuleInfo, inst: Inst, ty: TypeIndex) -> bool {
    let result = ref_type(function, function.insts[inst.index()].results[0]);
    info.is_heap_subtype(HeapType::Concrete(ty), result.heap)
}

struct Scalars<'a> {
    function: &'a mut Function,
    info: &'a ModuleInfo,
    cfg: &'a Cfg,
    /// What comes in place of instructions.
    instead: FxHashMap<Inst, SmallVec<[Inst; 2]>>,
    /// How many more blocks may be visited.
    visits: usize,
}

/// What an object's fields hold at some place.
type Fields = SmallVec<[Value; 4]>;

impl Scalars<'_> {
    /// Replaces an object.
    fn replace(&mut self, object: &Object) {
        let Some(live) = self.live(object) else { return };
        let joins = live.iter().filter(|block| self.cfg.predecessors(**block).len() != 1).count();
        let fields = self.info.struct_fields(object.ty).len();
        if joins * fields > MAX_PARAMS {
            return;
        }
        let mut uses: FxHashMap<Block, Vec<Inst>> = FxHashMap::default();
        for &(block, inst) in &object.uses {
            uses.entry(block).or_default().push(inst);
        }
        let mut ends: FxHashMap<Block, Fields> = FxHashMap::default();
        let initial = self.initial(object);
        for block in std::iter::once(object.block).chain(live.iter().copied()) {
            let mut fields = match self.cfg.predecessors(block) {
                _ if block == object.block => initial.clone(),
                &[(before, _)] => ends[&before].clone(),
                _ => self.params(object.ty, block),
            };
            for &inst in uses.get(&block).into_iter().flatten() {
                self.use_of(object, inst, &mut fields);
            }
            ends.insert(block, fields);
        }
        for &block in &live {
            let predecessors = self.cfg.predecessors(block);
            if predecessors.len() == 1 {
                continue;
            }
            for edges in predecessors.chunk_by(|a, b| a.0 == b.0) {
                let before = edges[0].0;
                let terminator = self.function.blocks[before.index()].terminator.as_mut();
                terminator.expect("edges come from terminators").for_each_edge_mut(|edge| {
                    if edge.block == block {
                        edge.args.extend_from_slice(&ends[&before]);
                    }
                });
            }
        }
    }

    /// The blocks at whose beginning the object may still be used, in an order in which each comes behind all that
    /// dominate it. `None` if that are too many.
    fn live(&mut self, object: &Object) -> Option<Vec<Block>> {
        let mut live: FxHashSet<Block> = FxHashSet::default();
        let mut work: Vec<Block> = object.uses.iter().map(|&(block, _)| block).collect();
        while let Some(block) = work.pop() {
            if block != object.block && live.insert(block) {
                self.visits = self.visits.checked_sub(1)?;
                work.extend(self.cfg.predecessors(block).iter().map(|&(before, _)| before));
            }
        }
        let mut live: Vec<Block> = live.into_iter().collect();
        live.sort_unstable_by_key(|block| self.cfg.position[block.index()]);
        Some(live)
    }

    /// What the fields hold at first.
    fn initial(&mut self, object: &Object) -> Fields {
        let data = &self.function.insts[object.inst.index()];
        let source = data.source;
        if matches!(data.op, Op::StructNew(_)) {
            let fields = data.args.iter().map(|&arg| self.function.resolve(arg)).collect();
            self.instead.insert(object.inst, smallvec![]);
            return fields;
        }
        let mut constants: SmallVec<[Inst; 2]> = smallvec![];
        let mut fields = Fields::new();
        for field in self.info.struct_fields(object.ty) {
            let ty = value_type(field.storage);
            let zero = self.function.add_inst(Op::Const(Constant::default_of(ty)), &[], &[ty], source);
            constants.push(zero);
            fields.push(self.function.insts[zero.index()].results[0]);
        }
        self.instead.insert(object.inst, constants);
        fields
    }

    fn params(&mut self, ty: TypeIndex, block: Block) -> Fields {
        let fields = self.info.struct_fields(ty).iter();
        fields.map(|field| self.function.add_param(block, value_type(field.storage))).collect()
    }

    /// Has an instruction use the fields in place of the object.
    fn use_of(&mut self, object: &Object, inst: Inst, fields: &mut Fields) {
        let data = &self.function.insts[inst.index()];
        match data.op {
            Op::StructGet(_, number, extension, _) => {
                let (value, source) = (self.function.resolve(fields[number as usize]), data.source);
                let storage = self.info.struct_fields(object.ty)[number as usize].storage;
                let (value, mut instead) = self.unpacked(value, storage, extension, source);
                if !replace(self.function, self.info, inst, value) {
                    instead.push(inst);
                }
                self.instead.insert(inst, instead);
            }
            Op::StructSet(_, number, _) => {
                fields[number as usize] = self.function.resolve(data.args[1]);
                self.instead.insert(inst, smallvec![]);
            }
            Op::RefIsNull => become_constant(self.function, inst, Constant::I32(0)),
            Op::RefTest(ty) => {
                let holds = self.info.is_heap_subtype(HeapType::Concrete(object.ty), ty.heap);
                become_constant(self.function, inst, Constant::I32(i32::from(holds)));
            }
            Op::RefEq => {
                let [left, right] = [0, 1].map(|operand| super::support::root(self.function, data.args[operand]));
                become_constant(self.function, inst, Constant::I32(i32::from(left == right)));
            }
            // A comparison of two such objects.
            Op::Const(_) => {}
            // A copy, of which all uses are the object's.
            _ => _ = self.instead.insert(inst, smallvec![]),
        }
    }

    /// What a field of this type gives that was set to `value`, and the instructions that compute it.
    fn unpacked(
        &mut self,
        value: Value,
        storage: StorageType,
        extension: Extension,
        source: u32,
    ) -> (Value, SmallVec<[Inst; 2]>) {
        let function = &mut *self.function;
        let mut insts: SmallVec<[Inst; 2]> = smallvec![];
        let mut compute = |op: Op, args: &[Value]| {
            let inst = function.add_inst(op, args, &[ValueType::I32], source);
            insts.push(inst);
            function.insts[inst.index()].results[0]
        };
        let (signed, mask) = match storage {
            StorageType::Value(_) => return (value, insts),
            StorageType::I8 => (UnaryOp::I32Extend8S, 0xff),
            StorageType::I16 => (UnaryOp::I32Extend16S, 0xffff),
        };
        let value = match extension {
            Extension::Signed => compute(Op::Unary(signed), &[value]),
            Extension::Unsigned | Extension::None => {
                let mask = compute(Op::Const(Constant::I32(mask)), &[]);
                compute(Op::Binary(BinaryOp::I32And), &[value, mask])
            }
        };
        (value, insts)
    }
}

/// The type of the values of a field.
fn value_type(storage: StorageType) -> ValueType {
    match storage {
        StorageType::I8 | StorageType::I16 => ValueType::I32,
        StorageType::Value(ty) => ty,
    }
}
