//! x86-64 machine code: the forms of instructions that [baseline code](super) is made of, and labels.

use super::operands::{
    Alu, Bitwise, Cond, Count, Extend, Float, FloatOp, Gpr, Mem, Place, RBP, RSP, Shift, Sole, Width, Xmm,
};

/// A place in the code, perhaps one that is yet to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(u32);

impl Label {
    /// The label's number.
    pub(super) fn number(self) -> u32 {
        self.0
    }

    /// The label that has a number.
    pub(super) fn numbered(number: u32) -> Label {
        Label(number)
    }
}

/// The offset of a label that has no place yet.
const UNBOUND: u32 = u32::MAX;

/// Code under construction.
#[derive(Default)]
pub(super) struct Assembler {
    pub(super) code: Vec<u8>,
    labels: Vec<u32>,
    /// Words that are to hold the distance from their own end to a label.
    distances: Vec<(u32, Label)>,
    /// Words that are to hold the distance from one label to another.
    entries: Vec<(u32, Label, Label)>,
}

impl Assembler {
    /// Bytes of code so far.
    pub(super) fn offset(&self) -> u32 {
        self.code.len() as u32
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(UNBOUND);
        Label(self.labels.len() as u32 - 1)
    }

    /// Gives a label this place.
    pub(super) fn bind(&mut self, label: Label) {
        debug_assert_eq!(self.labels[label.0 as usize], UNBOUND, "a label has one place");
        self.labels[label.0 as usize] = self.offset();
    }

    /// Where a label lies that has a place.
    pub(super) fn place_of(&self, label: Label) -> u32 {
        self.labels[label.0 as usize]
    }

    /// Has all words lead to their labels, which must have places.
    pub(super) fn resolve(&mut self) {
        for &(at, label) in &self.distances {
            let distance = self.labels[label.0 as usize].wrapping_sub(at + 4);
            self.code[at as usize..][..4].copy_from_slice(&distance.to_le_bytes());
        }
        for &(at, from, to) in &self.entries {
            let distance = self.labels[to.0 as usize].wrapping_sub(self.labels[from.0 as usize]);
            self.code[at as usize..][..4].copy_from_slice(&distance.to_le_bytes());
        }
    }

    fn word(&mut self, word: u32) {
        self.code.extend_from_slice(&word.to_le_bytes());
    }

    fn distance_to(&mut self, label: Label) {
        self.distances.push((self.offset(), label));
        self.word(0);
    }

    /// The general form: prefix, REX, opcode, and a register or number with an operand that may lie in memory. Byte
    /// registers above the third have a name of their own with a REX alone, which `byte` asks for.
    fn form(&mut self, prefix: Option<u8>, width: Width, opcode: &[u8], register: u8, place: Place, byte: bool) {
        self.code.extend(prefix);
        let (index, base) = match place {
            Place::Reg(number) => (0, number),
            Place::Mem(place) => (place.index.map_or(0, |index| index.0), place.base.0),
        };
        let wide = u8::from(width == Width::W64);
        let rex = 0x40 | wide << 3 | (register >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        if rex != 0x40 || byte {
            self.code.push(rex);
        }
        self.code.extend_from_slice(opcode);
        let register = (register & 7) << 3;
        let place = match place {
            Place::Reg(number) => return self.code.push(0xc0 | register | number & 7),
            Place::Mem(place) => place,
        };
        // A base of rbp or r13 has no form without a distance; one of rsp or r12 none without an index.
        let (mode, bytes) = match place.offset {
            0 if base & 7 != 5 => (0, 0),
            -128..=127 => (0x40, 1),
            _ => (0x80, 4),
        };
        match place.index {
            Some(index) => {
                debug_assert_ne!(index, RSP, "the stack pointer is no index");
                self.code.extend([mode | register | 4, (index.0 & 7) << 3 | base & 7]);
            }
            None if base & 7 == 4 => self.code.extend([mode | register | 4, 0x24]),
            None => self.code.push(mode | register | base & 7),
        }
        self.code.extend_from_slice(&place.offset.to_le_bytes()[..bytes]);
    }

    pub(super) fn mov(&mut self, width: Width, to: Gpr, from: impl Into<Place>) {
        self.form(None, width, &[0x8b], to.0, from.into(), false);
    }

    /// Moves all bits of a register, if it is another one.
    pub(super) fn copy(&mut self, to: Gpr, from: Gpr) {
        if to != from {
            self.mov(Width::W64, to, from);
        }
    }

    /// Loads a number, in the shortest form that leaves the flags alone.
    pub(super) fn number(&mut self, to: Gpr, number: i64) {
        if let Ok(low) = u32::try_from(number) {
            self.code.extend((to.0 > 7).then_some(0x41));
            self.code.push(0xb8 | to.0 & 7);
            self.word(low);
        } else if let Ok(low) = i32::try_from(number) {
            self.form(None, Width::W64, &[0xc7], 0, to.into(), false);
            self.word(low as u32);
        } else {
            self.code.extend([0x48 | to.0 >> 3, 0xb8 | to.0 & 7]);
            self.code.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(super) fn extend(&mut self, width: Width, extend: Extend, to: Gpr, from: impl Into<Place>) {
        let from = from.into();
        let byte = matches!(extend, Extend::Zero8 | Extend::Sign8) && matches!(from, Place::Reg(4..));
        let opcode: &[u8] = match extend {
            Extend::Zero8 => &[0x0f, 0xb6],
            Extend::Zero16 => &[0x0f, 0xb7],
            Extend::Sign8 => &[0x0f, 0xbe],
            Extend::Sign16 => &[0x0f, 0xbf],
            Extend::Sign32 => &[0x63],
        };
        self.form(None, width, opcode, to.0, from, byte);
    }

    /// Stores the lowest `bytes` of a register: 1, 2, 4 or 8.
    pub(super) fn store(&mut self, bytes: u8, to: Mem, from: Gpr) {
        let width = if bytes == 8 { Width::W64 } else { Width::W32 };
        let prefix = (bytes == 2).then_some(0x66);
        let opcode = if bytes == 1 { 0x88 } else { 0x89 };
        self.form(prefix, width, &[opcode], from.0, to.into(), bytes == 1 && from.0 > 3);
    }

    /// Stores a number in as many bytes: 1, 2, 4, or 8 with its sign.
    pub(super) fn store_number(&mut self, bytes: u8, to: Mem, number: i32) {
        let width = if bytes == 8 { Width::W64 } else { Width::W32 };
        let prefix = (bytes == 2).then_some(0x66);
        let opcode = if bytes == 1 { 0xc6 } else { 0xc7 };
        self.form(prefix, width, &[opcode], 0, to.into(), false);
        self.code.extend_from_slice(&number.to_le_bytes()[..usize::from(bytes.min(4))]);
    }

    pub(super) fn address(&mut self, width: Width, to: Gpr, of: Mem) {
        self.form(None, width, &[0x8d], to.0, of.into(), false);
    }

    /// Loads the address of a label.
    pub(super) fn address_of(&mut self, to: Gpr, label: Label) {
        self.code.extend([0x48 | to.0 >> 3 << 2, 0x8d, (to.0 & 7) << 3 | 5]);
        self.distance_to(label);
    }

    pub(super) fn alu(&mut self, alu: Alu, width: Width, to: Gpr, from: impl Into<Place>) {
        self.form(None, width, &[(alu as u8) << 3 | 3], to.0, from.into(), false);
    }

    pub(super) fn alu_number(&mut self, alu: Alu, width: Width, to: impl Into<Place>, number: i32) {
        let (opcode, bytes) = if i8::try_from(number).is_ok() { (0x83, 1) } else { (0x81, 4) };
        self.form(None, width, &[opcode], alu as u8, to.into(), false);
        self.code.extend_from_slice(&number.to_le_bytes()[..bytes]);
    }

    pub(super) fn test(&mut self, width: Width, left: Gpr, right: Gpr) {
        self.form(None, width, &[0x85], right.0, left.into(), false);
    }

    pub(super) fn multiply(&mut self, width: Width, to: Gpr, from: impl Into<Place>) {
        self.form(None, width, &[0x0f, 0xaf], to.0, from.into(), false);
    }

    pub(super) fn multiply_by(&mut self, width: Width, to: Gpr, from: impl Into<Place>, number: i32) {
        self.form(None, width, &[0x69], to.0, from.into(), false);
        self.word(number as u32);
    }

    pub(super) fn shift_by(&mut self, shift: Shift, width: Width, to: Gpr, bits: u8) {
        self.form(None, width, &[0xc1], shift as u8, to.into(), false);
        self.code.push(bits);
    }

    /// Shifts by what rcx holds.
    pub(super) fn shift(&mut self, shift: Shift, width: Width, to: Gpr) {
        self.form(None, width, &[0xd3], shift as u8, to.into(), false);
    }

    /// Repeats the sign of rax in rdx.
    pub(super) fn repeat_sign(&mut self, width: Width) {
        self.code.extend((width == Width::W64).then_some(0x48));
        self.code.push(0x99);
    }

    pub(super) fn sole(&mut self, sole: Sole, width: Width, operand: Gpr) {
        self.form(None, width, &[0xf7], sole as u8, operand.into(), false);
    }

    pub(super) fn count(&mut self, count: Count, width: Width, to: Gpr, from: impl Into<Place>) {
        self.form(Some(0xf3), width, &[0x0f, count as u8], to.0, from.into(), false);
    }

    /// Sets a register to 1 or 0, by a condition.
    pub(super) fn set(&mut self, cond: Cond, to: Gpr) {
        self.form(None, Width::W32, &[0x0f, 0x90 | cond.0], 0, to.into(), to.0 > 3);
        self.extend(Width::W32, Extend::Zero8, to, to);
    }

    pub(super) fn move_if(&mut self, cond: Cond, width: Width, to: Gpr, from: impl Into<Place>) {
        self.form(None, width, &[0x0f, 0x40 | cond.0], to.0, from.into(), false);
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.code.push(0xe9);
        self.distance_to(to);
    }

    pub(super) fn jump_if(&mut self, cond: Cond, to: Label) {
        self.code.extend([0x0f, 0x80 | cond.0]);
        self.distance_to(to);
    }

    /// A call or jump of which the word that is to hold the distance is given back.
    pub(super) fn call_or_jump(&mut self, is_call: bool) -> u32 {
        self.code.push(if is_call { 0xe8 } else { 0xe9 });
        self.word(0);
        self.offset() - 4
    }

    pub(super) fn call_or_jump_to(&mut self, is_call: bool, to: Gpr) {
        self.form(None, Width::W32, &[0xff], if is_call { 2 } else { 4 }, to.into(), false);
    }

    /// Pushes the frame pointer.
    pub(super) fn enter(&mut self) {
        self.code.push(0x55);
        self.copy(RBP, RSP);
    }

    /// Drops the frame.
    pub(super) fn leave(&mut self) {
        self.code.push(0xc9);
    }

    /// Returns, and drops as many bytes of arguments.
    pub(super) fn ret(&mut self, arguments: u16) {
        match arguments {
            0 => self.code.push(0xc3),
            bytes => {
                self.code.push(0xc2);
                self.code.extend_from_slice(&bytes.to_le_bytes());
            }
        }
    }

    /// What traps.
    pub(super) fn undefined(&mut self) {
        self.code.extend([0x0f, 0x0b]);
    }

    /// A word of a jump table: the distance from the table's label to another.
    pub(super) fn entry(&mut self, table: Label, to: Label) {
        self.entries.push((self.offset(), table, to));
        self.word(0);
    }

    pub(super) fn load_float(&mut self, float: Float, to: Xmm, from: Mem) {
        self.form(Some(float.prefix()), Width::W32, &[0x0f, 0x10], to.0, from.into(), false);
    }

    pub(super) fn store_float(&mut self, float: Float, to: Mem, from: Xmm) {
        self.form(Some(float.prefix()), Width::W32, &[0x0f, 0x11], from.0, to.into(), false);
    }

    /// Moves a vector register, if it is another one.
    pub(super) fn copy_float(&mut self, to: Xmm, from: Xmm) {
        if to != from {
            self.form(None, Width::W32, &[0x0f, 0x28], to.0, from.into(), false);
        }
    }

    pub(super) fn float_op(&mut self, op: FloatOp, float: Float, to: Xmm, from: impl Into<Place>) {
        self.form(Some(float.prefix()), Width::W32, &[0x0f, op as u8], to.0, from.into(), false);
    }

    pub(super) fn bitwise(&mut self, op: Bitwise, to: Xmm, from: Xmm) {
        self.form(None, Width::W32, &[0x0f, op as u8], to.0, from.into(), false);
    }

    pub(super) fn compare_floats(&mut self, float: Float, left: Xmm, right: impl Into<Place>) {
        let prefix = (float == Float::F64).then_some(0x66);
        self.form(prefix, Width::W32, &[0x0f, 0x2e], left.0, right.into(), false);
    }

    /// Moves bits from a general-purpose register.
    pub(super) fn bits_to_float(&mut self, width: Width, to: Xmm, from: Gpr) {
        self.form(Some(0x66), width, &[0x0f, 0x6e], to.0, from.into(), false);
    }

    /// Moves bits to a general-purpose register.
    pub(super) fn bits_of_float(&mut self, width: Width, to: Gpr, from: Xmm) {
        self.form(Some(0x66), width, &[0x0f, 0x7e], from.0, to.into(), false);
    }

    pub(super) fn float_from_int(&mut self, float: Float, width: Width, to: Xmm, from: Gpr) {
        self.form(Some(float.prefix()), width, &[0x0f, 0x2a], to.0, from.into(), false);
    }

    /// Rounds towards zero; what cannot be held becomes the least number.
    pub(super) fn int_from_float(&mut self, float: Float, width: Width, to: Gpr, from: Xmm) {
        self.form(Some(float.prefix()), width, &[0x0f, 0x2c], to.0, from.into(), false);
    }

    /// Makes a float of one width that of the other.
    pub(super) fn float_from_float(&mut self, from_width: Float, to: Xmm, from: Xmm) {
        self.form(Some(from_width.prefix()), Width::W32, &[0x0f, 0x5a], to.0, from.into(), false);
    }

    /// Rounds: 0 to the nearest, 1 down, 2 up, 3 towards zero.
    pub(super) fn round(&mut self, float: Float, mode: u8, to: Xmm, from: Xmm) {
        let opcode = if float == Float::F32 { 0x0a } else { 0x0b };
        self.form(Some(0x66), Width::W32, &[0x0f, 0x3a, opcode], to.0, from.into(), false);
        self.code.push(8 | mode);
    }
}
