//! Arguments and expected results of scripts, as the engine's values.

use anyhow::{Context, Result, bail, ensure};
use legato::{AnyRef, AsContext, AsContextMut, ExternRef, Store, Val};
use wast::core::{AbstractHeapType, HeapType, NanPattern, V128Pattern, WastArgCore, WastRetCore};
use wast::token::{F32, F64};
use wast::{WastArg, WastRet};

/// Makes the value that a script passes to a function.
pub fn argument(store: &mut Store<()>, argument: &WastArg<'_>) -> Result<Val> {
    let WastArg::Core(argument) = argument else { bail!("a component value is passed: {argument:?}") };
    Ok(match argument {
        WastArgCore::I32(value) => Val::I32(*value),
        WastArgCore::I64(value) => Val::I64(*value),
        WastArgCore::F32(value) => Val::F32(value.bits),
        WastArgCore::F64(value) => Val::F64(value.bits),
        WastArgCore::V128(value) => Val::V128(u128::from_le_bytes(value.to_le_bytes()).into()),
        WastArgCore::RefNull(HeapType::Abstract { ty, .. }) => match ty {
            AbstractHeapType::Func | AbstractHeapType::NoFunc => Val::FuncRef(None),
            AbstractHeapType::Extern | AbstractHeapType::NoExtern => Val::ExternRef(None),
            AbstractHeapType::Exn | AbstractHeapType::NoExn => Val::ExnRef(None),
            _ => Val::AnyRef(None),
        },
        WastArgCore::RefNull(other) => bail!("a null of type {other:?} is passed"),
        WastArgCore::RefExtern(number) => Val::ExternRef(Some(ExternRef::new(store.as_context_mut(), *number)?)),
        WastArgCore::RefHost(number) => {
            let external = ExternRef::new(store.as_context_mut(), *number)?;
            Val::AnyRef(Some(AnyRef::convert_extern(store.as_context_mut(), external)?))
        }
    })
}

/// Compares the results of a call with what the script expects.
pub fn check_results(store: &Store<()>, actual: &[Val], expected: &[WastRet<'_>]) -> Result<()> {
    ensure!(actual.len() == expected.len(), "{} results, expected {}", actual.len(), expected.len());
    for (number, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let WastRet::Core(expected) = expected else { bail!("a component value is expected: {expected:?}") };
        let matches = matches(store, actual, expected).with_context(|| format!("result {number}"))?;
        ensure!(matches, "result {number} is {actual:?}, expected {expected:?}");
    }
    Ok(())
}

fn matches(store: &Store<()>, actual: &Val, expected: &WastRetCore<'_>) -> Result<bool> {
    Ok(match (actual, expected) {
        (_, WastRetCore::Either(cases)) => {
            for case in cases {
                if matches(store, actual, case)? {
                    return Ok(true);
                }
            }
            false
        }
        (Val::I32(actual), WastRetCore::I32(expected)) => actual == expected,
        (Val::I64(actual), WastRetCore::I64(expected)) => actual == expected,
        (Val::F32(actual), WastRetCore::F32(expected)) => matches_f32(*actual, expected),
        (Val::F64(actual), WastRetCore::F64(expected)) => matches_f64(*actual, expected),
        (Val::V128(actual), WastRetCore::V128(expected)) => matches_v128(actual.as_u128(), expected),
        (
            Val::FuncRef(None) | Val::ExternRef(None) | Val::AnyRef(None) | Val::ExnRef(None),
            WastRetCore::RefNull(None),
        ) => true,
        (actual, WastRetCore::RefNull(Some(HeapType::Abstract { ty, .. }))) => match actual {
            Val::FuncRef(None) => matches!(ty, AbstractHeapType::Func | AbstractHeapType::NoFunc),
            Val::ExternRef(None) => matches!(ty, AbstractHeapType::Extern | AbstractHeapType::NoExtern),
            Val::ExnRef(None) => matches!(ty, AbstractHeapType::Exn | AbstractHeapType::NoExn),
            Val::AnyRef(None) => matches!(
                ty,
                AbstractHeapType::Any
                    | AbstractHeapType::None
                    | AbstractHeapType::Eq
                    | AbstractHeapType::Struct
                    | AbstractHeapType::Array
                    | AbstractHeapType::I31
            ),
            _ => false,
        },
        (Val::FuncRef(None) | Val::AnyRef(None), WastRetCore::RefNull(Some(HeapType::Concrete(_)))) => true,
        (Val::ExternRef(Some(_)), WastRetCore::RefExtern(None)) => true,
        (Val::ExternRef(Some(value)), WastRetCore::RefExtern(Some(number))) => {
            host_number(value.data(store.as_context())?) == Some(*number)
        }
        (Val::AnyRef(Some(value)), WastRetCore::RefHost(number)) => {
            let external = ExternRef::convert_any(store.as_context(), *value)?;
            host_number(external.data(store.as_context())?) == Some(*number)
        }
        (Val::FuncRef(Some(_)), WastRetCore::RefFunc(_)) => true,
        (Val::AnyRef(Some(_)), WastRetCore::RefAny) => true,
        (Val::AnyRef(Some(value)), WastRetCore::RefEq) => value.is_eqref(store.as_context())?,
        (Val::AnyRef(Some(value)), WastRetCore::RefArray) => value.is_array(store.as_context())?,
        (Val::AnyRef(Some(value)), WastRetCore::RefStruct) => value.is_struct(store.as_context())?,
        (Val::AnyRef(Some(value)), WastRetCore::RefI31) => value.is_i31(store.as_context())?,
        _ => false,
    })
}

fn host_number(data: Option<&(dyn std::any::Any + Send + Sync)>) -> Option<u32> {
    data?.downcast_ref::<u32>().copied()
}

fn matches_f32(actual: u32, expected: &NanPattern<F32>) -> bool {
    match expected {
        NanPattern::CanonicalNan => actual & 0x7fff_ffff == 0x7fc0_0000,
        NanPattern::ArithmeticNan => actual & 0x7fc0_0000 == 0x7fc0_0000,
        NanPattern::Value(value) => actual == value.bits,
    }
}

fn matches_f64(actual: u64, expected: &NanPattern<F64>) -> bool {
    match expected {
        NanPattern::CanonicalNan => actual & 0x7fff_ffff_ffff_ffff == 0x7ff8_0000_0000_0000,
        NanPattern::ArithmeticNan => actual & 0x7ff8_0000_0000_0000 == 0x7ff8_0000_0000_0000,
        NanPattern::Value(value) => actual == value.bits,
    }
}

fn matches_v128(actual: u128, expected: &V128Pattern) -> bool {
    let lane = |bits: usize, number: usize| (actual >> (bits * number)) as u64;
    match expected {
        V128Pattern::I8x16(lanes) => (0..16).all(|number| lane(8, number) as i8 == lanes[number]),
        V128Pattern::I16x8(lanes) => (0..8).all(|number| lane(16, number) as i16 == lanes[number]),
        V128Pattern::I32x4(lanes) => (0..4).all(|number| lane(32, number) as i32 == lanes[number]),
        V128Pattern::I64x2(lanes) => (0..2).all(|number| lane(64, number) as i64 == lanes[number]),
        V128Pattern::F32x4(lanes) => (0..4).all(|number| matches_f32(lane(32, number) as u32, &lanes[number])),
        V128Pattern::F64x2(lanes) => (0..2).all(|number| matches_f64(lane(64, number), &lanes[number])),
    }
}
