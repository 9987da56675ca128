//! What instructions of x86-64 work with: registers, places in memory, widths, and operations by their numbers.

/// A general-purpose register, by its number in instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gpr(pub u8);

/// A vector register, by its number in instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Xmm(pub u8);

pub(super) const RAX: Gpr = Gpr(0);
pub(super) const RCX: Gpr = Gpr(1);
pub(super) const RDX: Gpr = Gpr(2);
pub(super) const RBX: Gpr = Gpr(3);
pub(super) const RSP: Gpr = Gpr(4);
pub(super) const RBP: Gpr = Gpr(5);
pub(super) const RSI: Gpr = Gpr(6);
pub(super) const RDI: Gpr = Gpr(7);
pub(super) const R8: Gpr = Gpr(8);
pub(super) const R9: Gpr = Gpr(9);
pub(super) const R10: Gpr = Gpr(10);
pub(super) const R11: Gpr = Gpr(11);
pub(super) const R12: Gpr = Gpr(12);
pub(super) const R13: Gpr = Gpr(13);
pub(super) const R14: Gpr = Gpr(14);
pub(super) const R15: Gpr = Gpr(15);

/// A place in memory: base, an index that is added as it is, and a distance in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mem {
    pub base: Gpr,
    pub index: Option<Gpr>,
    pub offset: i32,
}

impl Mem {
    /// What lies `offset` bytes above a register.
    pub(super) fn at(base: Gpr, offset: i32) -> Mem {
        Mem { base, index: None, offset }
    }
}

/// The operand of an instruction that may lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Reg(u8),
    Mem(Mem),
}

impl From<Gpr> for Place {
    fn from(register: Gpr) -> Place {
        Place::Reg(register.0)
    }
}

impl From<Xmm> for Place {
    fn from(register: Xmm) -> Place {
        Place::Reg(register.0)
    }
}

impl From<Mem> for Place {
    fn from(place: Mem) -> Place {
        Place::Mem(place)
    }
}

/// How many bits of integers an instruction works with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    W32,
    W64,
}

/// How many bits of a float an instruction works with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Float {
    F32,
    F64,
}

impl Float {
    /// The prefix of arithmetic with single floats of this width.
    pub(super) fn prefix(self) -> u8 {
        match self {
            Float::F32 => 0xf3,
            Float::F64 => 0xf2,
        }
    }
}

/// Arithmetic with two operands, by its number in instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alu {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// A shift or rotation, by its number in instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shift {
    Rol = 0,
    Ror = 1,
    Shl = 4,
    Shr = 5,
    Sar = 7,
}

/// What is done to a single operand, by its number in instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sole {
    Div = 6,
    Idiv = 7,
}

/// A condition of the flags, by its number in instructions. The lowest bit inverts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cond(pub u8);

impl Cond {
    pub(super) const NO_OVERFLOW: Cond = Cond(0x1);
    pub(super) const BELOW: Cond = Cond(0x2);
    pub(super) const ABOVE_EQUAL: Cond = Cond(0x3);
    pub(super) const EQUAL: Cond = Cond(0x4);
    pub(super) const NOT_EQUAL: Cond = Cond(0x5);
    pub(super) const BELOW_EQUAL: Cond = Cond(0x6);
    pub(super) const ABOVE: Cond = Cond(0x7);
    pub(super) const PARITY: Cond = Cond(0xa);
    pub(super) const NO_PARITY: Cond = Cond(0xb);
    pub(super) const LESS: Cond = Cond(0xc);
    pub(super) const GREATER_EQUAL: Cond = Cond(0xd);
    pub(super) const LESS_EQUAL: Cond = Cond(0xe);
    pub(super) const GREATER: Cond = Cond(0xf);

    /// The condition that holds where this one does not.
    pub(super) fn inverse(self) -> Cond {
        Cond(self.0 ^ 1)
    }
}

/// A load that extends what it loads to 32 or 64 bits, by its opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extend {
    Zero8,
    Zero16,
    Sign8,
    Sign16,
    Sign32,
}

/// Arithmetic with floats, by its opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FloatOp {
    Sqrt = 0x51,
    Add = 0x58,
    Mul = 0x59,
    Sub = 0x5c,
    Div = 0x5e,
}

/// Bitwise operations on whole vector registers, by their opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bitwise {
    And = 0x54,
    AndNot = 0x55,
    Or = 0x56,
    Xor = 0x57,
}

/// What counts bits, by its opcode behind `F3 0F`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Count {
    Ones = 0xb8,
    TrailingZeros = 0xbc,
    LeadingZeros = 0xbd,
}
