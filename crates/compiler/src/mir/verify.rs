//! Checks a function's invariants: for tests and for `CompileOptions::verify`.

use super::cfg::Cfg;
use super::dominators::Dominators;
use super::extension::Extension;
use super::function::{Block, Function, Inst, Terminator, Value, ValueDef};
use super::op::{Callee, HandlerEdge, Op};
use crate::module::{CompositeType, HeapType, ModuleInfo, RefType, StorageType, TypeIndex, ValueType};

/// Checks that definitions dominate uses, that operands, results and edge arguments have the right types, that every
/// reachable block is terminated, and that loops are entered by their headers alone. The error says what is wrong and
/// where.
pub fn verify(function: &Function, info: &ModuleInfo) -> Result<(), String> {
    let cfg = Cfg::new(function);
    let dominators = Dominators::new(function, &cfg);
    let mut verifier = Verifier { function, info, dominators: &dominators, place: vec![None; function.insts.len()] };
    verifier.run(&cfg)
}

struct Verifier<'a> {
    function: &'a Function,
    info: &'a ModuleInfo,
    dominators: &'a Dominators,
    /// Block and position of each instruction.
    place: Vec<Option<(Block, usize)>>,
}

type Checked = Result<(), String>;

fn reference(nullable: bool, heap: HeapType) -> ValueType {
    ValueType::Ref(RefType { nullable, heap })
}

impl Verifier<'_> {
    fn run(&mut self, cfg: &Cfg) -> Checked {
        for &block in &cfg.order {
            for (position, &inst) in self.function.blocks[block.index()].insts.iter().enumerate() {
                if self.place[inst.index()].replace((block, position)).is_some() {
                    return Err(format!("instruction {} is in two places", inst.0));
                }
            }
        }
        let entry = &self.function.blocks[self.function.entry.index()];
        if !cfg.predecessors(self.function.entry).is_empty() {
            return Err("the entry has predecessors".to_string());
        }
        let params: Vec<ValueType> = entry.params.iter().map(|&param| self.function.value_type(param)).collect();
        if self.function.osr.is_none() && params != self.signature_of_function().0 {
            return Err("the entry's parameters are not the function's".to_string());
        }
        for &block in &cfg.order {
            self.block(block).map_err(|error| format!("{block}: {error}"))?;
            // Passes take an edge backwards in reverse post-order for one to the header of a natural loop.
            for &(from, _) in cfg.predecessors(block) {
                if cfg.position[from.index()] >= cfg.position[block.index()] && !self.dominators.dominates(block, from)
                {
                    return Err(format!("{from} leads back to {block}, which control can go round"));
                }
            }
        }
        Ok(())
    }

    /// The parameters and results of the function.
    fn signature_of_function(&self) -> (&[ValueType], &[ValueType]) {
        let signature = self.info.func_type(self.function.ty);
        (&signature.params, &signature.results)
    }

    fn block(&self, block: Block) -> Checked {
        let data = &self.function.blocks[block.index()];
        for (number, &param) in data.params.iter().enumerate() {
            if self.function.values[param.index()].def != ValueDef::Param(block, number as u32) {
                return Err(format!("{param} is not parameter {number}"));
            }
        }
        for (position, &inst) in data.insts.iter().enumerate() {
            self.inst(block, position, inst)
                .map_err(|error| format!("{}: {error}", self.function.insts[inst.index()].op))?;
        }
        match &data.terminator {
            Some(terminator) => {
                self.terminator(block, data.insts.len(), terminator).map_err(|error| format!("{terminator}: {error}"))
            }
            None => Err("no terminator".to_string()),
        }
    }

    /// Checks that a value is defined before a position in a block.
    fn used(&self, value: Value, block: Block, position: usize) -> Checked {
        let (def_block, defined) = match self.function.values[value.index()].def {
            ValueDef::Alias(_) => return Err(format!("{value} is an alias")),
            ValueDef::Param(def_block, _) => (def_block, None),
            ValueDef::Result(inst, _) => match self.place[inst.index()] {
                Some((def_block, position)) => (def_block, Some(position)),
                None => return Err(format!("{value} comes from a removed instruction")),
            },
        };
        let before = match defined {
            Some(defined) if def_block == block => defined < position,
            _ => self.dominators.dominates(def_block, block),
        };
        if before { Ok(()) } else { Err(format!("{value} is used before its definition")) }
    }

    fn is(&self, value: Value, ty: ValueType) -> Checked {
        let actual = self.function.value_type(value);
        if self.info.is_subtype(actual, ty) { Ok(()) } else { Err(format!("{value} is {actual}, not {ty}")) }
    }

    fn list(&self, values: &[Value], types: &[ValueType]) -> Checked {
        if values.len() != types.len() {
            return Err(format!("{} values instead of {}", values.len(), types.len()));
        }
        values.iter().zip(types).try_for_each(|(&value, &ty)| self.is(value, ty))
    }

    fn inst(&self, block: Block, position: usize, inst: Inst) -> Checked {
        let data = &self.function.insts[inst.index()];
        for (number, &result) in data.results.iter().enumerate() {
            if self.function.values[result.index()].def != ValueDef::Result(inst, number as u32) {
                return Err(format!("{result} is not the result"));
            }
        }
        let mut uses = data.args.to_vec();
        data.op.for_each_use(|value| uses.push(value));
        uses.iter().try_for_each(|&value| self.used(value, block, position))?;
        let (args, results) = self.signature(&data.op, &data.args)?;
        self.list(&data.args, &args)?;
        if data.results.len() != results.len() {
            return Err(format!("{} results instead of {}", data.results.len(), results.len()));
        }
        for (&value, &ty) in data.results.iter().zip(&results) {
            let declared = self.function.value_type(value);
            // A pass may know a narrower type than the operation implies; and the operand of a check may have been
            // replaced by one of a narrower type, so that the operation implies more than its users need.
            if !self.info.is_subtype(declared, ty) && !self.info.is_subtype(ty, declared) {
                return Err(format!("{value} is {declared}, not {ty}"));
            }
        }
        Ok(())
    }

    fn callee(&self, callee: &Callee) -> Result<TypeIndex, String> {
        Ok(match callee {
            Callee::Direct(function) => self.info.type_of(*function),
            Callee::Indirect(table, ty, index) => {
                self.is(*index, self.table_address(table.index()))?;
                *ty
            }
            Callee::Reference(ty, value, _) => {
                self.is(*value, reference(true, HeapType::Concrete(*ty)))?;
                *ty
            }
            Callee::Osr(_) => return Err("optimised code of a loop is entered by a tail call".to_string()),
        })
    }

    fn table_address(&self, table: usize) -> ValueType {
        if self.info.tables[table].table64 { ValueType::I64 } else { ValueType::I32 }
    }

    fn address(&self, memory: usize) -> ValueType {
        if self.info.memories[memory].memory64 { ValueType::I64 } else { ValueType::I32 }
    }

    fn unpacked(&self, storage: StorageType, extension: Extension) -> Result<ValueType, String> {
        let packed = matches!(storage, StorageType::I8 | StorageType::I16);
        if packed == (extension == Extension::None) {
            Err("wrong extension".to_string())
        } else {
            Ok(storage.unpacked())
        }
    }

    fn top(&self, value: Value) -> Result<HeapType, String> {
        match self.function.value_type(value) {
            ValueType::Ref(ty) => Ok(self.info.top_type(ty.heap)),
            other => Err(format!("{value} is {other}, not a reference")),
        }
    }

    /// The operand and result types of an operation.
    fn signature(&self, op: &Op, args: &[Value]) -> Result<(Vec<ValueType>, Vec<ValueType>), String> {
        use ValueType::I32;
        let object = |ty: TypeIndex| reference(true, HeapType::Concrete(ty));
        let fresh = |ty: TypeIndex| reference(false, HeapType::Concrete(ty));
        let any_ref = |number: usize| -> Result<ValueType, String> {
            let value = *args.get(number).ok_or("too few operands")?;
            Ok(reference(true, self.top(value)?))
        };
        let array = reference(true, HeapType::Array);
        let min = |a: ValueType, b: ValueType| if a == I32 || b == I32 { I32 } else { ValueType::I64 };
        Ok(match op {
            Op::Const(constant) => (vec![], vec![constant.value_type()]),
            Op::Unary(op) => (vec![op.types().0], vec![op.types().1]),
            Op::Binary(op) => (vec![op.value_type(); 2], vec![op.value_type()]),
            Op::Compare(op) => (vec![op.operand_type(); 2], vec![I32]),
            Op::Vector(op) => (op.operand_types().to_vec(), vec![op.value_type()]),
            Op::Select => {
                let ty = match args.get(1).map(|&value| self.function.value_type(value)) {
                    Some(ValueType::Ref(_)) => any_ref(1)?,
                    Some(ty) => ty,
                    None => return Err("too few operands".to_string()),
                };
                (vec![I32, ty, ty], vec![ty])
            }
            Op::Load(memory, kind, _) => (vec![self.address(memory.index())], vec![kind.value_type()]),
            Op::Store(memory, kind, _) => (vec![self.address(memory.index()), kind.value_type()], vec![]),
            Op::MemorySize(memory) => (vec![], vec![self.address(memory.index())]),
            Op::MemoryGrow(memory) => (vec![self.address(memory.index())], vec![self.address(memory.index())]),
            Op::MemoryCopy(to, from) => {
                let (to, from) = (self.address(to.index()), self.address(from.index()));
                (vec![to, from, min(to, from)], vec![])
            }
            Op::MemoryFill(memory) => {
                let address = self.address(memory.index());
                (vec![address, I32, address], vec![])
            }
            Op::MemoryInit(memory, _) => (vec![self.address(memory.index()), I32, I32], vec![]),
            Op::DataDrop(_) | Op::ElemDrop(_) | Op::Poll => (vec![], vec![]),
            Op::OsrEntry(_) => (vec![], vec![ValueType::I64]),
            Op::NoteRun(_) => (vec![], vec![]),
            Op::NoteTarget(_) => (vec![reference(true, HeapType::Func)], vec![]),
            Op::TableGet(table) => {
                let element = self.info.tables[table.index()].element;
                (vec![self.table_address(table.index())], vec![ValueType::Ref(element)])
            }
            Op::TableSet(table) => {
                let element = self.info.tables[table.index()].element;
                (vec![self.table_address(table.index()), ValueType::Ref(element)], vec![])
            }
            Op::TableSize(table) => (vec![], vec![self.table_address(table.index())]),
            Op::TableGrow(table) => {
                let element = ValueType::Ref(self.info.tables[table.index()].element);
                let address = self.table_address(table.index());
                (vec![element, address], vec![address])
            }
            Op::TableFill(table) => {
                let element = ValueType::Ref(self.info.tables[table.index()].element);
                let address = self.table_address(table.index());
                (vec![address, element, address], vec![])
            }
            Op::TableCopy(to, from) => {
                let (to, from) = (self.table_address(to.index()), self.table_address(from.index()));
                (vec![to, from, min(to, from)], vec![])
            }
            Op::TableInit(table, _) => (vec![self.table_address(table.index()), I32, I32], vec![]),
            Op::GlobalGet(global) => (vec![], vec![self.info.globals[global.index()].value]),
            Op::GlobalSet(global) => (vec![self.info.globals[global.index()].value], vec![]),
            Op::RefFunc(function) => (vec![], vec![fresh(self.info.type_of(*function))]),
            Op::IsFunction(..) => (vec![reference(true, HeapType::Func)], vec![I32]),
            Op::RefIsNull => (vec![any_ref(0)?], vec![I32]),
            Op::RefEq => (vec![reference(true, HeapType::Eq); 2], vec![I32]),
            Op::NullCheck => {
                let ValueType::Ref(ty) = self.function.value_type(args[0]) else {
                    return Err("not a reference".to_string());
                };
                (vec![any_ref(0)?], vec![reference(false, ty.heap)])
            }
            // Also between any and extern.
            Op::Refine(ty) => (vec![any_ref(0)?], vec![ValueType::Ref(*ty)]),
            Op::RefTest(ty) => (vec![reference(true, self.info.top_type(ty.heap))], vec![I32]),
            Op::RefCast(ty) => (vec![reference(true, self.info.top_type(ty.heap))], vec![ValueType::Ref(*ty)]),
            Op::RefI31 => (vec![I32], vec![reference(false, HeapType::I31)]),
            Op::I31Get(extension, _) => {
                if *extension == Extension::None {
                    return Err("wrong extension".to_string());
                }
                (vec![reference(true, HeapType::I31)], vec![I32])
            }
            Op::StructNew(ty) => {
                let fields = self.info.struct_fields(*ty).iter().map(|field| field.storage.unpacked()).collect();
                (fields, vec![fresh(*ty)])
            }
            Op::StructNewDefault(ty) => (vec![], vec![fresh(*ty)]),
            Op::StructGet(ty, field, extension, _) => {
                let storage = self.info.struct_fields(*ty)[*field as usize].storage;
                (vec![object(*ty)], vec![self.unpacked(storage, *extension)?])
            }
            Op::StructSet(ty, field, _) => {
                (vec![object(*ty), self.info.struct_fields(*ty)[*field as usize].storage.unpacked()], vec![])
            }
            Op::ArrayNew(ty) => (vec![self.element(*ty)?, I32], vec![fresh(*ty)]),
            Op::ArrayNewDefault(ty) => (vec![I32], vec![fresh(*ty)]),
            Op::ArrayNewFixed(ty) => (vec![self.element(*ty)?; args.len()], vec![fresh(*ty)]),
            Op::ArrayNewData(ty, _) | Op::ArrayNewElem(ty, _) => (vec![I32, I32], vec![fresh(*ty)]),
            Op::ArrayLen(_) => (vec![array], vec![I32]),
            Op::BoundsCheck => (vec![I32, I32], vec![]),
            Op::ArrayGet(ty, extension) => {
                let storage = self.info.array_element(*ty).storage;
                (vec![object(*ty), I32], vec![self.unpacked(storage, *extension)?])
            }
            Op::ArraySet(ty) => (vec![object(*ty), I32, self.element(*ty)?], vec![]),
            Op::ArrayFill(ty) => (vec![fresh(*ty), I32, self.element(*ty)?, I32], vec![]),
            Op::ArrayCopy(to, from) => (vec![fresh(*to), I32, fresh(*from), I32, I32], vec![]),
            Op::ArrayInitData(ty, _) | Op::ArrayInitElem(ty, _) => (vec![fresh(*ty), I32, I32, I32], vec![]),
            Op::ExceptionNew(tag) => {
                (self.info.func_type(self.info.tags[tag.index()]).params.clone(), vec![reference(false, HeapType::Exn)])
            }
            Op::ExceptionGet(tag, field) => {
                let payload = &self.info.func_type(self.info.tags[tag.index()]).params;
                (vec![reference(false, HeapType::Exn)], vec![payload[*field as usize]])
            }
            Op::Call(callee) => {
                let ty = self.info.func_type(self.callee(callee)?);
                (ty.params.clone(), ty.results.clone())
            }
        })
    }

    fn element(&self, ty: TypeIndex) -> Result<ValueType, String> {
        match &self.info.types[ty.index()].composite {
            CompositeType::Array(element) => Ok(element.storage.unpacked()),
            _ => Err(format!("type {} is not an array type", ty.0)),
        }
    }

    fn terminator(&self, block: Block, position: usize, terminator: &Terminator) -> Checked {
        let mut uses = Vec::new();
        terminator.for_each_use(|value| uses.push(value));
        uses.iter().try_for_each(|&value| self.used(value, block, position))?;
        let results = self.signature_of_function().1;
        // Types that the terminator supplies to each edge before the edge's own arguments.
        let mut supplied: Vec<Vec<ValueType>> = Vec::new();
        let exception = |handlers: &[HandlerEdge]| {
            handlers.iter().map(|_| vec![reference(false, HeapType::Exn)]).collect::<Vec<_>>()
        };
        match terminator {
            Terminator::Jump(_) | Terminator::Trap(_) => {}
            Terminator::Branch { cond: index, .. } | Terminator::Switch { index, .. } => {
                self.is(*index, ValueType::I32)?
            }
            Terminator::Return(values) => self.list(values, results)?,
            Terminator::TailCall { callee: Callee::Osr(code), .. } => self.is(*code, ValueType::I64)?,
            Terminator::TailCall { callee, args } => {
                let ty = self.info.func_type(self.callee(callee)?);
                self.list(args, &ty.params)?;
                let fits = ty.results.len() == results.len()
                    && ty.results.iter().zip(results).all(|(&sub, &sup)| self.info.is_subtype(sub, sup));
                if !fits {
                    return Err("the callee's results are not the function's".to_string());
                }
            }
            Terminator::TryCall { callee, args, handlers, .. } => {
                let ty = self.info.func_type(self.callee(callee)?);
                self.list(args, &ty.params)?;
                supplied.push(ty.results.clone());
                supplied.extend(exception(handlers));
            }
            Terminator::Throw { exception: value, handlers } => {
                self.is(*value, reference(true, HeapType::Exn))?;
                supplied.extend(exception(handlers));
            }
        }
        let mut outcome = Ok(());
        let mut number = 0;
        terminator.for_each_edge(|edge| {
            let mut types = supplied.get(number).cloned().unwrap_or_default();
            number += 1;
            types.extend(edge.args.iter().map(|&value| self.function.value_type(value)));
            let params = &self.function.blocks[edge.block.index()].params;
            let fits = params.len() == types.len()
                && types
                    .iter()
                    .zip(params)
                    .all(|(&ty, &param)| self.info.is_subtype(ty, self.function.value_type(param)));
            if !fits && outcome.is_ok() {
                outcome = Err(format!("the arguments do not fit the parameters of {}", edge.block));
            }
        });
        outcome
    }
}
