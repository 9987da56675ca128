//! The name section, read leniently: names serve what is said of failures alone, so a broken section is no error. Nor
//! need names be sorted, as the specification wants it: TeaVM's are not.

use wasmparser::{BinaryReader, Naming, Result, SectionLimited};

use super::{ModuleInfo, Names};

/// Reads what can be read of a module's name section.
pub(super) fn read_names(data: &[u8], info: &ModuleInfo) -> Names {
    let mut names = Names::default();
    let mut section = BinaryReader::new(data, 0);
    while !section.eof() {
        let Ok((id, contents)) = subsection(&mut section) else { break };
        let contents = BinaryReader::new(contents, 0);
        // What is broken within a subsection does not reach the others.
        let _ = match id {
            0 => module_name(contents).map(|name| names.module = Some(name)),
            1 => note(contents, info.functions.len(), &mut names.functions),
            4 => note(contents, info.types.len(), &mut names.types),
            11 => note(contents, info.tags.len(), &mut names.tags),
            _ => Ok(()),
        };
    }
    names
}

/// A subsection's number and contents.
fn subsection<'a>(section: &mut BinaryReader<'a>) -> Result<(u8, &'a [u8])> {
    let id = section.read_u8()?;
    let bytes = section.read_var_u32()?;
    Ok((id, section.read_bytes(bytes as usize)?))
}

fn module_name(mut contents: BinaryReader) -> Result<String> {
    contents.read_string().map(str::to_string)
}

/// Notes the names of what there are `count` of, by index.
fn note(contents: BinaryReader, count: usize, names: &mut Vec<String>) -> Result<()> {
    for naming in SectionLimited::<Naming>::new(contents)? {
        let Naming { index, name } = naming?;
        let index = index as usize;
        if index >= count {
            continue;
        }
        if names.len() <= index {
            names.resize(index + 1, String::new());
        }
        names[index] = name.to_string();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::TypeIndex;

    #[test]
    fn what_is_broken_or_unsorted_does_not_matter() {
        let info = ModuleInfo { tags: vec![TypeIndex(0); 3], ..ModuleInfo::default() };
        // Tags in no order, one of them too many; types, fewer than it says; the module; the beginning of functions.
        let data = b"\x0b\x0a\x03\x02\x01c\x00\x01a\x07\x01x\x04\x01\x05\x00\x02\x01m\x01\x50\x01";
        let names = read_names(data, &info);
        assert_eq!((names.tags, names.module), (vec!["a".into(), "".into(), "c".into()], Some("m".into())));
        assert_eq!((names.types, names.functions), (vec![], vec![]));
    }
}
