//! Whether a type that the embedder makes may stand below the supertype that it names, and why not.

use anyhow::{Result, ensure};

use crate::types::{ArrayType, FieldType, Finality, FuncType, Mutability, StorageType, StructType, ValType};

/// Of a function type with these parameters and results.
pub(super) fn check_func(above: &FuncType, params: &[ValType], results: &[ValType]) -> Result<()> {
    check_open(above.finality())?;
    for (what, needed, found) in
        [("parameters", above.params().len(), params.len()), ("results", above.results().len(), results.len())]
    {
        ensure!(needed == found, "the number of {what} is {found}, not {needed}");
    }
    for (index, (needed, param)) in above.params().zip(params).enumerate() {
        ensure!(needed.matches(param), "parameter {index} is {param}, which does not take every {needed}");
    }
    for (index, (needed, result)) in above.results().zip(results).enumerate() {
        ensure!(result.matches(&needed), "result {index} is {result}, not {needed}");
    }
    Ok(())
}

/// Of a struct type with these fields.
pub(super) fn check_struct(above: &StructType, fields: &[FieldType]) -> Result<()> {
    check_open(above.finality())?;
    let (needed, found) = (above.fields().len(), fields.len());
    ensure!(needed <= found, "the number of fields is {found}, less than {needed}");
    for (index, (needed, field)) in above.fields().zip(fields).enumerate() {
        ensure!(field_matches(field, &needed), "field {index} is {field}, not {needed}");
    }
    Ok(())
}

/// Of an array type with these elements.
pub(super) fn check_array(above: &ArrayType, element: &FieldType) -> Result<()> {
    check_open(above.finality())?;
    let needed = above.field_type();
    ensure!(field_matches(element, &needed), "the element is {element}, not {needed}");
    Ok(())
}

fn check_open(finality: Finality) -> Result<()> {
    ensure!(finality == Finality::NonFinal, "that type is final");
    Ok(())
}

/// Whether a field may stand where a supertype has `above`.
fn field_matches(field: &FieldType, above: &FieldType) -> bool {
    match (field.mutability(), above.mutability()) {
        (Mutability::Const, Mutability::Const) => match (field.element_type(), above.element_type()) {
            (StorageType::ValType(ty), StorageType::ValType(above)) => ty.matches(above),
            (a, b) => a == b,
        },
        (Mutability::Var, Mutability::Var) => field.element_type() == above.element_type(),
        _ => false,
    }
}
