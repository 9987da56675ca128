//! Loops: what is looked up in front of them, and what in each iteration.

use legato_compiler::mir::*;
use legato_compiler::module::*;
use legato_heap::references::References;
use smallvec::smallvec;

use super::support::*;
use super::{check, check_under, module, start};

/// The sum of an array, with a poll at the back-edge.
#[test]
fn array_loop() {
    let mut module = module();
    let array_type = concrete(2);
    let mut build = start(&mut module, &[array_type], &[I32]);
    let array = build.param(0);
    let [header, body, done] = [0; 3].map(|_| build.function.add_block());
    let [index, sum] = [0; 2].map(|_| build.function.add_param(header, I32));
    let zero = build.op(Op::Const(Constant::I32(0)), &[], I32);
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![zero, zero] }));
    build.switch(header);
    let length = build.op(Op::ArrayLen(NullCheck::Needed), &[array], I32);
    let more = build.op(Op::Compare(CompareOp::I32LtU), &[index, length], I32);
    build.end(Terminator::Branch { cond: more, then: Edge::to(body), otherwise: Edge::to(done) });
    build.switch(body);
    build.inst(Op::BoundsCheck, &[index, length], &[]);
    let element = build.op(Op::ArrayGet(TypeIndex(2), Extension::None), &[array, index], I32);
    let next_sum = build.op(Op::Binary(BinaryOp::I32Add), &[sum, element], I32);
    let one = build.op(Op::Const(Constant::I32(1)), &[], I32);
    let next = build.op(Op::Binary(BinaryOp::I32Add), &[index, one], I32);
    build.inst(Op::Poll, &[], &[]);
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![next, next_sum] }));
    build.switch(done);
    check("array_loop", &module, &build.returns(&[sum]));
}

/// The sums of the lanes of an array's vectors: what is seen as other lanes costs no instruction.
#[test]
fn vector_loop() {
    let mut module = module();
    let array_type = module.add_array(StorageType::Value(V128));
    let mut build = start(&mut module, &[concrete(array_type.0)], &[V128]);
    let array = build.param(0);
    let [header, body, done] = [0; 3].map(|_| build.function.add_block());
    let (index, sum) = (build.function.add_param(header, I32), build.function.add_param(header, V128));
    let zero = build.op(Op::Const(Constant::I32(0)), &[], I32);
    let zeros = build.op(Op::Const(Constant::V128(0)), &[], V128);
    let length = build.op(Op::ArrayLen(NullCheck::Needed), &[array], I32);
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![zero, zeros] }));
    build.switch(header);
    let more = build.op(Op::Compare(CompareOp::I32LtU), &[index, length], I32);
    build.end(Terminator::Branch { cond: more, then: Edge::to(body), otherwise: Edge::to(done) });
    build.switch(body);
    build.inst(Op::BoundsCheck, &[index, length], &[]);
    let element = build.op(Op::ArrayGet(array_type, Extension::None), &[array, index], V128);
    let product = Op::Vector(VectorOp::Binary(VectorBinary::Mul, Lanes::F32x4));
    let square = build.op(product, &[element, element], V128);
    let add = Op::Vector(VectorOp::Binary(VectorBinary::Add, Lanes::F32x4));
    let next_sum = build.op(add, &[sum, square], V128);
    let one = build.op(Op::Const(Constant::I32(1)), &[], I32);
    let next = build.op(Op::Binary(BinaryOp::I32Add), &[index, one], I32);
    build.inst(Op::Poll, &[], &[]);
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![next, next_sum] }));
    build.switch(done);
    check("vector_loop", &module, &build.returns(&[sum]));
}

/// Copies an array, and counts in a struct: where references lead to their objects through a word, the loop keeps where
/// all three lie, and the cold path of its poll looks them up anew.
#[test]
fn held_loop() {
    let mut module = module();
    let array = |nullable| ValueType::Ref(RefType { nullable, heap: HeapType::Concrete(TypeIndex(2)) });
    let counter = ValueType::Ref(RefType { nullable: false, heap: HeapType::Concrete(TypeIndex(0)) });
    let mut build = start(&mut module, &[array(false), array(true), counter], &[]);
    let [from, to, counter] = [0, 1, 2].map(|number| build.param(number));
    let [header, done] = [0; 2].map(|_| build.function.add_block());
    let index = build.function.add_param(header, I32);
    let [zero, one] = [0, 1].map(|number| build.op(Op::Const(Constant::I32(number)), &[], I32));
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![zero] }));
    build.switch(header);
    let length = build.op(Op::ArrayLen(NullCheck::Elided), &[from], I32);
    build.inst(Op::BoundsCheck, &[index, length], &[]);
    let element = build.op(Op::ArrayGet(TypeIndex(2), Extension::None), &[from, index], I32);
    let length = build.op(Op::ArrayLen(NullCheck::Needed), &[to], I32);
    build.inst(Op::BoundsCheck, &[index, length], &[]);
    build.inst(Op::ArraySet(TypeIndex(2)), &[to, index, element], &[]);
    let count = build.op(Op::StructGet(TypeIndex(0), 0, Extension::None, NullCheck::Elided), &[counter], I32);
    let count = build.op(Op::Binary(BinaryOp::I32Add), &[count, one], I32);
    build.inst(Op::StructSet(TypeIndex(0), 0, NullCheck::Elided), &[counter, count], &[]);
    build.inst(Op::Poll, &[], &[]);
    let next = build.op(Op::Binary(BinaryOp::I32Add), &[index, one], I32);
    let back = Edge { block: header, args: smallvec![next] };
    build.end(Terminator::Branch { cond: element, then: back, otherwise: Edge::to(done) });
    build.switch(done);
    let plans = [References::Brooks, References::UniHandles].map(|model| (model.name().to_string(), moving(model)));
    check_under("held_loop", &module, &build.returns(&[]), plans);
}

/// An object that holds an immutable global, which was read before a loop: the loop keeps neither a register nor a slot
/// for it. It goes on where its condition holds, and lies in one piece all the same.
#[test]
fn global_behind_loop() {
    let mut module = module();
    let (object, int) = (concrete(1), I32);
    let holder = module.add_array(StorageType::Value(object));
    module.info.globals.push(GlobalType { value: object, mutable: false });
    let mut build = start(&mut module, &[int], &[concrete(holder.0), int]);
    let count = build.param(0);
    let [header, body, done] = [0; 3].map(|_| build.function.add_block());
    let [index, sum] = [0; 2].map(|_| build.function.add_param(header, int));
    let global = build.op(Op::GlobalGet(GlobalIndex(0)), &[], object);
    let [zero, one] = [0, 1].map(|number| build.op(Op::Const(Constant::I32(number)), &[], int));
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![zero, zero] }));
    build.switch(header);
    build.inst(Op::Poll, &[], &[]);
    let more = build.op(Op::Compare(CompareOp::I32LtU), &[index, count], int);
    build.end(Terminator::Branch { cond: more, then: Edge::to(body), otherwise: Edge::to(done) });
    build.switch(body);
    let next_sum = build.op(Op::Binary(BinaryOp::I32Xor), &[sum, index], int);
    let next = build.op(Op::Binary(BinaryOp::I32Add), &[index, one], int);
    build.end(Terminator::Jump(Edge { block: header, args: smallvec![next, next_sum] }));
    build.switch(done);
    let made = build.op(Op::ArrayNewFixed(holder), &[global], concrete(holder.0));
    check("global_behind_loop", &module, &build.returns(&[made, sum]));
}
