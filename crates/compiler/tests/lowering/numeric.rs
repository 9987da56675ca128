//! Numeric operations.

use super::*;

#[test]
fn numeric() {
    use BinaryOp as B;
    use CompareOp as C;
    use UnaryOp as U;
    let mut module = module();
    let mut functions = Vec::new();
    let unary: &[(&[UnaryOp], ValueType, ValueType)] = &[
        (&[U::I32Clz, U::I32Ctz, U::I32Popcnt, U::I32Eqz, U::I32Extend8S, U::I32Extend16S], I32, I32),
        (&[U::I64Clz, U::I64Ctz, U::I64Popcnt, U::I64Extend8S, U::I64Extend16S, U::I64Extend32S], I64, I64),
        (&[U::I64Eqz, U::I32WrapI64], I64, I32),
        (&[U::F32Abs, U::F32Neg, U::F32Ceil, U::F32Floor, U::F32Trunc, U::F32Nearest, U::F32Sqrt], F32, F32),
        (&[U::F64Abs, U::F64Neg, U::F64Ceil, U::F64Floor, U::F64Trunc, U::F64Nearest, U::F64Sqrt], F64, F64),
        (&[U::I64ExtendI32S, U::I64ExtendI32U], I32, I64),
        (&[U::I32TruncF32S, U::I32TruncF32U, U::I32TruncSatF32S, U::I32TruncSatF32U, U::I32ReinterpretF32], F32, I32),
        (&[U::I32TruncF64S, U::I32TruncF64U, U::I32TruncSatF64S, U::I32TruncSatF64U], F64, I32),
        (&[U::I64TruncF32S, U::I64TruncF32U, U::I64TruncSatF32S, U::I64TruncSatF32U], F32, I64),
        (&[U::I64TruncF64S, U::I64TruncF64U, U::I64TruncSatF64S, U::I64TruncSatF64U, U::I64ReinterpretF64], F64, I64),
        (&[U::F32ConvertI32S, U::F32ConvertI32U, U::F32ReinterpretI32], I32, F32),
        (&[U::F32ConvertI64S, U::F32ConvertI64U], I64, F32),
        (&[U::F64ConvertI32S, U::F64ConvertI32U], I32, F64),
        (&[U::F64ConvertI64S, U::F64ConvertI64U, U::F64ReinterpretI64], I64, F64),
        (&[U::F32DemoteF64], F64, F32),
        (&[U::F64PromoteF32], F32, F64),
    ];
    for &(ops, from, to) in unary {
        let mut build = start(&mut module, &[from], &vec![to; ops.len()]);
        let x = build.param(0);
        let results: Vec<_> = ops.iter().map(|&op| build.op(Op::Unary(op), &[x], to)).collect();
        functions.push(build.returns(&results));
    }
    let binary: &[(&[BinaryOp], ValueType)] = &[
        (&[B::I32Add, B::I32Sub, B::I32Mul, B::I32DivS, B::I32DivU, B::I32RemS, B::I32RemU, B::I32And], I32),
        (&[B::I32Or, B::I32Xor, B::I32Shl, B::I32ShrS, B::I32ShrU, B::I32Rotl, B::I32Rotr], I32),
        (&[B::I64Add, B::I64Sub, B::I64Mul, B::I64DivS, B::I64DivU, B::I64RemS, B::I64RemU, B::I64And], I64),
        (&[B::I64Or, B::I64Xor, B::I64Shl, B::I64ShrS, B::I64ShrU, B::I64Rotl, B::I64Rotr], I64),
        (&[B::F32Add, B::F32Sub, B::F32Mul, B::F32Div, B::F32Min, B::F32Max, B::F32Copysign], F32),
        (&[B::F64Add, B::F64Sub, B::F64Mul, B::F64Div, B::F64Min, B::F64Max, B::F64Copysign], F64),
    ];
    for &(ops, ty) in binary {
        let mut build = start(&mut module, &[ty, ty], &vec![ty; ops.len()]);
        let (x, y) = (build.param(0), build.param(1));
        let results: Vec<_> = ops.iter().map(|&op| build.op(Op::Binary(op), &[x, y], ty)).collect();
        functions.push(build.returns(&results));
    }
    let compare: &[(&[CompareOp], ValueType)] = &[
        (
            &[
                C::I32Eq,
                C::I32Ne,
                C::I32LtS,
                C::I32LtU,
                C::I32GtS,
                C::I32GtU,
                C::I32LeS,
                C::I32LeU,
                C::I32GeS,
                C::I32GeU,
            ],
            I32,
        ),
        (
            &[
                C::I64Eq,
                C::I64Ne,
                C::I64LtS,
                C::I64LtU,
                C::I64GtS,
                C::I64GtU,
                C::I64LeS,
                C::I64LeU,
                C::I64GeS,
                C::I64GeU,
            ],
            I64,
        ),
        (&[C::F32Eq, C::F32Ne, C::F32Lt, C::F32Gt, C::F32Le, C::F32Ge], F32),
        (&[C::F64Eq, C::F64Ne, C::F64Lt, C::F64Gt, C::F64Le, C::F64Ge], F64),
    ];
    for &(ops, ty) in compare {
        let mut build = start(&mut module, &[ty, ty], &vec![I32; ops.len()]);
        let (x, y) = (build.param(0), build.param(1));
        let results: Vec<_> = ops.iter().map(|&op| build.op(Op::Compare(op), &[x, y], I32)).collect();
        functions.push(build.returns(&results));
    }
    // Constants and selects of every type.
    let constants = [
        (Constant::I32(-1), I32),
        (Constant::I64(i64::MIN), I64),
        (Constant::F32(1), F32),
        (Constant::F64(u64::MAX), F64),
        (Constant::V128(77), V128),
        (Constant::Null(HeapType::Any), nullable(HeapType::Any)),
    ];
    for (constant, ty) in constants {
        let mut build = start(&mut module, &[I32, ty], &[ty]);
        let (condition, other) = (build.param(0), build.param(1));
        let constant = build.op(Op::Const(constant), &[], ty);
        let selected = build.op(Op::Select, &[condition, constant, other], ty);
        functions.push(build.returns(&[selected]));
    }
    compile(module, functions);
}
