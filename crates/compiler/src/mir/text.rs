//! The text form: for golden tests and debugging. It is not read back.
//!
//! ```text
//! function 3 (i32, (ref null 2)) -> (i32)
//! b0(v0: i32, v1: (ref null 2)):
//!   v2: i32 = StructGet(2.0) needed v1
//!   branch v2, b1(v0), b2
//! ```

use std::fmt;

use super::extension::Extension;
use super::function::{Block, Edge, Function, InstData, Terminator, Value};
use super::op::{Callee, Constant, HandlerEdge, NullCheck, Op};
use crate::module::{HeapType, ModuleInfo, RefType, ValueType};

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Display for HeapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeapType::Concrete(index) => write!(f, "{}", index.0),
            other => f.write_str(&format!("{other:?}").to_lowercase()),
        }
    }
}

impl fmt::Display for RefType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(ref {}{})", if self.nullable { "null " } else { "" }, self.heap)
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Ref(ty) => ty.fmt(f),
            other => f.write_str(&format!("{other:?}").to_lowercase()),
        }
    }
}

struct ShowNullCheck(NullCheck);

impl fmt::Display for ShowNullCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            NullCheck::Needed => " needed",
            NullCheck::Elided => "",
        })
    }
}

struct ShowExtension(Extension);

impl fmt::Display for ShowExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Extension::None => "",
            Extension::Signed => " signed",
            Extension::Unsigned => " unsigned",
        })
    }
}

impl fmt::Display for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Callee::Direct(function) => write!(f, "f{}", function.0),
            Callee::Indirect(table, ty, index) => write!(f, "table{}[{index}] type{}", table.0, ty.0),
            Callee::Osr(code) => write!(f, "code {code}"),
            Callee::Reference(ty, reference, check) => write!(f, "{reference} type{}{}", ty.0, ShowNullCheck(*check)),
        }
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Constant::I32(value) => write!(f, "{value}"),
            Constant::I64(value) => write!(f, "{value}"),
            Constant::F32(bits) => write!(f, "{:?}", f32::from_bits(*bits)),
            Constant::F64(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Constant::V128(bits) => write!(f, "{bits:#x}"),
            Constant::Null(_) => f.write_str("null"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Const(constant) => write!(f, "Const {constant}"),
            Op::Unary(op) => write!(f, "{op:?}"),
            Op::Binary(op) => write!(f, "{op:?}"),
            Op::Compare(op) => write!(f, "{op:?}"),
            Op::Vector(op) => write!(f, "{op:?}"),
            Op::Load(memory, kind, offset) => write!(f, "Load({}, {kind:?}, {offset})", memory.0),
            Op::Store(memory, kind, offset) => write!(f, "Store({}, {kind:?}, {offset})", memory.0),
            Op::MemorySize(memory) => write!(f, "MemorySize({})", memory.0),
            Op::MemoryGrow(memory) => write!(f, "MemoryGrow({})", memory.0),
            Op::MemoryCopy(to, from) => write!(f, "MemoryCopy({}, {})", to.0, from.0),
            Op::MemoryFill(memory) => write!(f, "MemoryFill({})", memory.0),
            Op::MemoryInit(memory, data) => write!(f, "MemoryInit({}, {})", memory.0, data.0),
            Op::DataDrop(data) => write!(f, "DataDrop({})", data.0),
            Op::TableGet(table) => write!(f, "TableGet({})", table.0),
            Op::TableSet(table) => write!(f, "TableSet({})", table.0),
            Op::TableSize(table) => write!(f, "TableSize({})", table.0),
            Op::TableGrow(table) => write!(f, "TableGrow({})", table.0),
            Op::TableFill(table) => write!(f, "TableFill({})", table.0),
            Op::TableCopy(to, from) => write!(f, "TableCopy({}, {})", to.0, from.0),
            Op::TableInit(table, element) => write!(f, "TableInit({}, {})", table.0, element.0),
            Op::ElemDrop(element) => write!(f, "ElemDrop({})", element.0),
            Op::GlobalGet(global) => write!(f, "GlobalGet({})", global.0),
            Op::GlobalSet(global) => write!(f, "GlobalSet({})", global.0),
            Op::RefFunc(function) => write!(f, "RefFunc({})", function.0),
            Op::IsFunction(function, None) => write!(f, "IsFunction({})", function.0),
            Op::IsFunction(function, Some(global)) => write!(f, "IsFunction({}, {})", function.0, global.0),
            Op::Refine(ty) => write!(f, "Refine {ty}"),
            Op::RefTest(ty) => write!(f, "RefTest {ty}"),
            Op::RefCast(ty) => write!(f, "RefCast {ty}"),
            Op::I31Get(extension, check) => write!(f, "I31Get{}{}", ShowExtension(*extension), ShowNullCheck(*check)),
            Op::StructNew(ty) => write!(f, "StructNew({})", ty.0),
            Op::StructNewDefault(ty) => write!(f, "StructNewDefault({})", ty.0),
            Op::StructGet(ty, field, extension, check) => {
                write!(f, "StructGet({}.{field}){}{}", ty.0, ShowExtension(*extension), ShowNullCheck(*check))
            }
            Op::StructSet(ty, field, check) => write!(f, "StructSet({}.{field}){}", ty.0, ShowNullCheck(*check)),
            Op::ArrayNew(ty) => write!(f, "ArrayNew({})", ty.0),
            Op::ArrayNewDefault(ty) => write!(f, "ArrayNewDefault({})", ty.0),
            Op::ArrayNewFixed(ty) => write!(f, "ArrayNewFixed({})", ty.0),
            Op::ArrayNewData(ty, data) => write!(f, "ArrayNewData({}, {})", ty.0, data.0),
            Op::ArrayNewElem(ty, element) => write!(f, "ArrayNewElem({}, {})", ty.0, element.0),
            Op::ArrayLen(check) => write!(f, "ArrayLen{}", ShowNullCheck(*check)),
            Op::ArrayGet(ty, extension) => write!(f, "ArrayGet({}){}", ty.0, ShowExtension(*extension)),
            Op::ArraySet(ty) => write!(f, "ArraySet({})", ty.0),
            Op::ArrayFill(ty) => write!(f, "ArrayFill({})", ty.0),
            Op::ArrayCopy(to, from) => write!(f, "ArrayCopy({}, {})", to.0, from.0),
            Op::ArrayInitData(ty, data) => write!(f, "ArrayInitData({}, {})", ty.0, data.0),
            Op::ArrayInitElem(ty, element) => write!(f, "ArrayInitElem({}, {})", ty.0, element.0),
            Op::ExceptionNew(tag) => write!(f, "ExceptionNew({})", tag.0),
            Op::ExceptionGet(tag, field) => write!(f, "ExceptionGet({}.{field})", tag.0),
            Op::Call(callee) => write!(f, "Call {callee}"),
            Op::OsrEntry(offset) => write!(f, "OsrEntry({offset})"),
            Op::NoteTarget(call) => write!(f, "NoteTarget({call})"),
            Op::NoteRun(word) => write!(f, "NoteRun({word})"),
            plain => write!(f, "{plain:?}"),
        }
    }
}

/// Values separated by commas.
struct List<'a>(&'a [Value]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, value) in self.0.iter().enumerate() {
            write!(f, "{}{value}", if number > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.args.is_empty() {
            write!(f, "{}", self.block)
        } else {
            write!(f, "{}({})", self.block, List(&self.args))
        }
    }
}

fn handlers(f: &mut fmt::Formatter<'_>, handlers: &[HandlerEdge]) -> fmt::Result {
    for handler in handlers {
        match handler.tag {
            Some(tag) => write!(f, ", catch {} {}", tag.0, handler.edge)?,
            None => write!(f, ", catch all {}", handler.edge)?,
        }
    }
    Ok(())
}

impl fmt::Display for Terminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Terminator::Jump(edge) => write!(f, "jump {edge}"),
            Terminator::Branch { cond, then, otherwise } => write!(f, "branch {cond}, {then}, {otherwise}"),
            Terminator::Switch { index, targets, default } => {
                write!(f, "switch {index}")?;
                targets.iter().try_for_each(|edge| write!(f, ", {edge}"))?;
                write!(f, ", default {default}")
            }
            Terminator::Return(values) => write!(f, "return {}", List(values)),
            Terminator::TailCall { callee, args } => write!(f, "tail call {callee} ({})", List(args)),
            Terminator::TryCall { callee, args, normal, handlers: list } => {
                write!(f, "try call {callee} ({}), {normal}", List(args))?;
                handlers(f, list)
            }
            Terminator::Throw { exception, handlers: list } => {
                write!(f, "throw {exception}")?;
                handlers(f, list)
            }
            Terminator::Trap(code) => write!(f, "trap {code:?}"),
        }
    }
}

impl Function {
    /// The function's text form. Blocks that nothing leads to are left out.
    pub fn to_text(&self, info: &ModuleInfo) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_text(info, &mut text);
        text
    }

    fn write_text(&self, info: &ModuleInfo, out: &mut String) -> fmt::Result {
        use fmt::Write;
        let ty = info.func_type(self.ty);
        let types = |types: &[ValueType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        writeln!(out, "function {} ({}) -> ({})", self.index.0, types(&ty.params), types(&ty.results))?;
        let cfg = super::Cfg::new(self);
        for &block in &cfg.order {
            let data = &self.blocks[block.index()];
            write!(out, "{block}")?;
            if !data.params.is_empty() {
                let params: Vec<String> = data.params.iter().map(|&param| self.typed(param)).collect();
                write!(out, "({})", params.join(", "))?;
            }
            writeln!(out, "{}:", if data.cold { " cold" } else { "" })?;
            for &inst in &data.insts {
                self.write_inst(&self.insts[inst.index()], out)?;
            }
            match &data.terminator {
                Some(terminator) => writeln!(out, "  {}", terminator.to_string().trim_end())?,
                None => writeln!(out, "  unfinished")?,
            }
        }
        Ok(())
    }

    fn typed(&self, value: Value) -> String {
        format!("{value}: {}", self.value_type(value))
    }

    fn write_inst(&self, data: &InstData, out: &mut String) -> fmt::Result {
        use fmt::Write;
        let results: Vec<String> = data.results.iter().map(|&result| self.typed(result)).collect();
        let separator = if results.is_empty() { "" } else { " = " };
        let line = match &data.op {
            Op::Call(_) => format!("{}{separator}{} ({})", results.join(", "), data.op, List(&data.args)),
            _ => format!("{}{separator}{} {}", results.join(", "), data.op, List(&data.args)),
        };
        writeln!(out, "  {}", line.trim_end())
    }
}
