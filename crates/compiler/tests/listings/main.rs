//! The machine code of the hot sequences, as golden listings under `golden/`. Set `LEGATO_BLESS=1` to write them anew
//! after a deliberate change; read the difference before committing it.
#![cfg(target_arch = "x86_64")]

mod loops;
mod quick;
#[path = "../support/mod.rs"]
mod support;

use std::fmt::Write;

use legato_compiler::artifact::TrapCode;
use legato_compiler::emit::CodeGenerator;
use legato_compiler::mir::*;
use legato_compiler::module::*;
use legato_heap::layout::SpineLayout;
use legato_heap::plan::{AccessPlan, ArrayPlan, SpinePlan};
use smallvec::smallvec;
use support::*;

/// Compares a function's code under each kind of heap with the listing of this name.
fn check(name: &str, module: &Module, function: &legato_compiler::mir::Function) {
    check_under(name, module, function, all_plans().into_iter().map(|(title, plan)| (title.to_string(), plan)));
}

/// Compares a function's code under each of the plans with the listing of this name.
fn check_under(
    name: &str,
    module: &Module,
    function: &legato_compiler::mir::Function,
    plans: impl IntoIterator<Item = (String, AccessPlan)>,
) {
    let mut text = String::new();
    for (title, plan) in plans {
        let mut options = options(plan);
        options.verify = false;
        let generator = CodeGenerator::new(module.info.clone(), &options).unwrap();
        let code = generator.disassemble(function).unwrap();
        writeln!(text, "; {name}, {title}\n{}", code.trim_end()).unwrap();
    }
    compare(name, &text);
}

/// Compares a text with the listing of this name.
fn compare(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("LEGATO_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    // Instruction selection depends on the processor's features; the listings are made with all of them.
    if std::is_x86_feature_detected!("avx2") {
        assert_eq!(text, expected, "{name}: run with LEGATO_BLESS=1 if this is meant");
    }
}

fn module() -> Module {
    let mut module = Module::default();
    let fields = [StorageType::Value(I32), StorageType::Value(concrete(0))];
    module.add_struct(&fields, None, false);
    module.add_struct(&fields, Some(0), false);
    module.add_array(StorageType::Value(I32));
    module
}

fn start(module: &mut Module, params: &[ValueType], results: &[ValueType]) -> Build {
    let ty = module.add_func_type(params, results);
    let index = module.add_function(ty);
    Build::new(&module.info, index)
}

#[test]
fn allocation() {
    let mut module = module();
    let mut build = start(&mut module, &[I32, concrete(0)], &[concrete(0)]);
    let fields = [build.param(0), build.param(1)];
    let object = build.op(Op::StructNew(TypeIndex(0)), &fields, concrete(0));
    check("allocation", &module, &build.returns(&[object]));
}

#[test]
fn array_copy() {
    for (name, storage) in
        [("copy_of_characters", StorageType::I16), ("copy_of_references", StorageType::Value(concrete(0)))]
    {
        let mut module = module();
        let ty = module.add_array(storage);
        let mut build = start(&mut module, &[concrete(ty.0), I32, concrete(ty.0), I32, I32], &[]);
        let args: Vec<_> = (0..5).map(|number| build.param(number)).collect();
        build.inst(Op::ArrayCopy(ty, ty), &args, &[]);
        check(name, &module, &build.returns(&[]));
    }
}

#[test]
fn field_access() {
    let mut module = module();
    let mut build = start(&mut module, &[concrete(0)], &[I32]);
    let object = build.param(0);
    let next = build.op(Op::StructGet(TypeIndex(0), 1, Extension::None, NullCheck::Needed), &[object], concrete(0));
    let number = build.op(Op::StructGet(TypeIndex(0), 0, Extension::None, NullCheck::Needed), &[next], I32);
    build.inst(Op::StructSet(TypeIndex(0), 0, NullCheck::Elided), &[object, number], &[]);
    check("field_access", &module, &build.returns(&[number]));
}

/// The two halves of a product of 64 bits, as large integers are multiplied: it is made once, and its low half stored.
#[test]
fn low_half() {
    let mut module = module();
    let array = module.add_array(StorageType::Value(I32));
    let mut build = start(&mut module, &[concrete(array.0), I64, I64], &[I64]);
    let [digits, a, b] = [0, 1, 2].map(|number| build.param(number));
    let product = build.op(Op::Binary(BinaryOp::I64Mul), &[a, b], I64);
    let sum = build.op(Op::Binary(BinaryOp::I64Add), &[product, a], I64);
    let low = build.op(Op::Unary(UnaryOp::I32WrapI64), &[sum], I32);
    let first = build.op(Op::Const(Constant::I32(0)), &[], I32);
    build.inst(Op::ArraySet(array), &[digits, first, low], &[]);
    let bits = build.op(Op::Const(Constant::I64(32)), &[], I64);
    let high = build.op(Op::Binary(BinaryOp::I64ShrU), &[sum, bits], I64);
    check("low_half", &module, &build.returns(&[high]));
}

/// A check of the program's own that throws a new object: a cold block, with calls alone, and roots that it stores.
#[test]
fn check_that_throws() {
    let mut module = module();
    let tag_type = module.add_func_type(&[concrete(0)], &[]);
    module.info.tags = vec![tag_type];
    let ty = module.add_func_type(&[concrete(0)], &[]);
    let complete = module.add_function(ty);
    let mut build = start(&mut module, &[I32, concrete(0)], &[I32]);
    let [fine, fails] = [0; 2].map(|_| build.function.add_block());
    let (number, object) = (build.param(0), build.param(1));
    build.end(Terminator::Branch { cond: number, then: Edge::to(fine), otherwise: Edge::to(fails) });
    build.function.blocks[fails.index()].cold = true;
    build.switch(fails);
    let error = build.op(Op::StructNewDefault(TypeIndex(0)), &[], concrete(0));
    build.inst(Op::StructSet(TypeIndex(0), 1, NullCheck::Elided), &[error, object], &[]);
    build.inst(Op::Call(Callee::Direct(complete)), &[error], &[]);
    let exception = ValueType::Ref(RefType { nullable: false, heap: HeapType::Exn });
    let exception = build.op(Op::ExceptionNew(TagIndex(0)), &[error], exception);
    build.end(Terminator::Throw { exception, handlers: Vec::new() });
    build.switch(fine);
    check("check_that_throws", &module, &build.returns(&[number]));
}

#[test]
fn cast() {
    let mut module = module();
    let target = RefType { nullable: false, heap: HeapType::Concrete(TypeIndex(1)) };
    let mut build = start(&mut module, &[nullable(HeapType::Any)], &[I32]);
    let object = build.param(0);
    let object = build.op(Op::RefCast(target), &[object], ValueType::Ref(target));
    let number = build.op(Op::StructGet(TypeIndex(1), 0, Extension::None, NullCheck::Elided), &[object], I32);
    check("cast", &module, &build.returns(&[number]));
}

/// Stores of references into a struct and an array that are not new, and into a struct that is.
#[test]
fn store_barrier() {
    let mut module = module();
    let array = module.add_array(StorageType::Value(concrete(0)));
    let mut build = start(&mut module, &[concrete(0), concrete(array.0), I32], &[concrete(0)]);
    let [object, array_value, index] = [0, 1, 2].map(|number| build.param(number));
    build.inst(Op::StructSet(TypeIndex(0), 1, NullCheck::Needed), &[object, object], &[]);
    build.inst(Op::ArraySet(array), &[array_value, index, object], &[]);
    let new = build.op(Op::StructNewDefault(TypeIndex(0)), &[], concrete(0));
    build.inst(Op::StructSet(TypeIndex(0), 1, NullCheck::Elided), &[new, object], &[]);
    check("store_barrier", &module, &build.returns(&[new]));
}

/// What comes before stores while a snapshot may be marked: into a struct, an array, a global and a table that are not
/// new, and into a struct that is. Alone, and with what comes after in a generational heap.
#[test]
fn snapshot_barrier() {
    let mut module = module();
    let array = module.add_array(StorageType::Value(concrete(0)));
    module.info.globals.push(GlobalType { value: concrete(0), mutable: true });
    let element = RefType { nullable: true, heap: HeapType::Concrete(TypeIndex(0)) };
    module.info.tables.push(TableType { table64: false, element, minimum: 1, maximum: None });
    let mut build = start(&mut module, &[concrete(0), concrete(array.0), I32], &[concrete(0)]);
    let [object, array_value, index] = [0, 1, 2].map(|number| build.param(number));
    build.inst(Op::StructSet(TypeIndex(0), 1, NullCheck::Needed), &[object, object], &[]);
    build.inst(Op::ArraySet(array), &[array_value, index, object], &[]);
    build.inst(Op::GlobalSet(GlobalIndex(0)), &[object], &[]);
    build.inst(Op::TableSet(TableIndex(0)), &[index, object], &[]);
    let new = build.op(Op::StructNewDefault(TypeIndex(0)), &[], concrete(0));
    build.inst(Op::StructSet(TypeIndex(0), 1, NullCheck::Elided), &[new, object], &[]);
    let plans = ["direct", "generational, store buffer, zeroed"]
        .map(|name| (format!("{name}, snapshot"), with_snapshot(plans_by_name(name).1)));
    check_under("snapshot_barrier", &module, &build.returns(&[new]), plans);
}

/// References that live across calls: one is used between two of them, the other behind both.
#[test]
fn calls() {
    let mut module = module();
    let mut build = start(&mut module, &[concrete(0), concrete(0)], &[I32]);
    let (first, second) = (build.param(0), build.param(1));
    let ty = module.add_func_type(&[], &[]);
    let callee = module.add_function(ty);
    build.inst(Op::Call(Callee::Direct(callee)), &[], &[]);
    let number = build.op(Op::StructGet(TypeIndex(0), 0, Extension::None, NullCheck::Needed), &[first], I32);
    build.inst(Op::Call(Callee::Direct(callee)), &[], &[]);
    let other = build.op(Op::StructGet(TypeIndex(0), 0, Extension::None, NullCheck::Needed), &[second], I32);
    let sum = build.op(Op::Binary(BinaryOp::I32Add), &[number, other], I32);
    check("calls", &module, &build.returns(&[sum]));
}

/// Calls through a table of any functions, and of a reference that may be null, twice each.
#[test]
fn indirect_calls() {
    let mut module = module();
    let ty = module.add_func_type(&[], &[]);
    let function = nullable(HeapType::Concrete(ty));
    let element = RefType { nullable: true, heap: HeapType::Func };
    module.info.tables.push(TableType { table64: false, element, minimum: 1, maximum: None });
    let mut build = start(&mut module, &[I32, function], &[]);
    let (index, reference) = (build.param(0), build.param(1));
    for _ in 0..2 {
        build.inst(Op::Call(Callee::Indirect(TableIndex(0), ty, index)), &[], &[]);
    }
    for _ in 0..2 {
        build.inst(Op::Call(Callee::Reference(ty, reference, NullCheck::Needed)), &[], &[]);
    }
    let plans = [("generational, cards".to_string(), generational(None, false))];
    check_under("indirect_calls", &module, &build.returns(&[]), plans);
}

/// `array.new_default` and `array.new` of a length known at run time only.
/// Immutable globals are read behind the allocation, once for each element, and take no slots; one that is used
/// otherwise too, and a mutable one, are read before it.
#[test]
fn array_of_globals() {
    let mut module = module();
    let array = module.add_array(StorageType::Value(concrete(0)));
    let [first, second, third] = [0, 1, 2].map(GlobalIndex);
    for mutable in [false, false, true] {
        module.info.globals.push(GlobalType { value: concrete(0), mutable });
    }
    let mut build = start(&mut module, &[], &[concrete(array.0), concrete(0)]);
    let [first, second, third] = [first, second, third].map(|global| build.op(Op::GlobalGet(global), &[], concrete(0)));
    let elements = [first, second, first, third];
    let object = build.op(Op::ArrayNewFixed(array), &elements, concrete(array.0));
    check("array_of_globals", &module, &build.returns(&[object, second]));
}

/// So is a constant that is stored once: it takes no register across the allocation's call. One that is used otherwise,
/// too, is made once where Cranelift's mid-end runs, which makes it anew where that is best, and else at each use.
#[test]
fn constants_are_made_behind_the_allocation() {
    for has_mid_end in [true, false] {
        let mut module = module();
        let array = module.add_array(StorageType::Value(ValueType::F64));
        let results = [concrete(array.0), concrete(0), ValueType::F64, I32];
        let mut build = start(&mut module, &[I32], &results);
        let param = build.param(0);
        let op = if has_mid_end { BinaryOp::I32Shl } else { BinaryOp::I32Add };
        let sum = build.op(Op::Binary(op), &[param, param], I32);
        let [first, second, shared] =
            [1.5f64, 2.5, 3.5].map(|number| build.op(Op::Const(Constant::F64(number.to_bits())), &[], ValueType::F64));
        let number = build.op(Op::Const(Constant::I32(77)), &[], I32);
        let null = build.op(Op::Const(Constant::Null(HeapType::Concrete(TypeIndex(0)))), &[], concrete(0));
        let elements = build.op(Op::ArrayNewFixed(array), &[first, second, shared], concrete(array.0));
        let object = build.op(Op::StructNew(TypeIndex(0)), &[number, null], concrete(0));
        let function = build.returns(&[elements, object, shared, sum]);
        for (title, plan) in all_plans() {
            let text = CodeGenerator::new(module.info.clone(), &options(plan)).unwrap().lowered(&function).unwrap();
            let find = |what: &str| text.find(what).unwrap_or_else(|| panic!("{title}: no {what} in\n{text}"));
            // The allocation is the first that stores something.
            let allocation = find("store");
            let shared = "f64const 0x1.c000000000000p1";
            let (at, times) = (find(shared), text.matches(shared).count());
            assert_eq!((at < allocation, times), (has_mid_end, if has_mid_end { 1 } else { 2 }), "{title}\n{text}");
            for late in ["f64const 0x1.8000000000000p0", "f64const 0x1.4000000000000p1", "iconst.i32 77"] {
                assert!(find(late) > allocation, "{title}: {late}\n{text}");
            }
        }
    }
}

#[test]
fn array_allocation() {
    let mut module = module();
    let mut build = start(&mut module, &[I32], &[concrete(2)]);
    let length = build.param(0);
    build.op(Op::ArrayNewDefault(TypeIndex(2)), &[length], concrete(2));
    let array = build.op(Op::ArrayNew(TypeIndex(2)), &[length, length], concrete(2));
    check("array_allocation", &module, &build.returns(&[array]));
}

/// A generational heap with z-rays (with and without copy-on-write) and with arraylets.
fn spines() -> Vec<(String, AccessPlan)> {
    let plan = |first_n, zero_leaf, copy_on_write| {
        let layout = SpineLayout { first_n, leaf_log2: 10, all_in_leaves: false, grows: false };
        ArrayPlan::Spines(SpinePlan { layout, zero_leaf, copy_on_write })
    };
    let plans = [
        ("z-rays", plan(4096, Some(ZERO_LEAF), false)),
        ("z-rays, copy-on-write", plan(4096, Some(ZERO_LEAF), true)),
        ("arraylets", plan(0, None, false)),
    ];
    let (_, base) = plans_by_name("generational, store buffer, zeroed");
    plans.map(|(title, arrays)| (title.to_string(), AccessPlan { arrays, ..base.clone() })).into()
}

fn plans_by_name(name: &str) -> (&'static str, AccessPlan) {
    plans().into_iter().find(|(title, _)| *title == name).expect("a plan of this name")
}

/// A load at any index, and one at an index that is known to be small.
#[test]
fn spine_load() {
    let mut module = module();
    let mut build = start(&mut module, &[concrete(2), I32], &[I32, I32]);
    let (array, index) = (build.param(0), build.param(1));
    let any = build.op(Op::ArrayGet(TypeIndex(2), Extension::None), &[array, index], I32);
    let mask = build.op(Op::Const(Constant::I32(255)), &[], I32);
    let small = build.op(Op::Binary(BinaryOp::I32And), &[index, mask], I32);
    let small = build.op(Op::ArrayGet(TypeIndex(2), Extension::None), &[array, small], I32);
    check_under("spine_load", &module, &build.returns(&[any, small]), spines());
}

/// Stores of a number and of a reference.
#[test]
fn spine_store() {
    let mut module = module();
    let references = module.add_array(StorageType::Value(concrete(0)));
    let mut build = start(&mut module, &[concrete(2), I32, concrete(references.0), concrete(0)], &[]);
    let [numbers, index, objects, object] = [0, 1, 2, 3].map(|number| build.param(number));
    build.inst(Op::ArraySet(TypeIndex(2)), &[numbers, index, index], &[]);
    build.inst(Op::ArraySet(references), &[objects, index, object], &[]);
    check_under("spine_store", &module, &build.returns(&[]), spines());
}

/// Copies an array's elements to another, with a poll at the back-edge.
fn copying_loop(module: &mut Module) -> legato_compiler::mir::Function {
    let mut build = start(module, &[concrete(2), concrete(2)], &[]);
    let [from, to] = [0, 1].map(|number| build.param(number));
    let [header, body, done] = [0; 3].map(|_| build.function.add_block());
    let index = build.function.add_param(header, I32);
    let zero = build.op(Op::Const(Constant::I32(0)), &[], I32);
    let length = build.op(Op::ArrayLen(NullCheck::Needed), &[from], I32);
    let to_length = build.op(Op::ArrayLen(NullCheck::Needed), &[to], I32);
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![zero] }));
    build.switch(header);
    let more = build.op(Op::Compare(CompareOp::I32LtU), &[index, length], I32);
    build.end(Terminator::Branch { cond: more, then: Edge::to(body), otherwise: Edge::to(done) });
    build.switch(body);
    let element = build.op(Op::ArrayGet(TypeIndex(2), Extension::None), &[from, index], I32);
    build.inst(Op::BoundsCheck, &[index, to_length], &[]);
    build.inst(Op::ArraySet(TypeIndex(2)), &[to, index, element], &[]);
    let one = build.op(Op::Const(Constant::I32(1)), &[], I32);
    let next = build.op(Op::Binary(BinaryOp::I32Add), &[index, one], I32);
    build.inst(Op::Poll, &[], &[]);
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![next] }));
    build.switch(done);
    build.returns(&[])
}

#[test]
fn spine_loop() {
    let mut module = module();
    let function = copying_loop(&mut module);
    check_under("spine_loop", &module, &function, spines());
}

/// A generational heap with first N bytes that grow: with N = 4096, and with N = 0 and copy-on-write.
fn growing() -> Vec<(String, AccessPlan)> {
    let plan = |first_n, copy_on_write| {
        let layout = SpineLayout { first_n, leaf_log2: 10, all_in_leaves: false, grows: true };
        ArrayPlan::Spines(SpinePlan { layout, zero_leaf: Some(ZERO_LEAF), copy_on_write })
    };
    let (_, base) = plans_by_name("generational, store buffer, zeroed");
    let plans = [("first 4096", plan(4096, false)), ("first 0, copy-on-write", plan(0, true))];
    plans.map(|(title, arrays)| (title.to_string(), AccessPlan { arrays, ..base.clone() })).into()
}

/// WebAssembly's check of an index against the length of an array that may be null.
fn checked(build: &mut Build, array: Value, index: Value) {
    let length = build.op(Op::ArrayLen(NullCheck::Needed), &[array], I32);
    build.inst(Op::BoundsCheck, &[index, length], &[]);
}

/// A load with WebAssembly's check, and one of an index that has been compared before.
#[test]
fn growing_load() {
    let mut module = module();
    let mut build = start(&mut module, &[concrete(2), I32, concrete(2), I32], &[I32, I32]);
    let [array, index, second, other] = [0, 1, 2, 3].map(|number| build.param(number));
    checked(&mut build, array, index);
    let loaded = build.op(Op::ArrayGet(TypeIndex(2), Extension::None), &[array, index], I32);
    let compared = build.op(Op::ArrayGet(TypeIndex(2), Extension::None), &[second, other], I32);
    check_under("growing_load", &module, &build.returns(&[loaded, compared]), growing());
}

/// Stores of a number and of a reference, with WebAssembly's check.
#[test]
fn growing_store() {
    let mut module = module();
    let references = module.add_array(StorageType::Value(concrete(0)));
    let mut build = start(&mut module, &[concrete(2), I32, concrete(references.0), concrete(0)], &[]);
    let [numbers, index, objects, object] = [0, 1, 2, 3].map(|number| build.param(number));
    checked(&mut build, numbers, index);
    build.inst(Op::ArraySet(TypeIndex(2)), &[numbers, index, index], &[]);
    checked(&mut build, objects, index);
    build.inst(Op::ArraySet(references), &[objects, index, object], &[]);
    check_under("growing_store", &module, &build.returns(&[]), growing());
}

#[test]
fn growing_loop() {
    let mut module = module();
    let function = copying_loop(&mut module);
    check_under("growing_loop", &module, &function, growing());
}

/// Follows the indexes that an array holds, up to a zero: no strip serves that.
#[test]
fn growing_chase() {
    let mut module = module();
    let mut build = start(&mut module, &[concrete(2), I32], &[]);
    let (array, first) = (build.param(0), build.param(1));
    let [header, done] = [0; 2].map(|_| build.function.add_block());
    let index = build.function.add_param(header, I32);
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![first] }));
    build.switch(header);
    checked(&mut build, array, index);
    let next = build.op(Op::ArrayGet(TypeIndex(2), Extension::None), &[array, index], I32);
    build.inst(Op::Poll, &[], &[]);
    let back = Edge { block: header, args: smallvec![next] };
    build.end(Terminator::Branch { cond: next, then: back, otherwise: Edge::to(done) });
    build.switch(done);
    check_under("growing_chase", &module, &build.returns(&[]), growing());
}

/// Arrays in one piece, of a known and of an unknown length.
#[test]
fn growing_allocation() {
    let mut module = module();
    let mut build = start(&mut module, &[I32], &[concrete(2), concrete(2)]);
    let length = build.param(0);
    let dynamic = build.op(Op::ArrayNewDefault(TypeIndex(2)), &[length], concrete(2));
    let ten = build.op(Op::Const(Constant::I32(10)), &[], I32);
    let known = build.op(Op::ArrayNewDefault(TypeIndex(2)), &[ten], concrete(2));
    check_under("growing_allocation", &module, &build.returns(&[dynamic, known]), growing().into_iter().take(1));
}

/// A struct and an array of unknown length, where the runs of each size class have a queue.
#[test]
fn queued_allocation() {
    let mut module = module();
    let mut build = start(&mut module, &[I32, concrete(0), I32], &[concrete(0), concrete(2)]);
    let [number, next, length] = [0, 1, 2].map(|number| build.param(number));
    let object = build.op(Op::StructNew(TypeIndex(0)), &[number, next], concrete(0));
    let array = build.op(Op::ArrayNewDefault(TypeIndex(2)), &[length], concrete(2));
    let function = build.returns(&[object, array]);
    check_under("queued_allocation", &module, &function, queued());
}

/// A branch on whether an index is negative, to a block that throws, and another on whether it reaches the array's
/// length.
fn guard(build: &mut Build, array: Value, index: Value, outside: Block) {
    let [above, inside] = [(); 2].map(|()| build.function.add_block());
    let zero = build.op(Op::Const(Constant::I32(0)), &[], I32);
    let negative = build.op(Op::Compare(CompareOp::I32LtS), &[index, zero], I32);
    build.end(Terminator::Branch { cond: negative, then: Edge::to(outside), otherwise: Edge::to(above) });
    build.switch(above);
    let length = build.op(Op::ArrayLen(NullCheck::Needed), &[array], I32);
    let below = build.op(Op::Compare(CompareOp::I32LtS), &[index, length], I32);
    build.end(Terminator::Branch { cond: below, then: Edge::to(inside), otherwise: Edge::to(outside) });
    build.switch(inside);
}

/// Copies an element, with the program's own checks of both indexes.
#[test]
fn growing_guarded() {
    let mut module = module();
    let mut build = start(&mut module, &[concrete(2), I32, concrete(2), I32], &[]);
    let [from, index, to, other] = [0, 1, 2, 3].map(|number| build.param(number));
    let outside = build.function.add_block();
    build.function.blocks[outside.index()].cold = true;
    guard(&mut build, from, index, outside);
    let element = build.op(Op::ArrayGet(TypeIndex(2), Extension::None), &[from, index], I32);
    guard(&mut build, to, other, outside);
    build.inst(Op::ArraySet(TypeIndex(2)), &[to, other, element], &[]);
    build.end(Terminator::Return(smallvec![]));
    build.switch(outside);
    build.end(Terminator::Trap(TrapCode::Unreachable));
    check_under("growing_guarded", &module, &build.function, growing());
}
