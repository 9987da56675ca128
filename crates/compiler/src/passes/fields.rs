//! Fields that hold the same in every object: of a closed module, all places that make objects of a type are known.
//! Where each gives an immutable field the same constant, function or immutable global, a read of it is that. Vtables
//! are such fields, so a method without an override is called directly, and may then be inlined.
//!
//! A module is closed where no reference can come in from outside: no reference type in its imports, its exports, their
//! signatures and payloads. (A host that catches one of the module's exceptions, forges objects of the types that it
//! finds in its payload and throws them back can make such a call go to the method of the genuine objects; the types
//! stay right.) The analysis looks at whole types at once, with subtypes; it is that of Binaryen's constant field
//! propagation.

use serde::{Deserialize, Serialize};

use super::{globals, support};
use crate::mir::{Function, NullCheck, Op, Value};
use crate::module::{
    CompositeType, ConstExpr, ConstOp, ElementItems, ExportKind, FuncType, HeapType, ImportKind, ModuleInfo,
    StorageType, TypeIndex, ValueType,
};

/// What is known of a field.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "KeptContent", from = "KeptContent")]
enum Content {
    /// No object has been seen.
    Nothing,
    /// Every object seen holds this.
    Always(Op),
    /// Different things, or something that no operation without operands gives.
    Anything,
}

/// What is known of a field, as data: what has no such form counts as anything.
#[derive(Serialize, Deserialize)]
enum KeptContent {
    Nothing,
    Always(ConstOp),
    Anything,
}

impl From<Content> for KeptContent {
    fn from(content: Content) -> KeptContent {
        match content {
            Content::Nothing => KeptContent::Nothing,
            Content::Always(op) => globals::constant(&op).map_or(KeptContent::Anything, KeptContent::Always),
            Content::Anything => KeptContent::Anything,
        }
    }
}

impl From<KeptContent> for Content {
    fn from(content: KeptContent) -> Content {
        match content {
            KeptContent::Nothing => Content::Nothing,
            KeptContent::Always(op) => globals::operation(op).map_or(Content::Anything, Content::Always),
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

/// What the immutable fields of each struct type hold.
#[derive(Serialize, Deserialize)]
pub(crate) struct Fields {
    /// For each type its fields; empty for types that are no structs.
    types: Vec<Vec<Content>>,
}

impl Fields {
    /// Looks at everything that makes structs; `None` where the module is not closed.
    pub(crate) fn new(functions: &[Function], info: &ModuleInfo) -> Option<Fields> {
        Fields::with(info, |fields| {
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
                        _ => {}
                    }
                }
            }
        })
    }

    /// As [`new`](Self::new), of what the bodies make: types, and what is known of their fields.
    pub(crate) fn of_made<'a>(made: impl Iterator<Item = &'a Made>, info: &ModuleInfo) -> Option<Fields> {
        Fields::with(info, |fields| {
            for Made { ty, contents } in made {
                match contents {
                    Some(contents) => fields.made(info, *ty, contents.iter().cloned()),
                    None => fields.made_default(info, *ty),
                }
            }
        })
    }

    fn with(info: &ModuleInfo, add_bodies: impl FnOnce(&mut Fields)) -> Option<Fields> {
        if !is_closed(info) {
            return None;
        }
        let types = info.types.iter().map(|ty| match &ty.composite {
            CompositeType::Struct(fields) => vec![Content::Nothing; fields.len()],
            _ => Vec::new(),
        });
        let mut fields = Fields { types: types.collect() };
        add_bodies(&mut fields);
        let elements = info.elements.iter().filter_map(|segment| match &segment.items {
            ElementItems::Expressions(expressions) => Some(expressions),
            ElementItems::Functions(_) => None,
        });
        let globals = info.defined_globals.iter().map(|global| &global.init);
        let tables = info.defined_tables.iter().filter_map(|table| table.init.as_ref());
        for expression in globals.chain(tables).chain(elements.flatten()) {
            fields.evaluate(info, expression)?;
        }
        Some(fields)
    }

    /// An object of exactly this type is made with fields of these contents.
    fn made(&mut self, info: &ModuleInfo, ty: TypeIndex, contents: impl Iterator<Item = Option<Op>>) {
        let contents: Vec<Option<Op>> = contents.collect();
        let mut at = Some(canonical(info, ty));
        while let Some(ty) = at {
            for (field, new) in self.types[ty.index()].iter_mut().zip(&contents) {
                *field = match (std::mem::replace(field, Content::Anything), new) {
                    (Content::Nothing, Some(new)) => Content::Always(new.clone()),
                    (Content::Always(old), Some(new)) if old == *new => Content::Always(old),
                    _ => Content::Anything,
                };
            }
            at = info.types[ty.index()].supertype.map(|ty| canonical(info, ty));
        }
    }

    fn made_default(&mut self, info: &ModuleInfo, ty: TypeIndex) {
        let count = self.types[canonical(info, ty).index()].len();
        self.made(info, ty, (0..count).map(|_| None));
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
        if declared.mutable || !matches!(declared.storage, StorageType::Value(_)) {
            return None;
        }
        match &self.types[canonical(info, ty).index()][field as usize] {
            Content::Always(op) => Some(op.clone()),
            Content::Nothing | Content::Anything => None,
        }
    }
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
