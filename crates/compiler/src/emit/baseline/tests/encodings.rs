//! Each form of instruction, read back by a disassembler.

use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};

use crate::emit::baseline::assembler::Assembler;
use crate::emit::baseline::operands::{
    Alu, Bitwise, Cond, Count, Extend, Float, FloatOp, Gpr, Mem, Place, Shift, Sole, Width, Xmm,
};

const NAMES: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];

fn name(register: Gpr, width: Width) -> String {
    match (register.0, width) {
        (number @ 0..8, Width::W32) => format!("e{}", NAMES[number as usize]),
        (number @ 0..8, Width::W64) => format!("r{}", NAMES[number as usize]),
        (number, Width::W32) => format!("r{number}d"),
        (number, Width::W64) => format!("r{number}"),
    }
}

fn byte(register: Gpr) -> String {
    match register.0 {
        number @ 0..4 => format!("{}l", &NAMES[number as usize][..1]),
        number @ 4..8 => format!("{}l", NAMES[number as usize]),
        number => format!("r{number}b"),
    }
}

fn place(place: Mem) -> String {
    let index = place.index.map(|index| format!("+{}", name(index, Width::W64))).unwrap_or_default();
    let offset = match place.offset {
        0 => String::new(),
        offset if offset < 0 => format!("-{:#x}", -i64::from(offset)),
        offset => format!("+{offset:#x}"),
    };
    format!("[{}{index}{offset}]", name(place.base, Width::W64))
}

/// Compares what has been assembled with a text.
fn check(assemble: impl FnOnce(&mut Assembler), expected: &str) {
    let mut assembler = Assembler::default();
    assemble(&mut assembler);
    assembler.resolve();
    let code = &assembler.code;
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    let mut text = String::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        assert!(!instruction.is_invalid(), "{expected}: {code:02x?}");
        if !text.is_empty() {
            text += "; ";
        }
        formatter.format(&instruction, &mut text);
    }
    assert_eq!(text, expected, "{code:02x?}");
}

fn gprs() -> impl Iterator<Item = Gpr> {
    (0..16).map(Gpr)
}

/// Every base, with and without an index, at every length of distance.
fn places() -> Vec<Mem> {
    let offsets = [0, 0x10, -0x10, 0x1234, -0x1234];
    let mut places = Vec::new();
    for (number, base) in gprs().enumerate() {
        for offset in offsets {
            places.push(Mem::at(base, offset));
            let index = Gpr((number as u8 + 3) % 16);
            if index.0 != 4 {
                places.push(Mem { base, index: Some(index), offset });
            }
        }
    }
    places
}

const WIDTHS: [Width; 2] = [Width::W32, Width::W64];

#[test]
fn integers() {
    for (register, other) in gprs().flat_map(|register| gprs().map(move |other| (register, other))) {
        for width in WIDTHS {
            let (to, from) = (name(register, width), name(other, width));
            check(|a| a.mov(width, register, other), &format!("mov {to},{from}"));
            let all = [
                (Alu::Add, "add"),
                (Alu::Or, "or"),
                (Alu::And, "and"),
                (Alu::Sub, "sub"),
                (Alu::Xor, "xor"),
                (Alu::Cmp, "cmp"),
            ];
            for (alu, title) in all {
                check(|a| a.alu(alu, width, register, other), &format!("{title} {to},{from}"));
            }
            check(|a| a.test(width, register, other), &format!("test {to},{from}"));
            check(|a| a.multiply(width, register, other), &format!("imul {to},{from}"));
            let factors = if register == other { to.clone() } else { format!("{to},{from}") };
            check(|a| a.multiply_by(width, register, other, 0x1234), &format!("imul {factors},0x1234"));
            let counts = [(Count::Ones, "popcnt"), (Count::TrailingZeros, "tzcnt"), (Count::LeadingZeros, "lzcnt")];
            for (count, title) in counts {
                check(|a| a.count(count, width, register, other), &format!("{title} {to},{from}"));
            }
            check(|a| a.move_if(Cond::ABOVE, width, register, other), &format!("cmova {to},{from}"));
            let (narrow, short) = (byte(other), name(other, Width::W32));
            check(|a| a.extend(width, Extend::Zero8, register, other), &format!("movzx {to},{narrow}"));
            check(|a| a.extend(width, Extend::Sign8, register, other), &format!("movsx {to},{narrow}"));
            if width == Width::W64 {
                check(|a| a.extend(width, Extend::Sign32, register, other), &format!("movsxd {to},{short}"));
            }
        }
    }
    for (register, width) in gprs().flat_map(|register| WIDTHS.map(|width| (register, width))) {
        let to = name(register, width);
        let shifts =
            [(Shift::Rol, "rol"), (Shift::Ror, "ror"), (Shift::Shl, "shl"), (Shift::Shr, "shr"), (Shift::Sar, "sar")];
        for (shift, title) in shifts {
            check(|a| a.shift_by(shift, width, register, 0x11), &format!("{title} {to},0x11"));
            check(|a| a.shift(shift, width, register), &format!("{title} {to},cl"));
        }
        check(|a| a.sole(Sole::Div, width, register), &format!("div {to}"));
        check(|a| a.sole(Sole::Idiv, width, register), &format!("idiv {to}"));
        check(|a| a.alu_number(Alu::Cmp, width, register, 0x10), &format!("cmp {to},0x10"));
        check(|a| a.alu_number(Alu::Sub, width, register, 0x1234), &format!("sub {to},0x1234"));
    }
    for register in gprs() {
        let (short, long) = (name(register, Width::W32), name(register, Width::W64));
        check(|a| a.number(register, 0xffff_fff0), &format!("mov {short},0xfffffff0"));
        check(|a| a.number(register, -16), &format!("mov {long},0xfffffffffffffff0"));
        check(|a| a.number(register, i64::MAX), &format!("mov {long},0x7fffffffffffffff"));
        let set = format!("setl {}; movzx {short},{}", byte(register), byte(register));
        check(|a| a.set(Cond::LESS, register), &set);
        check(|a| a.call_or_jump_to(true, register), &format!("call {long}"));
        check(|a| a.call_or_jump_to(false, register), &format!("jmp {long}"));
    }
    check(|a| a.repeat_sign(Width::W32), "cdq");
    check(|a| a.repeat_sign(Width::W64), "cqo");
}

#[test]
fn memory() {
    for (number, at) in places().into_iter().enumerate() {
        let register = Gpr(number as u8 % 16);
        let (short, long) = (name(register, Width::W32), name(register, Width::W64));
        let text = place(at);
        check(|a| a.mov(Width::W32, register, at), &format!("mov {short},{text}"));
        check(|a| a.mov(Width::W64, register, at), &format!("mov {long},{text}"));
        check(|a| a.address(Width::W64, register, at), &format!("lea {long},{text}"));
        check(|a| a.extend(Width::W32, Extend::Zero8, register, at), &format!("movzx {short},byte ptr {text}"));
        check(|a| a.extend(Width::W32, Extend::Zero16, register, at), &format!("movzx {short},word ptr {text}"));
        check(|a| a.extend(Width::W64, Extend::Sign16, register, at), &format!("movsx {long},word ptr {text}"));
        check(|a| a.store(1, at, register), &format!("mov {text},{}", byte(register)));
        check(|a| a.store(4, at, register), &format!("mov {text},{short}"));
        check(|a| a.store(8, at, register), &format!("mov {text},{long}"));
        check(|a| a.store_number(1, at, 0x12), &format!("mov byte ptr {text},0x12"));
        check(|a| a.store_number(2, at, 0x1234), &format!("mov word ptr {text},0x1234"));
        check(|a| a.store_number(4, at, 0x12345), &format!("mov dword ptr {text},0x12345"));
        check(|a| a.store_number(8, at, 0x12345), &format!("mov qword ptr {text},0x12345"));
        check(|a| a.alu_number(Alu::Cmp, Width::W32, at, 1), &format!("cmp dword ptr {text},0x1"));
        check(|a| a.alu(Alu::Add, Width::W64, register, at), &format!("add {long},{text}"));
        let xmm = Xmm(register.0);
        let float = format!("xmm{}", xmm.0);
        check(|a| a.load_float(Float::F32, xmm, at), &format!("movss {float},{text}"));
        check(|a| a.load_float(Float::F64, xmm, at), &format!("movsd {float},{text}"));
        check(|a| a.store_float(Float::F32, at, xmm), &format!("movss {text},{float}"));
        check(|a| a.store_float(Float::F64, at, xmm), &format!("movsd {text},{float}"));
        check(|a| a.float_op(FloatOp::Mul, Float::F64, xmm, at), &format!("mulsd {float},{text}"));
        check(|a| a.compare_floats(Float::F32, xmm, at), &format!("ucomiss {float},{text}"));
    }
}

#[test]
fn floats() {
    for (register, other) in (0..16).flat_map(|register| (0..16).map(move |other| (Xmm(register), Xmm(other)))) {
        let (to, from) = (format!("xmm{}", register.0), format!("xmm{}", other.0));
        for (float, suffix) in [(Float::F32, "ss"), (Float::F64, "sd")] {
            let all = [
                (FloatOp::Sqrt, "sqrt"),
                (FloatOp::Add, "add"),
                (FloatOp::Mul, "mul"),
                (FloatOp::Sub, "sub"),
                (FloatOp::Div, "div"),
            ];
            for (op, title) in all {
                check(|a| a.float_op(op, float, register, Place::from(other)), &format!("{title}{suffix} {to},{from}"));
            }
            check(|a| a.compare_floats(float, register, other), &format!("ucomi{suffix} {to},{from}"));
            check(|a| a.round(float, 3, register, other), &format!("round{suffix} {to},{from},0xb"));
            let other_suffix = if float == Float::F32 { "sd" } else { "ss" };
            let convert = format!("cvt{suffix}2{other_suffix} {to},{from}");
            check(|a| a.float_from_float(float, register, other), &convert);
            for width in WIDTHS {
                let gpr = Gpr(other.0);
                let int = name(gpr, width);
                check(|a| a.float_from_int(float, width, register, gpr), &format!("cvtsi2{suffix} {to},{int}"));
                let (gpr, int) = (Gpr(register.0), name(Gpr(register.0), width));
                check(|a| a.int_from_float(float, width, gpr, other), &format!("cvtt{suffix}2si {int},{from}"));
            }
        }
        let all =
            [(Bitwise::And, "andps"), (Bitwise::AndNot, "andnps"), (Bitwise::Or, "orps"), (Bitwise::Xor, "xorps")];
        for (op, title) in all {
            check(|a| a.bitwise(op, register, other), &format!("{title} {to},{from}"));
        }
        for (width, title) in [(Width::W32, "movd"), (Width::W64, "movq")] {
            let gpr = Gpr(other.0);
            check(|a| a.bits_to_float(width, register, gpr), &format!("{title} {to},{}", name(gpr, width)));
            check(|a| a.bits_of_float(width, gpr, register), &format!("{title} {},{to}", name(gpr, width)));
        }
        if register != other {
            check(|a| a.copy_float(register, other), &format!("movaps {to},{from}"));
        }
    }
}

#[test]
fn labels() {
    let jumps = |a: &mut Assembler| {
        let (back, ahead) = (a.label(), a.label());
        a.bind(back);
        a.jump_if(Cond::LESS, ahead);
        a.jump(back);
        a.bind(ahead);
        a.undefined();
    };
    check(jumps, "jl 0x000000000000000b; jmp 0x0000000000000000; ud2");
    let returns = |a: &mut Assembler| {
        a.enter();
        a.leave();
        a.ret(0);
        a.ret(16);
    };
    check(returns, "push rbp; mov rbp,rsp; leave; ret; ret 0x10");
}
