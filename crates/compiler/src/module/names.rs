//! The name section, read leniently: names serve backtraces alone, so a broken section is no error.

use wasmparser::{BinaryReader, Name, NameSectionReader};

use super::Names;

/// Reads what can be read of a name section for a module with `functions` functions.
pub(super) fn read_names(data: &[u8], functions: usize) -> Names {
    let mut names = Names::default();
    for subsection in NameSectionReader::new(BinaryReader::new(data, 0)) {
        match subsection {
            Ok(Name::Module { name, .. }) => names.module = Some(name.to_string()),
            Ok(Name::Function(map)) => {
                for naming in map {
                    let Ok(naming) = naming else { break };
                    let index = naming.index as usize;
                    if index >= functions {
                        continue;
                    }
                    if names.functions.len() <= index {
                        names.functions.resize(index + 1, String::new());
                    }
                    names.functions[index] = naming.name.to_string();
                }
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    names
}
