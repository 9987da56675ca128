//! A program: a module whose functions are generated from a seed.

use super::body::{Body, Steps};
use super::names::*;
use super::signatures::Signature;
use super::types::{Array, Field, Kind, Types};
use crate::random::Random;
use std::borrow::Cow;
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataCountSection, DataSection, ElementSection, Elements, EntityType, ExportKind,
    ExportSection, Function, FunctionSection, GlobalSection, GlobalType, HeapType, ImportSection, Instruction as I,
    Module, RefType, TableSection, TableType, TagKind, TagSection, TagType, ValType,
};

/// The functions of a module, from the first that is imported.
fn signatures() -> Vec<Signature> {
    use Signature::*;
    vec![
        Void, Reentry, ExternNew, ExternId, Pass, Touch, Void, Void, Same, Same, Same, Same, Same, Walk, Many, Many,
        Few, Swap, Swap, Reentry, Run, Run, Run, Run, Run, Void,
    ]
}

/// The module of a seed, without the steps that are to be left out.
pub fn generate(seed: u64, steps: &mut Steps) -> Vec<u8> {
    let mut random = Random::new(seed ^ 0xc011_ec71);
    let mut types = Types::new(&mut random);
    let mut code = CodeSection::new();
    for (index, signature) in (0..).zip(signatures()).skip(IMPORTS as usize) {
        code.function(&function(&mut types, steps, random.bits(), index, signature));
    }
    let mut module = Module::new();
    module.section(&types.section());
    module.section(&imports());
    let mut functions = FunctionSection::new();
    for signature in &signatures()[IMPORTS as usize..] {
        functions.function(signature.index());
    }
    module.section(&functions);
    module.section(&tables());
    let mut tags = TagSection::new();
    for signature in Signature::TAGS {
        tags.tag(TagType { kind: TagKind::Exception, func_type_idx: signature.index() });
    }
    module.section(&tags);
    module.section(&globals(&types, &mut random));
    module.section(&exports());
    module.section(&elements(&types, &mut random));
    module.section(&DataCountSection { count: 2 });
    module.section(&code);
    let mut data = DataSection::new();
    data.passive(random.bytes(DATA_BYTES as usize)).passive(random.bytes(SEGMENT_ELEMENTS as usize));
    module.section(&data);
    module.finish()
}

fn function(types: &mut Types, steps: &mut Steps, seed: u64, index: u32, signature: Signature) -> Function {
    if index == NOTHING {
        let mut function = Function::new([]);
        function.instruction(&I::End);
        return function;
    }
    // A function is a step, too: without it, a call of it traps.
    if !steps.take(seed) {
        let mut function = Function::new([]);
        function.instruction(&I::Unreachable).instruction(&I::End);
        return function;
    }
    let mut body = Body::new(types, steps, seed, index, &signature.parameters());
    match index {
        _ if CHURN.contains(&index) => body.churn(),
        _ if SAME.contains(&index) => body.same(),
        _ if BOOM.contains(&index) => body.boom((index - BOOM[0]) as usize),
        WALK => body.walk(),
        OBSERVE => body.observe_all(),
        NESTS => {
            // The first collection of all moves what the constant expressions made: this sees it.
            for _ in 0..1 + body.below(3) {
                body.droppable(|body| body.nest());
            }
            body.emit(I::GlobalGet(SUM));
        }
        _ => generated(&mut body, index, signature),
    }
    body.finish(seed)
}

/// A body of steps.
fn generated(body: &mut Body, index: u32, signature: Signature) {
    let mut kinds = vec![(Kind::Base, true), (Kind::Base, false), (Kind::Derived, true), (Kind::Last, false)];
    kinds.extend([(Kind::Leaf, false), (Kind::Any, true), (Kind::Any, true), (Kind::Eq, true), (Kind::Extern, true)]);
    kinds.extend([(Kind::I31, true), (Kind::Same, true), (Kind::Exn, true)]);
    for _ in 0..5 {
        let array = Kind::Array(body.one_of(&Array::ALL));
        kinds.push((array, body.chance(50)));
    }
    body.add_slots(&kinds);
    let is_run = RUN.contains(&index);
    let count = if is_run { 8 + body.below(24) } else { 2 + body.below(10) };
    body.burn(3);
    body.emit(I::If(BlockType::Empty));
    body.steps(count);
    body.emit(I::End);
    if body.chance(if is_run { 20 } else { 50 }) && body.tail_call(signature) {
        return;
    }
    for result in signature.results() {
        match result {
            Field::I64 => body.emit(I::GlobalGet(SUM)),
            _ => body.field_value(result, 1),
        }
    }
}

fn imports() -> ImportSection {
    let mut imports = ImportSection::new();
    let names = ["gc", "reenter", "extern-new", "extern-id", "pass", "touch"];
    for (name, signature) in names.into_iter().zip(signatures()) {
        imports.import("host", name, EntityType::Function(signature.index()));
    }
    imports
}

fn tables() -> TableSection {
    let table = |element_type, minimum: u32, maximum: u32| TableType {
        element_type,
        table64: false,
        minimum: minimum.into(),
        maximum: Some(maximum.into()),
        shared: false,
    };
    let mut tables = TableSection::new();
    let functions = signatures().len() as u32;
    tables.table(table(RefType::FUNCREF, functions, functions));
    for (kind, nullable) in TABLES {
        let ty = table(kind.reference(nullable), TABLE_ELEMENTS, TABLE_MOST);
        if nullable {
            tables.table(ty);
        } else {
            tables.table_with_init(ty, &ConstExpr::extended(leaf(7)));
        }
    }
    tables
}

/// A struct in a constant expression.
fn leaf(number: i32) -> [I<'static>; 5] {
    [
        I::I32Const(number),
        I::I32Const(number * 3),
        I::I32Const(number * 5),
        I::I64Const(number.into()),
        I::StructNew(Kind::Leaf.index()),
    ]
}

fn base(number: i32) -> Vec<I<'static>> {
    let mut code = vec![I::I32Const(number), I::RefNull(Kind::Base.heap())];
    code.extend(leaf(number + 1));
    code.push(I::StructNew(Kind::Base.index()));
    code
}

/// A value of some kind in a constant expression; elements of arrays are as many as the program says.
fn constant(types: &Types, random: &mut Random, kind: Kind) -> Vec<I<'static>> {
    let number = random.below(10_000) as i32;
    match kind {
        Kind::Leaf => leaf(number).to_vec(),
        Kind::Base => base(number),
        Kind::Any => match random.below(3) {
            0 => vec![I::I32Const(number), I::RefI31],
            1 => leaf(number).to_vec(),
            _ => base(number),
        },
        Kind::Extern => {
            let mut code = base(number);
            code.push(I::ExternConvertAny);
            code
        }
        Kind::Same => vec![I::RefFunc(SAME[random.below(2)])],
        Kind::Array(array) => {
            let length = types.least(array);
            let mut code = Vec::new();
            for _ in 0..length {
                match array.element() {
                    Field::Ref(kind, _) => code.extend(constant(types, random, kind)),
                    _ => code.push(I::I32Const(random.below(1 << 20) as i32)),
                }
            }
            code.push(I::ArrayNewFixed { array_type_index: array.index(), array_size: length });
            code
        }
        _ => vec![I::RefNull(kind.heap())],
    }
}

fn globals(types: &Types, random: &mut Random) -> GlobalSection {
    let mut globals = GlobalSection::new();
    let ty = |val_type, mutable| GlobalType { val_type, mutable, shared: false };
    globals.global(ty(ValType::I64, true), &ConstExpr::i64_const(0));
    globals.global(ty(ValType::I32, true), &ConstExpr::i32_const(0));
    globals.global(ty(ValType::I32, true), &ConstExpr::i32_const(0));
    for (kind, nullable, mutable) in GLOBALS {
        let value = match nullable && mutable {
            true => vec![I::RefNull(kind.heap())],
            false => constant(types, random, kind),
        };
        globals.global(ty(kind.value(nullable), mutable), &ConstExpr::extended(value));
    }
    let initializer = RefType { nullable: true, heap_type: HeapType::Concrete(Signature::Void.index()) };
    globals.global(ty(ValType::Ref(initializer), true), &ConstExpr::ref_func(CHURN[0]));
    globals
}

fn exports() -> ExportSection {
    let mut exports = ExportSection::new();
    exports.export("sum", ExportKind::Global, SUM).export("fuel", ExportKind::Global, FUEL);
    exports.export("zero", ExportKind::Global, ZERO).export("reentry", ExportKind::Func, REENTRY);
    for (name, function) in ["run-0", "run-1", "run-2"].into_iter().zip(RUN) {
        exports.export(name, ExportKind::Func, function);
    }
    exports.export("observe", ExportKind::Func, OBSERVE).export("nests", ExportKind::Func, NESTS);
    exports
}

fn elements(types: &Types, random: &mut Random) -> ElementSection {
    let mut elements = ElementSection::new();
    for (kind, nullable) in SEGMENTS {
        let values: Vec<ConstExpr> = (0..SEGMENT_ELEMENTS)
            .map(|_| {
                let global = (FIRST_GLOBAL..).zip(GLOBALS).find(|(_, g)| g.0 == kind && !g.2 && random.below(4) == 0);
                ConstExpr::extended(match global {
                    Some((index, _)) => vec![I::GlobalGet(index)],
                    None if nullable && random.below(6) == 0 => vec![I::RefNull(kind.heap())],
                    None => constant(types, random, kind),
                })
            })
            .collect();
        elements.passive(Elements::Expressions(kind.reference(nullable), Cow::Owned(values)));
    }
    let functions: Vec<u32> = (IMPORTS..signatures().len() as u32).collect();
    elements.active(Some(FUNCTIONS), &ConstExpr::i32_const(0), Elements::Functions(functions.into()));
    elements
}
