//! Loops that have not run when their function is optimised: nothing is known of what they call by reference. Optimised
//! code goes through them as quick code does: it notes what they call, and leaves them for code of their own once they
//! have turned out to be hot.

use std::ops::Range;

use wasmparser::{FunctionBody, Operator, OperatorsReader, WasmFeatures};

use super::profile::Profile;
use crate::CompileError;
use crate::error::invalid;

/// The loops of a valid body, each with where it begins and ends in the module file. The outer ones come first.
fn loops(body: &FunctionBody<'_>, features: WasmFeatures) -> Result<Vec<Range<u32>>, CompileError> {
    let mut reader = body.get_binary_reader();
    reader.set_features(features);
    for _ in 0..reader.read_var_u32().map_err(invalid)? {
        reader.read_var_u32().map_err(invalid)?;
        reader.read::<wasmparser::ValType>().map_err(invalid)?;
    }
    let mut loops: Vec<Range<u32>> = Vec::new();
    // Of each construct that is open, its place among the loops if it is one.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut operators = OperatorsReader::new(reader);
    while !operators.eof() {
        let offset = operators.original_position() as u32;
        match operators.read().map_err(invalid)? {
            Operator::Loop { .. } => {
                open.push(Some(loops.len()));
                loops.push(offset..offset);
            }
            Operator::Block { .. } | Operator::If { .. } | Operator::TryTable { .. } => open.push(None),
            Operator::End => {
                if let Some(Some(ended)) = open.pop() {
                    loops[ended].end = offset;
                }
            }
            _ => {}
        }
    }
    Ok(loops)
}

/// Where the loops of a valid body begin that hold the loop at `from`, outermost first.
///
/// Errors: none, as the body is valid.
pub(super) fn loops_around(
    body: &FunctionBody<'_>,
    features: WasmFeatures,
    from: u32,
) -> Result<Vec<u32>, CompileError> {
    let loops = loops(body, features)?;
    Ok(loops.into_iter().filter(|found| found.start < from && from < found.end).map(|found| found.start).collect())
}

/// Where the loops of a valid body begin that call by reference and have not run, and the loops within these. Those
/// that contain the loop at `from` have run.
///
/// Errors: none, as the body is valid.
pub(super) fn untried_loops(
    body: &FunctionBody<'_>,
    features: WasmFeatures,
    from: Option<u32>,
    profile: &Profile,
) -> Result<Vec<u32>, CompileError> {
    let range = body.range();
    let range = range.start as u32..range.end as u32;
    if !profile.has_references(&range) || !profile.has_untried(&range) {
        return Ok(Vec::new());
    }
    let mut untried = Vec::new();
    // Where the last of them ends that is not within another.
    let mut end = 0;
    for found in loops(body, features)? {
        let has_run = profile.loop_count(found.start) != 0 || from.is_some_and(|from| found.contains(&from));
        if found.end <= end {
            untried.push(found.start);
        } else if !has_run && profile.has_references(&found) {
            untried.push(found.start);
            end = found.end;
        }
    }
    Ok(untried)
}
