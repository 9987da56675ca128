//! Programs to be read.

use super::names::{IMPORTS, MANY, OBSERVE};
use std::fmt::Write;
use wasmparser::{Operator, Parser, Payload};

/// The types and the generated functions of a program, an instruction in a line.
///
/// # Errors
/// If it is no module.
pub fn listing(wasm: &[u8]) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut function = IMPORTS;
    let mut index = 0;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::TypeSection(types) => {
                for group in types {
                    for ty in group?.types() {
                        writeln!(text, "type {index}: {ty}")?;
                        index += 1;
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let left_out = matches!(body.get_operators_reader()?.read()?, Operator::Unreachable);
                if function >= MANY[0] && function != OBSERVE && !left_out {
                    writeln!(text, "function {function}")?;
                    let mut depth = 1;
                    for operator in body.get_operators_reader()? {
                        let operator = operator?;
                        depth -= usize::from(matches!(operator, Operator::End | Operator::Else));
                        writeln!(text, "{:1$}{operator:?}", "", 2 * depth)?;
                        depth += usize::from(matches!(
                            operator,
                            Operator::Block { .. }
                                | Operator::Loop { .. }
                                | Operator::If { .. }
                                | Operator::Else
                                | Operator::TryTable { .. }
                        ));
                    }
                }
                function += 1;
            }
            _ => {}
        }
    }
    Ok(text)
}
