//! References, structs, arrays, i31.

use wasmparser::Operator;

use super::Translator;
use crate::CompileError;
use crate::mir::{Constant, Extension, NullCheck, Op, Value};
use crate::module::{DataIndex, ElemIndex, FuncIndex, HeapType, RefType, TypeIndex, ValueType};

const I31: ValueType = ValueType::Ref(RefType::non_null(HeapType::I31));

fn object(ty: TypeIndex) -> ValueType {
    ValueType::Ref(RefType::non_null(HeapType::Concrete(ty)))
}

impl Translator<'_> {
    /// Translates an instruction on references; false if it is none.
    pub(super) fn gc(&mut self, operator: &Operator<'_>) -> Result<bool, CompileError> {
        match *operator {
            Operator::StructNew { .. }
            | Operator::StructNewDefault { .. }
            | Operator::StructGet { .. }
            | Operator::StructGetS { .. }
            | Operator::StructGetU { .. }
            | Operator::StructSet { .. } => self.structs(operator),
            Operator::RefNull { hty } => {
                let heap = self.heap(hty)?;
                self.push_const(Constant::Null(heap));
            }
            Operator::RefIsNull => self.apply(1, Op::RefIsNull, Some(ValueType::I32)),
            Operator::RefFunc { function_index } => {
                let function = FuncIndex(function_index);
                self.apply(0, Op::RefFunc(function), Some(object(self.info.type_of(function))));
            }
            Operator::RefEq => self.apply(2, Op::RefEq, Some(ValueType::I32)),
            Operator::RefAsNonNull => {
                let reference = self.pop();
                let checked = self.null_check(reference);
                self.push(checked);
            }
            Operator::RefTestNonNull { hty } => {
                let ty = RefType::non_null(self.heap(hty)?);
                self.apply(1, Op::RefTest(ty), Some(ValueType::I32));
            }
            Operator::RefTestNullable { hty } => {
                let ty = RefType::nullable(self.heap(hty)?);
                self.apply(1, Op::RefTest(ty), Some(ValueType::I32));
            }
            Operator::RefCastNonNull { hty } => {
                let ty = RefType::non_null(self.heap(hty)?);
                self.cast(ty);
            }
            Operator::RefCastNullable { hty } => {
                let ty = RefType::nullable(self.heap(hty)?);
                self.cast(ty);
            }
            Operator::AnyConvertExtern => self.convert(HeapType::Any),
            Operator::ExternConvertAny => self.convert(HeapType::Extern),
            Operator::RefI31 => self.apply(1, Op::RefI31, Some(I31)),
            Operator::I31GetS => self.i31_get(Extension::Signed),
            Operator::I31GetU => self.i31_get(Extension::Unsigned),
            _ => return Ok(self.arrays(operator)),
        }
        Ok(true)
    }

    fn structs(&mut self, operator: &Operator<'_>) {
        match *operator {
            Operator::StructNew { struct_type_index } => {
                let ty = self.types.index(struct_type_index);
                let fields = self.info.struct_fields(ty).len();
                self.apply(fields, Op::StructNew(ty), Some(object(ty)));
            }
            Operator::StructNewDefault { struct_type_index } => {
                let ty = self.types.index(struct_type_index);
                self.apply(0, Op::StructNewDefault(ty), Some(object(ty)));
            }
            Operator::StructGet { struct_type_index, field_index } => {
                self.struct_get(struct_type_index, field_index, Extension::None);
            }
            Operator::StructGetS { struct_type_index, field_index } => {
                self.struct_get(struct_type_index, field_index, Extension::Signed);
            }
            Operator::StructGetU { struct_type_index, field_index } => {
                self.struct_get(struct_type_index, field_index, Extension::Unsigned);
            }
            Operator::StructSet { struct_type_index, field_index } => {
                let ty = self.types.index(struct_type_index);
                let value = self.pop();
                let object = self.pop();
                let check = self.null_check_of(object);
                self.emit(Op::StructSet(ty, field_index, check), &[object, value], &[]);
            }
            _ => unreachable!("called for struct instructions alone"),
        }
    }

    fn struct_get(&mut self, ty: u32, field: u32, extension: Extension) {
        let ty = self.types.index(ty);
        let result = self.info.struct_fields(ty)[field as usize].storage.unpacked();
        let object = self.pop();
        let check = self.null_check_of(object);
        self.push_value(Op::StructGet(ty, field, extension, check), &[object], result);
    }

    fn i31_get(&mut self, extension: Extension) {
        let reference = self.pop();
        let check = self.null_check_of(reference);
        self.push_value(Op::I31Get(extension, check), &[reference], ValueType::I32);
    }

    /// The reference without null, after a check unless the type says as much.
    fn null_check(&mut self, reference: Value) -> Value {
        let ty = self.ref_type(reference);
        if !ty.nullable {
            return reference;
        }
        self.value(Op::NullCheck, &[reference], ValueType::Ref(RefType::non_null(ty.heap)))
    }

    fn cast(&mut self, to: RefType) {
        let reference = self.pop();
        let from = self.ref_type(reference);
        if self.info.is_ref_subtype(from, to) {
            return self.push(reference);
        }
        // What is known already is kept: the source may be narrower in one respect.
        let heap = if self.info.is_heap_subtype(from.heap, to.heap) { from.heap } else { to.heap };
        let result = RefType { nullable: from.nullable && to.nullable, heap };
        self.push_value(Op::RefCast(to), &[reference], ValueType::Ref(result));
    }

    /// Between the hierarchies of `any` and `extern`, which share one representation.
    fn convert(&mut self, heap: HeapType) {
        let reference = self.pop();
        let ty = RefType { nullable: self.ref_type(reference).nullable, heap };
        self.push_value(Op::Refine(ty), &[reference], ValueType::Ref(ty));
    }

    fn arrays(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::ArrayNew { array_type_index } => {
                let ty = self.types.index(array_type_index);
                self.apply(2, Op::ArrayNew(ty), Some(object(ty)));
            }
            Operator::ArrayNewDefault { array_type_index } => {
                let ty = self.types.index(array_type_index);
                self.apply(1, Op::ArrayNewDefault(ty), Some(object(ty)));
            }
            Operator::ArrayNewFixed { array_type_index, array_size } => {
                let ty = self.types.index(array_type_index);
                self.apply(array_size as usize, Op::ArrayNewFixed(ty), Some(object(ty)));
            }
            Operator::ArrayNewData { array_type_index, array_data_index } => {
                let ty = self.types.index(array_type_index);
                self.apply(2, Op::ArrayNewData(ty, DataIndex(array_data_index)), Some(object(ty)));
            }
            Operator::ArrayNewElem { array_type_index, array_elem_index } => {
                let ty = self.types.index(array_type_index);
                self.apply(2, Op::ArrayNewElem(ty, ElemIndex(array_elem_index)), Some(object(ty)));
            }
            Operator::ArrayLen => {
                let array = self.pop();
                let length = self.array_len(array);
                self.push(length);
            }
            Operator::ArrayGet { array_type_index } => self.array_get(array_type_index, Extension::None),
            Operator::ArrayGetS { array_type_index } => self.array_get(array_type_index, Extension::Signed),
            Operator::ArrayGetU { array_type_index } => self.array_get(array_type_index, Extension::Unsigned),
            Operator::ArraySet { array_type_index } => {
                let ty = self.types.index(array_type_index);
                let value = self.pop();
                let index = self.pop();
                let array = self.pop();
                self.check_element(array, index);
                self.emit(Op::ArraySet(ty), &[array, index, value], &[]);
            }
            Operator::ArrayFill { array_type_index } => {
                let ty = self.types.index(array_type_index);
                self.bulk(Op::ArrayFill(ty), 4, &[0]);
            }
            Operator::ArrayCopy { array_type_index_dst, array_type_index_src } => {
                let (to, from) = (self.types.index(array_type_index_dst), self.types.index(array_type_index_src));
                self.bulk(Op::ArrayCopy(to, from), 5, &[0, 2]);
            }
            Operator::ArrayInitData { array_type_index, array_data_index } => {
                let ty = self.types.index(array_type_index);
                self.bulk(Op::ArrayInitData(ty, DataIndex(array_data_index)), 4, &[0]);
            }
            Operator::ArrayInitElem { array_type_index, array_elem_index } => {
                let ty = self.types.index(array_type_index);
                self.bulk(Op::ArrayInitElem(ty, ElemIndex(array_elem_index)), 4, &[0]);
            }
            _ => return false,
        }
        true
    }

    fn array_len(&mut self, array: Value) -> Value {
        let check: NullCheck = self.null_check_of(array);
        self.value(Op::ArrayLen(check), &[array], ValueType::I32)
    }

    /// Traps unless the array has an element of this index.
    fn check_element(&mut self, array: Value, index: Value) {
        let length = self.array_len(array);
        self.emit(Op::BoundsCheck, &[index, length], &[]);
    }

    fn array_get(&mut self, ty: u32, extension: Extension) {
        let ty = self.types.index(ty);
        let result = self.info.array_element(ty).storage.unpacked();
        let index = self.pop();
        let array = self.pop();
        self.check_element(array, index);
        self.push_value(Op::ArrayGet(ty, extension), &[array, index], result);
    }

    /// An operation on whole ranges, whose arrays (`arrays`: which operands) are checked for null first.
    fn bulk(&mut self, op: Op, operands: usize, arrays: &[usize]) {
        let mut args = self.pop_many(operands);
        for &array in arrays {
            args[array] = self.null_check(args[array]);
        }
        self.emit(op, &args, &[]);
    }
}
