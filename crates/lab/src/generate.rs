//! Modules that are hard for a compiler.

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ElementSection, Elements, ExportKind, ExportSection, FieldType, Function,
    FunctionSection, GlobalSection, GlobalType, HeapType, Instruction as I, Module, RefType, StartSection, StorageType,
    SubType, TypeSection, ValType,
};

// Types, by index.
const OBJECT: u32 = 1;
const TEXT: u32 = 2;
const NODE: u32 = 3;
const NODES: u32 = 4;
const LEAF: u32 = 5;
const NOTHING_TO_NOTHING: u32 = 6;
const NODE_TO_NODE: u32 = 7;
const VTABLE: u32 = 0;
// Functions, by index.
const START: u32 = 0;
const INITIALISE: u32 = 1;
const CHECK: u32 = 2;

/// A module whose start function initialises `globals` globals with object graphs, as a compiler of an object-oriented
/// language emits it for a large program: about 133 instructions for each global, all in one function, with vtables
/// from globals, strings as arrays, nested allocations, calls of constructors, null checks, casts and branches between
/// them. Every tenth graph refers to an earlier one. The export `check` returns how many globals hold a proper graph.
///
/// A compiler that is quadratic in the length of a function, or in the number of references that live across
/// allocations, shows it here: 3,000 globals make 400,000 instructions.
pub fn start_function(globals: u32) -> Vec<u8> {
    let mut module = Module::new();
    module.section(&types());
    let mut functions = FunctionSection::new();
    functions.function(NOTHING_TO_NOTHING).function(NODE_TO_NODE).function(CHECK_TYPE);
    module.section(&functions);
    module.section(&global_section(globals));
    let mut exports = ExportSection::new();
    exports.export("check", ExportKind::Func, CHECK);
    module.section(&exports);
    module.section(&StartSection { function_index: START });
    let mut elements = ElementSection::new();
    elements.declared(Elements::Functions(vec![INITIALISE].into()));
    module.section(&elements);
    let mut code = CodeSection::new();
    code.function(&start(globals));
    code.function(&initialise());
    code.function(&check(globals));
    module.section(&code);
    module.finish()
}

const CHECK_TYPE: u32 = 8;

fn reference(index: u32, nullable: bool) -> ValType {
    ValType::Ref(RefType { nullable, heap_type: HeapType::Concrete(index) })
}

fn types() -> TypeSection {
    let field = |storage: StorageType, mutable: bool| FieldType { element_type: storage, mutable };
    let value = |value: ValType, mutable: bool| field(StorageType::Val(value), mutable);
    let object = || [value(reference(VTABLE, false), false), value(ValType::I32, true)];
    let subtype = |supertype: Option<u32>, is_final: bool, fields: Vec<FieldType>| SubType {
        is_final,
        supertype_idxs: supertype.into_iter().collect(),
        composite_type: wasm_encoder::CompositeType {
            inner: wasm_encoder::CompositeInnerType::Struct(wasm_encoder::StructType { fields: fields.into() }),
            shared: false,
            describes: None,
            descriptor: None,
        },
    };
    let mut node = object().to_vec();
    node.extend([
        value(reference(TEXT, true), true),
        value(reference(OBJECT, true), true),
        value(reference(NODES, true), true),
        value(ValType::F64, true),
    ]);
    let mut leaf = object().to_vec();
    leaf.push(value(ValType::I64, true));
    let mut types = TypeSection::new();
    types.ty().struct_([value(ValType::FUNCREF, false), value(ValType::I32, false)]);
    types.ty().subtype(&subtype(None, false, object().to_vec()));
    types.ty().array(&StorageType::I16, true);
    // The node and the array of nodes refer to each other.
    let nodes = SubType {
        is_final: true,
        supertype_idxs: Vec::new(),
        composite_type: wasm_encoder::CompositeType {
            inner: wasm_encoder::CompositeInnerType::Array(wasm_encoder::ArrayType(value(reference(NODE, true), true))),
            shared: false,
            describes: None,
            descriptor: None,
        },
    };
    types.ty().rec([subtype(Some(OBJECT), false, node), nodes]);
    types.ty().subtype(&subtype(Some(OBJECT), true, leaf));
    types.ty().function([], []);
    types.ty().function([reference(NODE, true), ValType::I32], [reference(NODE, false)]);
    types.ty().function([], [ValType::I32]);
    types
}

/// Two vtables, then the globals that the start function fills.
fn global_section(globals: u32) -> GlobalSection {
    let mut section = GlobalSection::new();
    let vtable = GlobalType { val_type: reference(VTABLE, false), mutable: false, shared: false };
    for id in 0..2 {
        let new = ConstExpr::extended([I::RefFunc(INITIALISE), I::I32Const(id), I::StructNew(VTABLE)]);
        section.global(vtable, &new);
    }
    let node = GlobalType { val_type: reference(NODE, true), mutable: true, shared: false };
    for _ in 0..globals {
        section.global(node, &ConstExpr::ref_null(HeapType::Concrete(NODE)));
    }
    section
}

const NODE_VTABLE: u32 = 0;
const LEAF_VTABLE: u32 = 1;
const FIRST_GLOBAL: u32 = 2;

fn start(globals: u32) -> Function {
    // Local 0 is the node in the making, local 1 one that an earlier global holds.
    let mut f = Function::new([(2, reference(NODE, true))]);
    for i in 0..globals {
        graph(&mut f, i);
    }
    f.instruction(&I::End);
    f
}

/// About 133 instructions that build one graph and put it into its global.
fn graph(f: &mut Function, i: u32) {
    let mut emit = |instruction: I| {
        f.instruction(&instruction);
    };
    // The earlier global, or null; only every tenth graph keeps it.
    if i >= 10 && i.is_multiple_of(10) {
        emit(I::GlobalGet(FIRST_GLOBAL + i - 10));
    } else {
        emit(I::RefNull(HeapType::Concrete(NODE)));
    }
    emit(I::LocalSet(1));
    // The outer node stays on the stack, unfinished, while its parts are allocated.
    emit(I::GlobalGet(NODE_VTABLE));
    emit(I::I32Const(i as i32));
    text(&mut emit, i, 32);
    emit(I::LocalGet(1));
    for part in 0..4 {
        emit(I::GlobalGet(NODE_VTABLE));
        emit(I::I32Const((i + part) as i32));
        text(&mut emit, i + part, 6);
        emit(I::GlobalGet(LEAF_VTABLE));
        emit(I::I32Const(part as i32));
        emit(I::I64Const(i64::from(i) * 1_000_003));
        emit(I::StructNew(LEAF));
        emit(I::RefNull(HeapType::Concrete(NODES)));
        emit(I::F64Const((f64::from(i) * 0.5).into()));
        emit(I::StructNew(NODE));
        emit(I::I32Const(part as i32));
        emit(I::Call(INITIALISE));
    }
    emit(I::ArrayNewFixed { array_type_index: NODES, array_size: 4 });
    emit(I::F64Const(f64::from(i).into()));
    emit(I::StructNew(NODE));
    emit(I::LocalTee(0));
    emit(I::GlobalSet(FIRST_GLOBAL + i));
    // Constructors' bodies, inlined: fields are read, cast, tested and written.
    for part in 0..2 {
        emit(I::Block(BlockType::Empty));
        emit(I::LocalGet(0));
        emit(I::StructGet { struct_type_index: NODE, field_index: 4 });
        emit(I::I32Const(part));
        emit(I::ArrayGet(NODES));
        emit(I::StructGet { struct_type_index: NODE, field_index: 3 });
        emit(I::RefTestNonNull(HeapType::Concrete(LEAF)));
        emit(I::I32Eqz);
        emit(I::BrIf(0));
        emit(I::LocalGet(0));
        emit(I::LocalGet(0));
        emit(I::StructGet { struct_type_index: NODE, field_index: 4 });
        emit(I::I32Const(part));
        emit(I::ArrayGet(NODES));
        emit(I::StructGet { struct_type_index: NODE, field_index: 3 });
        emit(I::RefCastNonNull(HeapType::Concrete(LEAF)));
        emit(I::StructGet { struct_type_index: LEAF, field_index: 2 });
        emit(I::I32WrapI64);
        emit(I::LocalGet(0));
        emit(I::StructGet { struct_type_index: NODE, field_index: 1 });
        emit(I::I32Add);
        emit(I::StructSet { struct_type_index: NODE, field_index: 1 });
        emit(I::End);
    }
}

/// A string of `length` code units.
fn text(emit: &mut impl FnMut(I), seed: u32, length: u32) {
    for unit in 0..length / 2 {
        emit(I::I32Const((97 + (seed + unit) % 26) as i32));
    }
    emit(I::ArrayNewFixed { array_type_index: TEXT, array_size: length / 2 });
}

/// A constructor: counts into the object's hash, and returns the object, which must not be null.
fn initialise() -> Function {
    let mut f = Function::new([]);
    for instruction in [
        I::LocalGet(0),
        I::LocalGet(0),
        I::StructGet { struct_type_index: NODE, field_index: 1 },
        I::LocalGet(1),
        I::I32Add,
        I::StructSet { struct_type_index: NODE, field_index: 1 },
        I::LocalGet(0),
        I::RefAsNonNull,
        I::End,
    ] {
        f.instruction(&instruction);
    }
    f
}

/// Counts the globals with four nodes in their graph.
fn check(globals: u32) -> Function {
    let mut f = Function::new([(1, ValType::I32)]);
    for i in 0..globals {
        for instruction in [
            I::GlobalGet(FIRST_GLOBAL + i),
            I::StructGet { struct_type_index: NODE, field_index: 4 },
            I::ArrayLen,
            I::I32Const(4),
            I::I32Eq,
            I::LocalGet(0),
            I::I32Add,
            I::LocalSet(0),
        ] {
            f.instruction(&instruction);
        }
    }
    f.instruction(&I::LocalGet(0));
    f.instruction(&I::End);
    f
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmparser::{Parser, Payload};

    fn instructions_of_start(wasm: &[u8]) -> usize {
        let bodies = Parser::new(0).parse_all(wasm).filter_map(|payload| match payload.unwrap() {
            Payload::CodeSectionEntry(body) => Some(body),
            _ => None,
        });
        let start = bodies.into_iter().next().unwrap();
        start.get_operators_reader().unwrap().into_iter().count()
    }

    #[test]
    fn modules_are_valid_and_linear_in_size() {
        let wasm = start_function(300);
        wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all()).validate_all(&wasm).unwrap();
        let (small, large) = (instructions_of_start(&wasm), instructions_of_start(&start_function(3000)));
        assert!((395_000..=405_000).contains(&large), "{large} instructions");
        assert!(large.abs_diff(10 * small) < 100, "{small}, {large}");
    }
}
