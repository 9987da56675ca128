//! Fields that hold the same in every object: of a closed module, all places that make objects of a type are known.
//! Where each gives an immutable field the same constant, function or immutable global, a read of it is that. Vtables
//! are such fields, so a method without an override is called directly, and may then be inlined.
//!
//! A field of function references, mutable or not, may hold few functions in all: those of a method with few
//! overrides, of a closure's type. Calls of what is read from it may be [compared](super::targets) with these, also in
//! modules that are not closed. Here every store to the field counts, too.
//!
//! A module is closed where no reference can come in from outside: no reference type in its imports, its exports, their
//! signatures and payloads. (A host that catches one of the module's exceptions, forges objects of the types that it
//! finds in its payload and throws them back can make such a call go to the method of the genuine objects; the types
//! stay right.) The analysis looks at whole types at once, with subtypes; it is that of Binaryen's constant field
//! propagation.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::targets::{CallByReference, Likely};
use super::{globals, support};
use crate::mir::{Constant, Function, NullCheck, Op, Value};
use crate::module::{
    CompositeType, ConstExpr, ConstOp, ElementItems, ExportKind, FieldType, FuncIndex, FuncType, HeapType, ImportKind,
    ModuleInfo, StorageType, TypeIndex, ValueType,
};

/// What is known of a field.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "KeptContent", from = "KeptContent")]
enum Content {
    /// No object has been seen.
    Nothing,
    /// Every object seen holds this.
    Always(Op),
    /// Every object seen holds one of these functions, which are at most [`MOST_FUNCTIONS`], or null.
    Functions(SmallVec<[FuncIndex; 4]>),
    /// Different things, or something that no operation without operands gives.
    Anything,
}

/// A field that holds more functions is one that may hold any.
const MOST_FUNCTIONS: usize = 16;

impl Content {
    /// The functions that there are, but for null; `None` where there may be others.
    fn functions(&self) -> Option<&[FuncIndex]> {
        match self {
            Content::Nothing | Content::Always(Op::Const(Constant::Null(_))) => Some(&[]),
            Content::Always(Op::RefFunc(function)) => Some(std::slice::from_ref(function)),
            Content::Functions(functions) => Some(functions),
            Content::Always(_) | Content::Anything => None,
        }
    }

    /// What is known where both have been seen.
    fn and(self, other: Content) -> Content {
        match (&self, &other) {
            (Content::Nothing, _) => return other,
            (_, Content::Nothing) => return self,
            (Content::Always(one), Content::Always(another)) if one == another => return self,
            _ => {}
        }
        let (Some(some), Some(more)) = (self.functions(), other.functions()) else { return Content::Anything };
        let mut functions = SmallVec::from_slice(some);
        functions.extend(more.iter().copied().filter(|function| !some.contains(function)));
        if functions.len() > MOST_FUNCTIONS { Content::Anything } else { Content::Functions(functions) }
    }
}

impl From<Option<Op>> for Content {
    fn from(op: Option<Op>) -> Content {
        op.map_or(Content::Anything, Content::Always)
    }
}

/// What is known of a field, as data: what has no such form counts as anything.
#[derive(Serialize, Deserialize)]
enum KeptContent {
    Nothing,
    Always(ConstOp),
    Functions(Vec<FuncIndex>),
    Anything,
}

impl From<Content> for KeptContent {
    fn from(content: Content) -> KeptContent {
        match content {
            Content::Nothing => KeptContent::Nothing,
            Content::Always(op) => globals::constant(&op).map_or(KeptContent::Anything, KeptContent::Always),
            Content::Functions(functions) => KeptContent::Functions(functions.into_vec()),
            Content::Anything => KeptContent::Anything,
        }
    }
}

impl From<KeptContent> for Content {
    fn from(content: KeptContent) -> Content {
        match content {
            KeptContent::Nothing => Content::Nothing,
            KeptContent::Always(op) => globals::operation(op).into(),
            KeptContent::Functions(functions) => Content::Functions(functions.into()),
            KeptContent::Anything => Content::Anything,
        }
    }
}

/// A place in a body that makes structs.
#[derive(Debug)]
pub(crate) struct Made {
    /// Their type.
    pub(crate) ty: TypeIndex,
    /// What gives each field, if that is a pure operation without operands; `None` where all fields are zero or null.
    pub(crate) contents: Option<Vec<Option<Op>>>,
}

/// A place in a body that stores to a field of function references.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The static type of the struct.
    pub(crate) ty: TypeIndex,
    /// Which field.
    pub(crate) field: u32,
    /// What is stored, if that is a pure operation without operands.
    pub(crate) content: Option<Op>,
}

impl Stored {
    /// Whether a field is one of function references.
    pub(crate) fn concerns(info: &ModuleInfo, ty: TypeIndex, field: u32) -> bool {
        let storage = info.struct_fields(ty)[field as usize].storage;
        matches!(storage, StorageType::Value(ValueType::Ref(ty)) if info.is_func_reference(ty.heap))
    }
}

/// What the fields of each struct type hold.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Fields {
    /// Whether all objects are known: otherwise there may be others than are told of here.
    is_closed: bool,
    /// For each type its fields; empty for types that are no structs. Of mutable fields, only those of function
    /// references are right.
    types: Vec<Vec<Content>>,
}

impl Fields {
    /// Looks at everything that makes structs or stores functions to them.
    pub(crate) fn new(functions: &[Function], info: &ModuleInfo) -> Fields {
        Fields::with(info, |fields| {
            let mut stored = Vec::new();
            for function in functions {
                for &inst in function.blocks.iter().flat_map(|block| &block.insts) {
                    let data = &function.insts[inst.index()];
                    let leaf = |&value: &Value| {
                        let (op, args) = support::origin(function, function.resolve(value))?;
                        (args.is_empty() && op.properties().is_pure(info)).then(|| op.clone())
                    };
                    match data.op {
                        Op::StructNew(ty) => fields.made(info, ty, data.args.iter().map(leaf)),
                        Op::StructNewDefault(ty) => fields.made_default(info, ty),
                        Op::StructSet(ty, field, _) if Stored::concerns(info, ty, field) => {
                            stored.push(Stored { ty, field, content: leaf(&data.args[1]) });
                        }
                        _ => {}
                    }
                }
            }
            fields.stored(info, stored.iter());
        })
    }

    /// As [`new`](Self::new), of what the bodies make, types and what is known of their fields, and of what they store.
    pub(crate) fn of_bodies<'a>(
        made: impl Iterator<Item = &'a Made>,
        stored: impl Iterator<Item = &'a Stored>,
        info: &ModuleInfo,
    ) -> Fields {
        Fields::with(info, |fields| {
            for Made { ty, contents } in made {
                match contents {
                    Some(contents) => fields.made(info, *ty, contents.iter().cloned()),
                    None => fields.made_default(info, *ty),
                }
            }
            fields.stored(info, stored);
        })
    }

    fn with(info: &ModuleInfo, add_bodies: impl FnOnce(&mut Fields)) -> Fields {
        let types = info.types.iter().map(|ty| match &ty.composite {
            CompositeType::Struct(fields) => vec![Content::Nothing; fields.len()],
            _ => Vec::new(),
        });
        let mut fields = Fields { is_closed: is_closed(info), types: types.collect() };
        add_bodies(&mut fields);
        let elements = info.elements.iter().filter_map(|segment| match &segment.items {
            ElementItems::Expressions(expressions) => Some(expressions),
            ElementItems::Functions(_) => None,
        });
        let globals = info.defined_globals.iter().map(|global| &global.init);
        let tables = info.defined_tables.iter().filter_map(|table| table.init.as_ref());
        for expression in globals.chain(tables).chain(elements.flatten()) {
            fields.is_closed &= fields.evaluate(info, expression).is_some();
        }
        fields
    }

    /// An object of exactly this type is made with fields of these contents.
    fn made(&mut self, info: &ModuleInfo, ty: TypeIndex, contents: impl Iterator<Item = Option<Op>>) {
        let contents: Vec<Content> = contents.map(Content::from).collect();
        for ty in lineage(info, ty) {
            for (field, new) in self.types[ty.index()].iter_mut().zip(&contents) {
                hold(field, new);
            }
        }
    }

    fn made_default(&mut self, info: &ModuleInfo, ty: TypeIndex) {
        let null = |(field, declared): (usize, &FieldType)| match declared.storage {
            StorageType::Value(ValueType::Ref(of)) if Stored::concerns(info, ty, field as u32) => {
                Some(Op::Const(Constant::Null(of.heap)))
            }
            _ => None,
        };
        self.made(info, ty, info.struct_fields(ty).iter().enumerate().map(null));
    }

    /// All that is stored to objects of a type: they may be of a subtype, and be read as of a supertype.
    fn stored<'a>(&mut self, info: &ModuleInfo, stored: impl Iterator<Item = &'a Stored>) {
        let mut fields: FxHashMap<(TypeIndex, u32), Content> = FxHashMap::default();
        for Stored { ty, field, content } in stored {
            hold(fields.entry((canonical(info, *ty), *field)).or_insert(Content::Nothing), &content.clone().into());
        }
        if fields.is_empty() {
            return;
        }
        let mut subtypes: FxHashMap<TypeIndex, Vec<TypeIndex>> = FxHashMap::default();
        let all = (0..info.types.len() as u32).map(TypeIndex).filter(|&ty| canonical(info, ty) == ty);
        for (ty, supertype) in all.filter_map(|ty| Some((ty, info.types[ty.index()].supertype?))) {
            subtypes.entry(canonical(info, supertype)).or_default().push(ty);
        }
        for ((ty, number), new) in fields {
            let mut related: Vec<TypeIndex> = lineage(info, ty).skip(1).collect();
            let mut below = vec![ty];
            while let Some(ty) = below.pop() {
                related.push(ty);
                below.extend(subtypes.get(&ty).into_iter().flatten());
            }
            for ty in related {
                if let Some(field) = self.types[ty.index()].get_mut(number as usize) {
                    hold(field, &new);
                }
            }
        }
    }

    /// Goes through a constant expression; `None` where it is malformed, which validation has ruled out.
    fn evaluate(&mut self, info: &ModuleInfo, expression: &ConstExpr) -> Option<()> {
        let mut stack: Vec<Option<Op>> = Vec::new();
        for &op in expression.iter() {
            match op {
                ConstOp::StructNew(ty) => {
                    let count = self.types[canonical(info, ty).index()].len();
                    let contents = stack.split_off(stack.len().checked_sub(count)?);
                    self.made(info, ty, contents.into_iter());
                    stack.push(None);
                }
                ConstOp::StructNewDefault(ty) => {
                    self.made_default(info, ty);
                    stack.push(None);
                }
                op => {
                    let leaf = globals::operation(op).filter(|op| op.properties().is_pure(info));
                    let operands = globals::arity(info, op)?;
                    stack.truncate(stack.len().checked_sub(operands)?);
                    stack.push(leaf);
                }
            }
        }
        Some(())
    }

    /// Replaces the reads of fields that always hold the same; returns whether there were any.
    pub(crate) fn replace(&self, function: &mut Function, info: &ModuleInfo) -> bool {
        let mut changed = false;
        for number in 0..function.blocks.len() {
            let insts = std::mem::take(&mut function.blocks[number].insts);
            for inst in insts {
                let data = &function.insts[inst.index()];
                if let Op::StructGet(ty, field, _, check) = data.op
                    && let Some(op) = self.content(info, ty, field)
                {
                    let (object, source) = (data.args[0], data.source);
                    if check == NullCheck::Needed {
                        let ValueType::Ref(mut checked) = function.value_type(object) else {
                            unreachable!("a reference")
                        };
                        checked.nullable = false;
                        let block = crate::mir::Block(number as u32);
                        function.push(block, Op::NullCheck, &[object], &[ValueType::Ref(checked)], source);
                    }
                    let data = &mut function.insts[inst.index()];
                    data.op = op;
                    data.args.clear();
                    changed = true;
                }
                function.blocks[number].insts.push(inst);
            }
        }
        changed
    }

    /// What an immutable field always holds.
    fn content(&self, info: &ModuleInfo, ty: TypeIndex, field: u32) -> Option<Op> {
        let declared = &info.struct_fields(ty)[field as usize];
        if !self.is_closed || declared.mutable || !matches!(declared.storage, StorageType::Value(_)) {
            return None;
        }
        match &self.types[canonical(info, ty).index()][field as usize] {
            Content::Always(op) => Some(op.clone()),
            Content::Nothing | Content::Functions(_) | Content::Anything => None,
        }
    }

    /// The functions that a call leads to where its reference is read from a field that holds few of the module's; it
    /// may be null, and in a module that is not closed another one.
    pub(crate) fn targets(&self, info: &ModuleInfo, function: &Function, call: &CallByReference) -> Likely {
        let from = support::root(function, call.reference);
        let Some((&Op::StructGet(of, field, ..), _)) = support::origin(function, from) else {
            return Likely::default();
        };
        let held = &self.types[canonical(info, of).index()][field as usize];
        let fits = |target: &FuncIndex| info.is_declared_subtype(info.functions[target.index()].ty, call.ty);
        let functions = held.functions().unwrap_or_default().iter().copied().filter(fits);
        Likely { targets: functions.collect(), is_complete: true, is_seen: false }
    }
}

/// Takes note of what a field holds.
fn hold(field: &mut Content, new: &Content) {
    if !matches!(field, Content::Anything) {
        *field = std::mem::replace(field, Content::Anything).and(new.clone());
    }
}

/// A type and its supertypes, from the type upwards.
fn lineage(info: &ModuleInfo, ty: TypeIndex) -> impl Iterator<Item = TypeIndex> + '_ {
    let supertype = |&ty: &TypeIndex| info.types[ty.index()].supertype.map(|ty| canonical(info, ty));
    std::iter::successors(Some(canonical(info, ty)), supertype)
}

fn canonical(info: &ModuleInfo, ty: TypeIndex) -> TypeIndex {
    info.canonical_types.get(ty.index()).copied().unwrap_or(ty)
}

/// Whether no reference can come in from outside.
fn is_closed(info: &ModuleInfo) -> bool {
    let plain = |ty: &ValueType| match ty {
        ValueType::Ref(ty) => matches!(ty.heap, HeapType::I31 | HeapType::None | HeapType::NoFunc | HeapType::NoExtern),
        _ => true,
    };
    let closed_function = |ty: &FuncType| ty.params.iter().chain(&ty.results).all(plain);
    let imports = info.imports.iter().all(|import| match &import.kind {
        ImportKind::Func(ty) | ImportKind::Tag(ty) => closed_function(info.func_type(*ty)),
        ImportKind::Global(global) => plain(&global.value),
        ImportKind::Memory(_) => true,
        ImportKind::Table(_) => false,
    });
    let exports = info.exports.iter().all(|(_, export)| match export {
        ExportKind::Func(function) => closed_function(info.func_type(info.functions[function.index()].ty)),
        ExportKind::Global(global) => plain(&info.globals[global.index()].value),
        ExportKind::Tag(tag) => closed_function(info.func_type(info.tags[tag.index()])),
        ExportKind::Memory(_) => true,
        ExportKind::Table(_) => false,
    });
    imports && exports
}
