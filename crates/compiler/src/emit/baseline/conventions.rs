//! Where Cranelift's calling conventions pass arguments and results.

use cranelift_codegen::ir::{AbiParam, ArgumentPurpose, Signature};
use cranelift_codegen::isa::CallConv;

use super::operands::{Gpr, R8, R9, R10, RAX, RCX, RDI, RDX, RSI, Xmm};

/// Where a value is passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Location {
    Gpr(Gpr),
    Xmm(Xmm),
    /// On the stack: bytes above the other arguments.
    Stack(i32),
}

/// Where all arguments or results are passed.
pub(super) struct Locations {
    pub each: Vec<Location>,
    /// Bytes that they take on the stack.
    pub stack_bytes: i32,
}

const ARGUMENTS: &[Gpr] = &[RDI, RSI, RDX, RCX, R8, R9];
/// Floats are passed in the first eight vector registers.
const FLOATS: u8 = 8;

impl Locations {
    /// Where the arguments of a function are passed whose results registers hold. `None` if it has others than numbers.
    pub(super) fn of_arguments(signature: &Signature) -> Option<Locations> {
        Locations::of(&signature.params, ARGUMENTS)
    }

    /// Where the results of a function are passed; `None` if registers do not hold them.
    pub(super) fn of_results(signature: &Signature) -> Option<Locations> {
        let registers: &[Gpr] = match signature.call_conv {
            CallConv::Tail => &[RAX, RCX, RDX, RSI, RDI, R8, R9, R10],
            CallConv::SystemV | CallConv::PreserveAll => &[RAX, RDX],
            _ => return None,
        };
        Locations::of(&signature.returns, registers).filter(|locations| locations.stack_bytes == 0)
    }

    fn of(params: &[AbiParam], gprs: &[Gpr]) -> Option<Locations> {
        let (mut gprs, mut floats, mut stack_bytes) = (gprs.iter(), 0..FLOATS, 0);
        let mut each = Vec::with_capacity(params.len());
        for param in params {
            let ty = param.value_type;
            let is_plain = matches!(param.purpose, ArgumentPurpose::Normal | ArgumentPurpose::VMContext);
            if !is_plain || ty.is_vector() || ty.bits() > 64 {
                return None;
            }
            let register = match ty.is_float() {
                true => floats.next().map(|number| Location::Xmm(Xmm(number))),
                false => gprs.next().map(|&register| Location::Gpr(register)),
            };
            each.push(register.unwrap_or_else(|| {
                stack_bytes += 8;
                Location::Stack(stack_bytes - 8)
            }));
        }
        Some(Locations { each, stack_bytes: (stack_bytes + 15) & !15 })
    }
}
