//! Every operation is lowered to IR that Cranelift's verifier accepts, under every plan.

mod numeric;
#[path = "../support/mod.rs"]
mod support;

use legato_compiler::artifact::TrapCode;
use legato_compiler::emit::{CodeGenerator, compile_trampolines};
use legato_compiler::mir::*;
use legato_compiler::module::*;
use smallvec::smallvec;
use support::*;

const STRUCT: TypeIndex = TypeIndex(0);
const SUBSTRUCT: TypeIndex = TypeIndex(1);
const DEEP: TypeIndex = TypeIndex(11);
const UNARY: TypeIndex = TypeIndex(12);
const OPEN: TypeIndex = TypeIndex(13);

/// A module with one of everything.
fn module() -> Module {
    let mut module = Module::default();
    let value = StorageType::Value;
    let fields = [
        StorageType::I8,
        StorageType::I16,
        value(I32),
        value(I64),
        value(F32),
        value(F64),
        value(V128),
        value(nullable(HeapType::Any)),
        value(nullable(HeapType::Func)),
    ];
    module.add_struct(&fields, None, false);
    // A chain of supertypes, deeper than displays are by rule.
    for parent in 0..11 {
        module.add_struct(&fields, Some(parent), parent == 10);
    }
    module.add_func_type(&[I32], &[I32]);
    let ty = FuncType { params: vec![I32], results: vec![I32] };
    module.add_type(CompositeType::Func(ty), None, false);
    for storage in fields {
        module.add_array(storage);
    }
    let info = &mut module.info;
    info.memories = vec![
        MemoryType { memory64: false, minimum: 1, maximum: None, page_size_log2: 16 },
        MemoryType { memory64: true, minimum: 1, maximum: None, page_size_log2: 16 },
        MemoryType { memory64: false, minimum: 1, maximum: None, page_size_log2: 0 },
    ];
    info.imported_memories = 1;
    let func = RefType { nullable: true, heap: HeapType::Func };
    info.tables = vec![
        TableType { table64: false, element: func, minimum: 4, maximum: Some(4) },
        TableType { table64: true, element: func, minimum: 4, maximum: None },
    ];
    info.imported_tables = 1;
    for mutable in [false, true] {
        for value in [I32, I64, F32, F64, V128, nullable(HeapType::Extern)] {
            info.globals.push(GlobalType { value, mutable });
        }
    }
    info.imported_globals = 3;
    info.imports.push(Import { module: "m".into(), name: "f".into(), kind: ImportKind::Func(UNARY) });
    info.functions.push(legato_compiler::module::Function { ty: UNARY, func_ref: None });
    info.imported_functions = 1;
    module
}

/// Adds a function type and a function with it, and starts building it.
fn start(module: &mut Module, params: &[ValueType], results: &[ValueType]) -> Build {
    let ty = module.add_func_type(params, results);
    let index = module.add_function(ty);
    Build::new(&module.info, index)
}

/// Compiles everything under both plans, with and without optimisation, and links it.
fn compile(module: Module, functions: Vec<legato_compiler::mir::Function>) {
    for (_, plan) in plans() {
        for optimize in [true, false] {
            let mut options = options(plan.clone());
            options.optimize = optimize;
            let generator = CodeGenerator::new(module.info.clone(), &options).unwrap();
            let codes = functions
                .iter()
                .map(|function| {
                    generator
                        .compile_function(function)
                        .unwrap_or_else(|error| panic!("{error}\n{}", generator.lowered(function).unwrap_or_default()))
                })
                .collect();
            let linked = generator.link(codes).unwrap();
            assert_eq!(linked.functions.len(), functions.len());
            assert!(linked.tables.traps.is_sorted_by_key(|trap| trap.offset));
            assert!(linked.tables.stack_maps.entries.is_sorted_by_key(|entry| entry.offset));
            assert!(linked.tables.call_sites.entries.is_sorted_by_key(|entry| entry.offset));
            assert!(linked.tables.addresses.is_sorted());
        }
    }
}

#[test]
fn memories_tables_globals() {
    use LoadKind as L;
    use StoreKind as S;
    let mut module = module();
    let mut functions = Vec::new();
    let loads = [
        (L::I32, I32),
        (L::I64, I64),
        (L::F32, F32),
        (L::F64, F64),
        (L::I32From8S, I32),
        (L::I32From8U, I32),
        (L::I32From16S, I32),
        (L::I32From16U, I32),
        (L::I64From8S, I64),
        (L::I64From8U, I64),
        (L::I64From16S, I64),
        (L::I64From16U, I64),
        (L::I64From32S, I64),
        (L::I64From32U, I64),
    ];
    let stores = [
        (S::I32, I32),
        (S::I64, I64),
        (S::F32, F32),
        (S::F64, F64),
        (S::I32To8, I32),
        (S::I32To16, I32),
        (S::I64To8, I64),
        (S::I64To16, I64),
        (S::I64To32, I64),
    ];
    for number in 0..3 {
        let memory = MemoryIndex(number);
        let index = if number == 1 { I64 } else { I32 };
        let offsets: &[u64] = if number == 1 { &[0, 1 << 40, u64::MAX] } else { &[0, 8, 0x8000_0000, 0xffff_ffff] };
        for &offset in offsets {
            let mut build = start(&mut module, &[index], &[]);
            let address = build.param(0);
            for (kind, ty) in loads {
                build.op(Op::Load(memory, kind, offset), &[address], ty);
            }
            functions.push(build.returns(&[]));
            let mut build = start(&mut module, &[index, I32, I64, F32, F64], &[]);
            let address = build.param(0);
            for (kind, ty) in stores {
                let value = build.param(1 + [I32, I64, F32, F64].iter().position(|&other| other == ty).unwrap());
                build.inst(Op::Store(memory, kind, offset), &[address, value], &[]);
            }
            functions.push(build.returns(&[]));
        }
        let mut build = start(&mut module, &[index, I32, I32], &[index, index]);
        let [at, byte, length] = [0, 1, 2].map(|number| build.param(number));
        let size = build.op(Op::MemorySize(memory), &[], index);
        let grown = build.op(Op::MemoryGrow(memory), &[at], index);
        build.inst(Op::MemoryFill(memory), &[at, byte, at], &[]);
        build.inst(Op::MemoryCopy(memory, MemoryIndex(0)), &[at, byte, length], &[]);
        build.inst(Op::MemoryInit(memory, DataIndex(0)), &[at, byte, length], &[]);
        build.inst(Op::DataDrop(DataIndex(0)), &[], &[]);
        functions.push(build.returns(&[size, grown]));
    }
    for number in 0..2 {
        let table = TableIndex(number);
        let index = if number == 1 { I64 } else { I32 };
        let func = nullable(HeapType::Func);
        let mut build = start(&mut module, &[index, func, I32], &[func, index, index]);
        let [at, reference, length] = [0, 1, 2].map(|number| build.param(number));
        let got = build.op(Op::TableGet(table), &[at], func);
        build.inst(Op::TableSet(table), &[at, reference], &[]);
        let size = build.op(Op::TableSize(table), &[], index);
        let grown = build.op(Op::TableGrow(table), &[reference, at], index);
        build.inst(Op::TableFill(table), &[at, reference, at], &[]);
        build.inst(Op::TableCopy(table, TableIndex(0)), &[at, length, length], &[]);
        build.inst(Op::TableInit(table, ElemIndex(0)), &[at, length, length], &[]);
        build.inst(Op::ElemDrop(ElemIndex(0)), &[], &[]);
        functions.push(build.returns(&[got, size, grown]));
    }
    for number in 0..12 {
        let global = GlobalIndex(number);
        let ty = module.info.globals[global.index()];
        let mut build = start(&mut module, &[ty.value], &[ty.value]);
        let value = build.param(0);
        if ty.mutable {
            build.inst(Op::GlobalSet(global), &[value], &[]);
        }
        let got = build.op(Op::GlobalGet(global), &[], ty.value);
        functions.push(build.returns(&[got]));
    }
    compile(module, functions);
}

#[test]
fn objects() {
    let mut module = module();
    let mut functions = Vec::new();
    let any = nullable(HeapType::Any);
    let all = [I32, I32, I32, I64, F32, F64, V128, any, nullable(HeapType::Func)];
    let strukt = concrete(0);
    for check in [NullCheck::Needed, NullCheck::Elided] {
        let mut params = all.to_vec();
        params.push(strukt);
        let mut build = start(&mut module, &params, &[strukt, strukt]);
        let fields: Vec<_> = (0..9).map(|number| build.param(number)).collect();
        let object = build.param(9);
        for (field, &ty) in all.iter().enumerate() {
            let extensions: &[Extension] =
                if field < 2 { &[Extension::Signed, Extension::Unsigned] } else { &[Extension::None] };
            for &extension in extensions {
                build.op(Op::StructGet(STRUCT, field as u32, extension, check), &[object], ty);
            }
            build.inst(Op::StructSet(STRUCT, field as u32, check), &[object, fields[field]], &[]);
        }
        let new = build.op(Op::StructNew(STRUCT), &fields, strukt);
        let default = build.op(Op::StructNewDefault(SUBSTRUCT), &[], strukt);
        functions.push(build.returns(&[new, default]));
    }
    for (number, &element) in all.iter().enumerate() {
        let ty = TypeIndex(14 + number as u32);
        let array = concrete(ty.0);
        let extension = if number < 2 { Extension::Signed } else { Extension::None };
        let mut build = start(&mut module, &[array, I32, element], &[array; 9]);
        let [old, index, value] = [0, 1, 2].map(|number| build.param(number));
        let length = build.op(Op::ArrayLen(NullCheck::Needed), &[old], I32);
        build.inst(Op::BoundsCheck, &[index, length], &[]);
        build.op(Op::ArrayGet(ty, extension), &[old, index], element);
        build.inst(Op::ArraySet(ty), &[old, index, value], &[]);
        build.inst(Op::ArrayFill(ty), &[old, index, value, length], &[]);
        build.inst(Op::ArrayCopy(ty, ty), &[old, index, old, index, length], &[]);
        build.inst(Op::ArrayInitData(ty, DataIndex(0)), &[old, index, index, index], &[]);
        build.inst(Op::ArrayInitElem(ty, ElemIndex(0)), &[old, index, index, index], &[]);
        let constants = [3, 100, -1].map(|length| build.op(Op::Const(Constant::I32(length)), &[], I32));
        let mut results = vec![build.op(Op::ArrayNew(ty), &[value, index], array)];
        for length in constants {
            results.push(build.op(Op::ArrayNew(ty), &[value, length], array));
        }
        results.push(build.op(Op::ArrayNewDefault(ty), &[index], array));
        results.push(build.op(Op::ArrayNewDefault(ty), &[constants[1]], array));
        results.push(build.op(Op::ArrayNewFixed(ty), &[value, value], array));
        results.push(build.op(Op::ArrayNewData(ty, DataIndex(1)), &[index, index], array));
        results.push(build.op(Op::ArrayNewElem(ty, ElemIndex(1)), &[index, index], array));
        functions.push(build.returns(&results));
    }
    // A module larger than any class.
    let ty = TypeIndex(16);
    let mut build = start(&mut module, &[I32], &[concrete(16)]);
    let elements = vec![build.param(0); 1000];
    let array = build.op(Op::ArrayNewFixed(ty), &elements, concrete(16));
    functions.push(build.returns(&[array]));
    compile(module, functions);
}

#[test]
fn references() {
    use HeapType::*;
    let mut module = module();
    let mut functions = Vec::new();
    let any_types = [
        Any,
        Eq,
        I31,
        Struct,
        Array,
        None,
        Concrete(STRUCT),
        Concrete(SUBSTRUCT),
        Concrete(DEEP),
        Concrete(TypeIndex(16)),
    ];
    let func_types = [Func, NoFunc, Concrete(UNARY), Concrete(OPEN)];
    for hierarchy in [&any_types[..], &func_types, &[Extern, NoExtern], &[Exn, NoExn]] {
        for &source in hierarchy {
            for &target in hierarchy {
                for nullables in 0..4 {
                    let source = ValueType::Ref(RefType { nullable: nullables & 1 != 0, heap: source });
                    let target = RefType { nullable: nullables & 2 != 0, heap: target };
                    let result = ValueType::Ref(target);
                    let mut build = start(&mut module, &[source], &[I32, result]);
                    let reference = build.param(0);
                    let test = build.op(Op::RefTest(target), &[reference], I32);
                    let cast = build.op(Op::RefCast(target), &[reference], result);
                    functions.push(build.returns(&[test, cast]));

                    // As `br_on_cast` is translated.
                    let mut build = start(&mut module, &[source], &[I32]);
                    let reference = build.param(0);
                    let [yes, no] = [0; 2].map(|_| build.function.add_block());
                    let param = build.function.add_param(yes, result);
                    let test = build.op(Op::RefTest(target), &[reference], I32);
                    let refined = build.op(Op::Refine(target), &[reference], result);
                    let then = Edge { block: yes, args: smallvec![refined] };
                    build.end(Terminator::Branch { cond: test, then, otherwise: Edge::to(no) });
                    build.switch(yes);
                    let is_null = build.op(Op::RefIsNull, &[param], I32);
                    build.end(Terminator::Return(smallvec![is_null]));
                    build.switch(no);
                    build.end(Terminator::Trap(TrapCode::Unreachable));
                    functions.push(build.function);
                }
            }
        }
    }
    let i31 = nullable(I31);
    let mut build = start(&mut module, &[I32, i31], &[i31, I32, I32, I32, nullable(Func), i31]);
    let (number, reference) = (build.param(0), build.param(1));
    let made = build.op(Op::RefI31, &[number], i31);
    let signed = build.op(Op::I31Get(Extension::Signed, NullCheck::Needed), &[reference], I32);
    let unsigned = build.op(Op::I31Get(Extension::Unsigned, NullCheck::Elided), &[reference], I32);
    let equal = build.op(Op::RefEq, &[made, reference], I32);
    let func = build.op(Op::RefFunc(FuncIndex(1)), &[], nullable(Func));
    let checked = build.op(Op::NullCheck, &[reference], i31);
    functions.push(build.returns(&[made, signed, unsigned, equal, func, checked]));
    compile(module, functions);
}

#[test]
fn control() {
    let mut module = module();
    let mut functions = Vec::new();
    let tag_type = module.add_func_type(&[I32, concrete(0)], &[]);
    module.info.tags = vec![tag_type, tag_type];
    let exn = ValueType::Ref(RefType { nullable: false, heap: HeapType::Exn });
    let object = concrete(0);
    let func = concrete(UNARY.0);
    let callees = |build: &Build| {
        vec![
            Callee::Direct(FuncIndex(0)),
            Callee::Direct(FuncIndex(1)),
            Callee::Indirect(TableIndex(0), UNARY, build.param(0)),
            Callee::Indirect(TableIndex(0), OPEN, build.param(0)),
            Callee::Reference(UNARY, build.param(1), NullCheck::Needed),
            Callee::Reference(UNARY, build.param(1), NullCheck::Elided),
        ]
    };
    let unary = module.add_function(UNARY);
    assert_eq!(unary, FuncIndex(1));
    let build = Build::new(&module.info, unary);
    let x = build.param(0);
    functions.push(build.returns(&[x]));

    // Plain calls and tail calls, with references alive across them, and polls in a loop.
    for number in 0..6 {
        let mut build = start(&mut module, &[I32, func, object], &[I32, object]);
        let callee = callees(&build)[number].clone();
        let (x, kept) = (build.param(0), build.param(2));
        let header = build.function.add_block();
        let carried = build.function.add_param(header, object);
        build.end(Terminator::Jump(Edge { block: header, args: smallvec![kept] }));
        build.switch(header);
        let result = build.op(Op::Call(callee), &[x], I32);
        let new = build.op(Op::StructNewDefault(STRUCT), &[], object);
        build.inst(Op::StructSet(STRUCT, 7, NullCheck::Elided), &[new, carried], &[]);
        build.inst(Op::Poll, &[], &[]);
        let done = build.function.add_block();
        let again = Edge { block: header, args: smallvec![new] };
        build.end(Terminator::Branch { cond: result, then: again, otherwise: Edge::to(done) });
        build.switch(done);
        functions.push(build.returns(&[result, kept]));

        let mut build = start(&mut module, &[I32, func], &[I32]);
        let callee = callees(&build)[number].clone();
        let x = build.param(0);
        build.end(Terminator::TailCall { callee, args: smallvec![x] });
        functions.push(build.function);

        let mut build = start(&mut module, &[I32, func, object], &[I32]);
        let callee = callees(&build)[number].clone();
        let (x, kept) = (build.param(0), build.param(2));
        let [normal, caught, all] = [0; 3].map(|_| build.function.add_block());
        let result = build.function.add_param(normal, I32);
        let carried = build.function.add_param(normal, object);
        let exception = build.function.add_param(caught, exn);
        let rethrown = build.function.add_param(all, exn);
        let saved = build.function.add_param(all, object);
        let normal_edge = Edge { block: normal, args: smallvec![kept] };
        let handlers = vec![
            HandlerEdge { tag: Some(TagIndex(1)), edge: Edge::to(caught) },
            HandlerEdge { tag: None, edge: Edge { block: all, args: smallvec![kept] } },
        ];
        build.end(Terminator::TryCall { callee, args: smallvec![x], normal: normal_edge, handlers });
        build.switch(normal);
        build.op(Op::StructGet(STRUCT, 2, Extension::None, NullCheck::Needed), &[carried], I32);
        build.end(Terminator::Return(smallvec![result]));
        build.switch(caught);
        let payload = build.op(Op::ExceptionGet(TagIndex(1), 0), &[exception], I32);
        build.op(Op::ExceptionGet(TagIndex(1), 1), &[exception], object);
        build.end(Terminator::Return(smallvec![payload]));
        build.switch(all);
        let new = build.op(Op::ExceptionNew(TagIndex(0)), &[x, saved], exn);
        let handler = HandlerEdge { tag: None, edge: Edge::to(caught) };
        let handlers = if number % 2 == 0 { vec![handler] } else { vec![] };
        let thrown = if number % 3 == 0 { new } else { rethrown };
        build.end(Terminator::Throw { exception: thrown, handlers });
        functions.push(build.function);
    }

    // A switch, and more results than registers.
    let many: Vec<ValueType> = (0..24).map(|number| [I32, I64, F32, F64, object][number % 5]).collect();
    let mut build = start(&mut module, &many, &many);
    let values: Vec<_> = (0..24).map(|number| build.param(number)).collect();
    let callee = Callee::Direct(build.function.index);
    let [first, second, third] = [0; 3].map(|_| build.function.add_block());
    let targets = vec![Edge::to(first), Edge::to(second), Edge::to(third)];
    build.end(Terminator::Switch { index: values[0], targets, default: Edge::to(first) });
    build.switch(first);
    build.end(Terminator::Return(values.iter().copied().collect()));
    build.switch(second);
    let call = build.inst(Op::Call(callee.clone()), &values, &many);
    let results = build.function.insts[call.index()].results.to_vec();
    build.end(Terminator::Return(results.into_iter().collect()));
    build.switch(third);
    build.end(Terminator::TailCall { callee, args: values.iter().copied().collect() });
    functions.push(build.function);
    compile(module, functions);
}

#[test]
fn trampolines_alone() {
    use legato_compiler::artifact::{MachineSignature, MachineType as M};
    let all = [M::I32, M::I64, M::F32, M::F64, M::V128];
    let many: Vec<_> = (0..30).map(|number| all[number % 5]).collect();
    let signatures = [
        MachineSignature { params: vec![], results: vec![] },
        MachineSignature { params: many.clone(), results: many },
    ];
    let module = compile_trampolines(&signatures, &options(plans()[0].1.clone())).unwrap();
    assert_eq!(module.trampolines.len(), 2);
    assert!(module.trampolines.iter().all(|pair| pair.entry.length > 0 && pair.exit.length > 0));
    module.target.check_host().unwrap();
}
