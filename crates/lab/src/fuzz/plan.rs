//! What the engines are to do with a module: found out once, from the module itself.

use super::module::BUDGET;
use crate::random::Random;
use wasmparser::{
    AbstractHeapType, CompositeInnerType, ExternalKind, HeapType, Parser, Payload, RefType, ValType, ValidPayload,
    Validator, WasmFeatures,
};

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// `i32`.
    I32(i32),
    /// `i64`.
    I64(i64),
    /// `f32`, by its bits.
    F32(u32),
    /// `f64`, by its bits.
    F64(u64),
    /// `v128`.
    V128(u128),
    /// Null of a hierarchy.
    Null(Hierarchy),
    /// An `i31ref` as an `anyref`.
    I31(u32),
    /// An external value.
    Extern(u32),
}

/// The tops of the reference types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Hierarchy {
    Any,
    Func,
    Extern,
    Exn,
}

/// A call to make.
#[derive(Clone, Debug)]
pub struct PlannedCall {
    /// The exported function.
    pub export: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
}

/// The calls, and the names of the state to compare.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In order.
    pub calls: Vec<PlannedCall>,
    /// Exported globals, except for the budget.
    pub globals: Vec<String>,
    /// Exported memories.
    pub memories: Vec<String>,
    /// Exported tables.
    pub tables: Vec<String>,
}

/// How often each function is called, each time with other arguments.
const CALLS: usize = 3;

/// Plans the calls of a module. A function that wants a reference which the host cannot make is left out.
///
/// # Errors
/// If the module is invalid.
pub fn plan(wasm: &[u8], seed: u64) -> anyhow::Result<Plan> {
    let mut validator = Validator::new_with_features(WasmFeatures::WASM3);
    let mut exports = Vec::new();
    let mut types = None;
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        if let Payload::ExportSection(section) = &payload {
            exports = section.clone().into_iter().collect::<Result<Vec<_>, _>>()?;
        }
        match validator.payload(&payload)? {
            ValidPayload::Func(function, body) => {
                function.into_validator(Default::default()).validate(&body)?;
            }
            ValidPayload::End(end) => types = Some(end),
            _ => {}
        }
    }
    let types = types.ok_or_else(|| anyhow::anyhow!("the module does not end"))?;
    let mut random = Random::new(seed ^ 0xa59);
    let mut plan = Plan::default();
    for export in exports {
        let name = export.name.to_string();
        match export.kind {
            ExternalKind::Func => {
                let id = types.as_ref().core_function_at(export.index);
                let CompositeInnerType::Func(function) = &types[id].composite_type.inner else {
                    continue;
                };
                for _ in 0..CALLS {
                    let argument = |ty: &ValType| argument(*ty, &types, &mut random);
                    let Some(arguments) = function.params().iter().map(argument).collect() else {
                        break;
                    };
                    plan.calls.push(PlannedCall { export: name.clone(), arguments });
                    if function.params().is_empty() {
                        break;
                    }
                }
            }
            ExternalKind::Global if name != BUDGET => plan.globals.push(name),
            ExternalKind::Memory => plan.memories.push(name),
            ExternalKind::Table => plan.tables.push(name),
            _ => {}
        }
    }
    Ok(plan)
}

fn argument(ty: ValType, types: &wasmparser::types::Types, random: &mut Random) -> Option<Argument> {
    Some(match ty {
        ValType::I32 => Argument::I32(integer(random) as i32),
        ValType::I64 => Argument::I64(integer(random)),
        ValType::F32 => Argument::F32((float(random) as f32).to_bits()),
        ValType::F64 => Argument::F64(float(random).to_bits()),
        ValType::V128 => Argument::V128(vector(random)),
        ValType::Ref(ty) => reference(ty, types, random)?,
    })
}

/// Small numbers, extremes and arbitrary ones.
fn integer(random: &mut Random) -> i64 {
    const EXTREMES: [i64; 8] =
        [i64::MIN, i64::MAX, i32::MIN as i64, i32::MAX as i64, -1, u32::MAX as i64, 1 << 16, 1 << 31];
    match random.below(4) {
        0 => EXTREMES[random.below(EXTREMES.len())],
        1 => random.bits() as i64,
        _ => random.below(20) as i64 - 2,
    }
}

/// As integers, but for NaN, whose bits are the engine's choice in too many places.
fn float(random: &mut Random) -> f64 {
    const EXTREMES: [f64; 8] =
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 1e300, -2147483649.0, 0.5];
    match random.below(3) {
        0 => EXTREMES[random.below(EXTREMES.len())],
        1 => random.bits() as i64 as f64 / 65536.0,
        _ => random.below(100) as f64 - 50.0,
    }
}

/// Lanes of 32 bits that are integers or floats, as above.
fn vector(random: &mut Random) -> u128 {
    (0..4).fold(0, |bits, _| {
        let lane = if random.below(2) == 0 { integer(random) as u32 } else { (float(random) as f32).to_bits() };
        bits << 32 | u128::from(lane)
    })
}

fn reference(ty: RefType, types: &wasmparser::types::Types, random: &mut Random) -> Option<Argument> {
    use AbstractHeapType as A;
    let (hierarchy, takes_i31) = match ty.heap_type() {
        HeapType::Abstract { ty, .. } => match ty {
            A::Any | A::Eq | A::I31 => (Hierarchy::Any, true),
            A::Struct | A::Array | A::None => (Hierarchy::Any, false),
            A::Func | A::NoFunc => (Hierarchy::Func, false),
            A::Extern | A::NoExtern => (Hierarchy::Extern, false),
            A::Exn | A::NoExn => (Hierarchy::Exn, false),
            _ => return None,
        },
        HeapType::Concrete(index) | HeapType::Exact(index) => {
            let id = index.as_core_type_id()?;
            match types[id].composite_type.inner {
                CompositeInnerType::Func(_) => (Hierarchy::Func, false),
                CompositeInnerType::Struct(_) | CompositeInnerType::Array(_) => (Hierarchy::Any, false),
                _ => return None,
            }
        }
    };
    let is_extern = ty.heap_type() == HeapType::EXTERN;
    if ty.is_nullable() && ((!takes_i31 && !is_extern) || random.below(3) == 0) {
        Some(Argument::Null(hierarchy))
    } else if takes_i31 {
        Some(Argument::I31(random.bits() as u32 & 0x7fff_ffff))
    } else if is_extern {
        Some(Argument::Extern(random.below(1000) as u32))
    } else {
        None
    }
}
