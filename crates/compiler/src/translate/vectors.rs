//! Vectors of 128 bits.

use smallvec::SmallVec;
use wasmparser::{MemArg, Operator};

use super::Translator;
use crate::CompileError;
use crate::mir::{Constant, Lanes, LoadKind, Op, StoreKind, Value, VectorOp};
use crate::mir::{Extension, VectorBinary, VectorShift, VectorTernary, VectorTest, VectorUnary};
use crate::module::{ValueType, check_vectors};

/// The instructions without immediates, by what they do and the lanes of their operands. Relaxed ones of which a strict
/// one is a few instructions, too, are that.
macro_rules! vectors {
    ($($kind:ident $names:ident { $($lanes:ident: $($operator:ident => $op:ident $(($extension:ident))?),*;)* })*) => {
        fn plain(operator: &Operator<'_>) -> Option<VectorOp> {
            Some(match operator {
                $($($(
                    Operator::$operator => {
                        VectorOp::$kind($names::$op $((Extension::$extension))?, Lanes::$lanes)
                    }
                )*)*)*
                _ => return None,
            })
        }
    };
}

vectors! {
    Unary VectorUnary {
        I8x16: V128Not => Not, I8x16Abs => Abs, I8x16Neg => Neg, I8x16Popcnt => Popcnt,
            I16x8ExtendLowI8x16S => ExtendLow(Signed), I16x8ExtendHighI8x16S => ExtendHigh(Signed),
            I16x8ExtAddPairwiseI8x16S => ExtAddPairwise(Signed), I16x8ExtendLowI8x16U => ExtendLow(Unsigned),
            I16x8ExtendHighI8x16U => ExtendHigh(Unsigned), I16x8ExtAddPairwiseI8x16U => ExtAddPairwise(Unsigned);
        I16x8: I16x8Abs => Abs, I16x8Neg => Neg, I32x4ExtendLowI16x8S => ExtendLow(Signed),
            I32x4ExtendHighI16x8S => ExtendHigh(Signed), I32x4ExtAddPairwiseI16x8S => ExtAddPairwise(Signed),
            I32x4ExtendLowI16x8U => ExtendLow(Unsigned), I32x4ExtendHighI16x8U => ExtendHigh(Unsigned),
            I32x4ExtAddPairwiseI16x8U => ExtAddPairwise(Unsigned);
        I32x4: I32x4Abs => Abs, I32x4Neg => Neg, I64x2ExtendLowI32x4S => ExtendLow(Signed),
            I64x2ExtendHighI32x4S => ExtendHigh(Signed), I64x2ExtendLowI32x4U => ExtendLow(Unsigned),
            I64x2ExtendHighI32x4U => ExtendHigh(Unsigned), F32x4ConvertI32x4S => Convert(Signed),
            F64x2ConvertLowI32x4S => ConvertLow(Signed), F32x4ConvertI32x4U => Convert(Unsigned),
            F64x2ConvertLowI32x4U => ConvertLow(Unsigned);
        I64x2: I64x2Abs => Abs, I64x2Neg => Neg;
        F32x4: F32x4Abs => Abs, F32x4Neg => Neg, F32x4Ceil => Ceil, F32x4Floor => Floor, F32x4Trunc => Trunc,
            F32x4Nearest => Nearest, F32x4Sqrt => Sqrt, I32x4TruncSatF32x4S => TruncSat(Signed),
            I32x4RelaxedTruncF32x4S => RelaxedTrunc(Signed), I32x4TruncSatF32x4U => TruncSat(Unsigned),
            I32x4RelaxedTruncF32x4U => RelaxedTrunc(Unsigned), F64x2PromoteLowF32x4 => PromoteLow;
        F64x2: F64x2Abs => Abs, F64x2Neg => Neg, F64x2Ceil => Ceil, F64x2Floor => Floor, F64x2Trunc => Trunc,
            F64x2Nearest => Nearest, F64x2Sqrt => Sqrt, I32x4TruncSatF64x2SZero => TruncSat(Signed),
            I32x4RelaxedTruncF64x2SZero => RelaxedTrunc(Signed), I32x4TruncSatF64x2UZero => TruncSat(Unsigned),
            I32x4RelaxedTruncF64x2UZero => RelaxedTrunc(Unsigned), F32x4DemoteF64x2Zero => DemoteZero;
    }
    Binary VectorBinary {
        I8x16: V128And => And, V128AndNot => AndNot, V128Or => Or, V128Xor => Xor, I8x16Add => Add, I8x16Sub => Sub,
            I8x16AddSatS => AddSat(Signed), I8x16SubSatS => SubSat(Signed), I8x16AddSatU => AddSat(Unsigned),
            I8x16SubSatU => SubSat(Unsigned), I8x16AvgrU => Avgr, I8x16MinS => Min(Signed),
            I8x16MaxS => Max(Signed), I8x16MinU => Min(Unsigned), I8x16MaxU => Max(Unsigned), I8x16Eq => Eq,
            I8x16Ne => Ne, I8x16LtS => Lt(Signed), I8x16LtU => Lt(Unsigned), I8x16GtS => Gt(Signed),
            I8x16GtU => Gt(Unsigned), I8x16LeS => Le(Signed), I8x16LeU => Le(Unsigned), I8x16GeS => Ge(Signed),
            I8x16GeU => Ge(Unsigned), I8x16Swizzle => Swizzle, I8x16RelaxedSwizzle => RelaxedSwizzle,
            I16x8ExtMulLowI8x16S => ExtMulLow(Signed), I16x8ExtMulHighI8x16S => ExtMulHigh(Signed),
            I16x8ExtMulLowI8x16U => ExtMulLow(Unsigned), I16x8ExtMulHighI8x16U => ExtMulHigh(Unsigned),
            I16x8RelaxedDotI8x16I7x16S => Dot;
        I16x8: I16x8Add => Add, I16x8Sub => Sub, I16x8Mul => Mul, I16x8AddSatS => AddSat(Signed),
            I16x8SubSatS => SubSat(Signed), I16x8AddSatU => AddSat(Unsigned), I16x8SubSatU => SubSat(Unsigned),
            I16x8AvgrU => Avgr, I16x8MinS => Min(Signed), I16x8MaxS => Max(Signed), I16x8MinU => Min(Unsigned),
            I16x8MaxU => Max(Unsigned), I16x8Eq => Eq, I16x8Ne => Ne, I16x8LtS => Lt(Signed),
            I16x8LtU => Lt(Unsigned), I16x8GtS => Gt(Signed), I16x8GtU => Gt(Unsigned), I16x8LeS => Le(Signed),
            I16x8LeU => Le(Unsigned), I16x8GeS => Ge(Signed), I16x8GeU => Ge(Unsigned),
            I8x16NarrowI16x8S => Narrow(Signed), I8x16NarrowI16x8U => Narrow(Unsigned),
            I32x4ExtMulLowI16x8S => ExtMulLow(Signed), I32x4ExtMulHighI16x8S => ExtMulHigh(Signed),
            I32x4ExtMulLowI16x8U => ExtMulLow(Unsigned), I32x4ExtMulHighI16x8U => ExtMulHigh(Unsigned),
            I16x8Q15MulrSatS => Q15MulrSat, I16x8RelaxedQ15mulrS => Q15MulrSat, I32x4DotI16x8S => Dot;
        I32x4: I32x4Add => Add, I32x4Sub => Sub, I32x4Mul => Mul, I32x4MinS => Min(Signed),
            I32x4MaxS => Max(Signed), I32x4MinU => Min(Unsigned), I32x4MaxU => Max(Unsigned), I32x4Eq => Eq,
            I32x4Ne => Ne, I32x4LtS => Lt(Signed), I32x4LtU => Lt(Unsigned), I32x4GtS => Gt(Signed),
            I32x4GtU => Gt(Unsigned), I32x4LeS => Le(Signed), I32x4LeU => Le(Unsigned), I32x4GeS => Ge(Signed),
            I32x4GeU => Ge(Unsigned), I16x8NarrowI32x4S => Narrow(Signed), I16x8NarrowI32x4U => Narrow(Unsigned),
            I64x2ExtMulLowI32x4S => ExtMulLow(Signed), I64x2ExtMulHighI32x4S => ExtMulHigh(Signed),
            I64x2ExtMulLowI32x4U => ExtMulLow(Unsigned), I64x2ExtMulHighI32x4U => ExtMulHigh(Unsigned);
        I64x2: I64x2Add => Add, I64x2Sub => Sub, I64x2Mul => Mul, I64x2Eq => Eq, I64x2Ne => Ne,
            I64x2LtS => Lt(Signed), I64x2GtS => Gt(Signed), I64x2LeS => Le(Signed), I64x2GeS => Ge(Signed);
        F32x4: F32x4Add => Add, F32x4Sub => Sub, F32x4Mul => Mul, F32x4Div => Div, F32x4Min => Min(None),
            F32x4Max => Max(None), F32x4PMin => PMin, F32x4PMax => PMax, F32x4RelaxedMin => RelaxedMin,
            F32x4RelaxedMax => RelaxedMax, F32x4Eq => Eq, F32x4Ne => Ne, F32x4Lt => Lt(None), F32x4Gt => Gt(None),
            F32x4Le => Le(None), F32x4Ge => Ge(None);
        F64x2: F64x2Add => Add, F64x2Sub => Sub, F64x2Mul => Mul, F64x2Div => Div, F64x2Min => Min(None),
            F64x2Max => Max(None), F64x2PMin => PMin, F64x2PMax => PMax, F64x2RelaxedMin => RelaxedMin,
            F64x2RelaxedMax => RelaxedMax, F64x2Eq => Eq, F64x2Ne => Ne, F64x2Lt => Lt(None), F64x2Gt => Gt(None),
            F64x2Le => Le(None), F64x2Ge => Ge(None);
    }
    Ternary VectorTernary {
        I8x16: V128Bitselect => Bitselect, I8x16RelaxedLaneselect => Bitselect,
            I32x4RelaxedDotI8x16I7x16AddS => RelaxedDotAdd;
        I16x8: I16x8RelaxedLaneselect => Bitselect;
        I32x4: I32x4RelaxedLaneselect => Bitselect;
        I64x2: I64x2RelaxedLaneselect => Bitselect;
        F32x4: F32x4RelaxedMadd => RelaxedMadd, F32x4RelaxedNmadd => RelaxedNmadd;
        F64x2: F64x2RelaxedMadd => RelaxedMadd, F64x2RelaxedNmadd => RelaxedNmadd;
    }
    Shift VectorShift {
        I8x16: I8x16Shl => Shl, I8x16ShrS => ShrS, I8x16ShrU => ShrU;
        I16x8: I16x8Shl => Shl, I16x8ShrS => ShrS, I16x8ShrU => ShrU;
        I32x4: I32x4Shl => Shl, I32x4ShrS => ShrS, I32x4ShrU => ShrU;
        I64x2: I64x2Shl => Shl, I64x2ShrS => ShrS, I64x2ShrU => ShrU;
    }
    Test VectorTest {
        I8x16: V128AnyTrue => AnyTrue, I8x16AllTrue => AllTrue, I8x16Bitmask => Bitmask;
        I16x8: I16x8AllTrue => AllTrue, I16x8Bitmask => Bitmask;
        I32x4: I32x4AllTrue => AllTrue, I32x4Bitmask => Bitmask;
        I64x2: I64x2AllTrue => AllTrue, I64x2Bitmask => Bitmask;
    }
}

impl Translator<'_> {
    /// Translates an instruction on vectors; false if it is none.
    pub(super) fn vectors(&mut self, operator: &Operator<'_>) -> Result<bool, CompileError> {
        check_vectors(operator, self.offset)?;
        let op = match *operator {
            Operator::V128Const { value } => {
                self.push_const(Constant::V128(value.i128() as u128));
                return Ok(true);
            }
            Operator::I8x16Shuffle { lanes } => VectorOp::Shuffle(lanes),
            _ => match plain(operator).or_else(|| lane(operator)) {
                Some(op) => op,
                None => return self.vector_memory(operator),
            },
        };
        self.apply(op.operand_types().len(), Op::Vector(op), Some(op.value_type()));
        Ok(true)
    }

    /// Translates an instruction that loads a vector, or part of one, or stores it; false if it is none.
    fn vector_memory(&mut self, operator: &Operator<'_>) -> Result<bool, CompileError> {
        use Extension::{Signed, Unsigned};
        match operator {
            Operator::V128Load { memarg } => {
                let memory = self.target(memarg)?;
                self.apply(1, Op::Load(memory, LoadKind::V128, memarg.offset), Some(ValueType::V128));
            }
            Operator::V128Store { memarg } => {
                let memory = self.target(memarg)?;
                self.apply(2, Op::Store(memory, StoreKind::V128, memarg.offset), None);
            }
            Operator::V128Load8x8S { memarg } => self.load_half(memarg, Lanes::I8x16, Signed)?,
            Operator::V128Load8x8U { memarg } => self.load_half(memarg, Lanes::I8x16, Unsigned)?,
            Operator::V128Load16x4S { memarg } => self.load_half(memarg, Lanes::I16x8, Signed)?,
            Operator::V128Load16x4U { memarg } => self.load_half(memarg, Lanes::I16x8, Unsigned)?,
            Operator::V128Load32x2S { memarg } => self.load_half(memarg, Lanes::I32x4, Signed)?,
            Operator::V128Load32x2U { memarg } => self.load_half(memarg, Lanes::I32x4, Unsigned)?,
            Operator::V128Load8Splat { memarg } => {
                self.load_into(memarg, LoadKind::I32From8U, VectorOp::Splat(Lanes::I8x16))?
            }
            Operator::V128Load16Splat { memarg } => {
                self.load_into(memarg, LoadKind::I32From16U, VectorOp::Splat(Lanes::I16x8))?
            }
            Operator::V128Load32Splat { memarg } => {
                self.load_into(memarg, LoadKind::F32, VectorOp::Splat(Lanes::F32x4))?
            }
            Operator::V128Load64Splat { memarg } => {
                self.load_into(memarg, LoadKind::F64, VectorOp::Splat(Lanes::F64x2))?
            }
            Operator::V128Load32Zero { memarg } => {
                self.load_into(memarg, LoadKind::F32, VectorOp::FirstLane(Lanes::F32x4))?
            }
            Operator::V128Load64Zero { memarg } => {
                self.load_into(memarg, LoadKind::F64, VectorOp::FirstLane(Lanes::F64x2))?
            }
            Operator::V128Load8Lane { memarg, lane } => {
                self.load_into(memarg, LoadKind::I32From8U, VectorOp::ReplaceLane(Lanes::I8x16, *lane))?;
            }
            Operator::V128Load16Lane { memarg, lane } => {
                self.load_into(memarg, LoadKind::I32From16U, VectorOp::ReplaceLane(Lanes::I16x8, *lane))?;
            }
            Operator::V128Load32Lane { memarg, lane } => {
                self.load_into(memarg, LoadKind::I32, VectorOp::ReplaceLane(Lanes::I32x4, *lane))?;
            }
            Operator::V128Load64Lane { memarg, lane } => {
                self.load_into(memarg, LoadKind::I64, VectorOp::ReplaceLane(Lanes::I64x2, *lane))?;
            }
            Operator::V128Store8Lane { memarg, lane } => {
                self.store_lane(memarg, StoreKind::I32To8, Lanes::I8x16, *lane)?;
            }
            Operator::V128Store16Lane { memarg, lane } => {
                self.store_lane(memarg, StoreKind::I32To16, Lanes::I16x8, *lane)?;
            }
            Operator::V128Store32Lane { memarg, lane } => {
                self.store_lane(memarg, StoreKind::I32, Lanes::I32x4, *lane)?;
            }
            Operator::V128Store64Lane { memarg, lane } => {
                self.store_lane(memarg, StoreKind::I64, Lanes::I64x2, *lane)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn vector(&mut self, op: VectorOp, args: &[Value]) -> Value {
        self.value(Op::Vector(op), args, op.value_type())
    }

    fn load(&mut self, memarg: &MemArg, kind: LoadKind) -> Result<Value, CompileError> {
        let memory = self.target(memarg)?;
        let index = self.pop();
        Ok(self.value(Op::Load(memory, kind, memarg.offset), &[index], kind.value_type()))
    }

    /// (index) -> 8 bytes, each of their lanes extended.
    fn load_half(&mut self, memarg: &MemArg, lanes: Lanes, extension: Extension) -> Result<(), CompileError> {
        let half = self.load(memarg, LoadKind::F64)?;
        let half = self.vector(VectorOp::FirstLane(Lanes::F64x2), &[half]);
        let whole = self.vector(VectorOp::Unary(VectorUnary::ExtendLow(extension), lanes), &[half]);
        self.push(whole);
        Ok(())
    }

    /// (index, the operands of `op` but the last) -> what `op` makes of one lane that is loaded.
    fn load_into(&mut self, memarg: &MemArg, kind: LoadKind, op: VectorOp) -> Result<(), CompileError> {
        let vector = (op.operand_types().len() == 2).then(|| self.pop());
        let lane = self.load(memarg, kind)?;
        let args: SmallVec<[Value; 2]> = vector.into_iter().chain([lane]).collect();
        let result = self.vector(op, &args);
        self.push(result);
        Ok(())
    }

    /// (index, vector)
    fn store_lane(&mut self, memarg: &MemArg, kind: StoreKind, lanes: Lanes, lane: u8) -> Result<(), CompileError> {
        let memory = self.target(memarg)?;
        let vector = self.pop();
        let index = self.pop();
        let extension =
            if kind == StoreKind::I32To8 || kind == StoreKind::I32To16 { Extension::Unsigned } else { Extension::None };
        let lane = self.vector(VectorOp::ExtractLane(lanes, lane, extension), &[vector]);
        self.emit(Op::Store(memory, kind, memarg.offset), &[index, lane], &[]);
        Ok(())
    }
}

/// The instructions that name one lane, or make all of them alike.
fn lane(operator: &Operator<'_>) -> Option<VectorOp> {
    use Extension::{Signed, Unsigned};
    use VectorOp::{ExtractLane, ReplaceLane, Splat};
    Some(match *operator {
        Operator::I8x16Splat => Splat(Lanes::I8x16),
        Operator::I16x8Splat => Splat(Lanes::I16x8),
        Operator::I32x4Splat => Splat(Lanes::I32x4),
        Operator::I64x2Splat => Splat(Lanes::I64x2),
        Operator::F32x4Splat => Splat(Lanes::F32x4),
        Operator::F64x2Splat => Splat(Lanes::F64x2),
        Operator::I8x16ExtractLaneS { lane } => ExtractLane(Lanes::I8x16, lane, Signed),
        Operator::I8x16ExtractLaneU { lane } => ExtractLane(Lanes::I8x16, lane, Unsigned),
        Operator::I16x8ExtractLaneS { lane } => ExtractLane(Lanes::I16x8, lane, Signed),
        Operator::I16x8ExtractLaneU { lane } => ExtractLane(Lanes::I16x8, lane, Unsigned),
        Operator::I32x4ExtractLane { lane } => ExtractLane(Lanes::I32x4, lane, Extension::None),
        Operator::I64x2ExtractLane { lane } => ExtractLane(Lanes::I64x2, lane, Extension::None),
        Operator::F32x4ExtractLane { lane } => ExtractLane(Lanes::F32x4, lane, Extension::None),
        Operator::F64x2ExtractLane { lane } => ExtractLane(Lanes::F64x2, lane, Extension::None),
        Operator::I8x16ReplaceLane { lane } => ReplaceLane(Lanes::I8x16, lane),
        Operator::I16x8ReplaceLane { lane } => ReplaceLane(Lanes::I16x8, lane),
        Operator::I32x4ReplaceLane { lane } => ReplaceLane(Lanes::I32x4, lane),
        Operator::I64x2ReplaceLane { lane } => ReplaceLane(Lanes::I64x2, lane),
        Operator::F32x4ReplaceLane { lane } => ReplaceLane(Lanes::F32x4, lane),
        Operator::F64x2ReplaceLane { lane } => ReplaceLane(Lanes::F64x2, lane),
        _ => return None,
    })
}
