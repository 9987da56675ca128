//! The order of the source files of this crate and of the heap: none imports itself by way of others, but for pairs of
//! files that belong together, and folders whose `mod.rs` chooses from values that stand in the others. So whoever
//! changes a file knows which others it may matter to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[test]
fn the_compiler_has_no_circles() {
    check("src", &[]);
}

#[test]
fn the_heap_has_no_circles() {
    check("../heap/src", &["sizing", "zeroing/stores"]);
}

/// Which parts know nothing of which others, by the beginnings of their files' names.
#[test]
fn no_import_runs_upwards() {
    for (root, part, above) in [
        ("src", "module/", &["mir/", "translate/", "passes/", "lower/", "emit/", "driver.rs"][..]),
        ("src", "mir/", &["translate/", "passes/", "lower/", "emit/", "driver.rs"]),
        ("src", "passes/", &["translate/", "lower/", "emit/", "driver.rs"]),
        ("src", "lower/", &["translate/", "emit/", "driver.rs"]),
        ("../heap/src", "spaces/", &["core.rs", "config.rs", "config/", "collector/", "heap.rs"]),
    ] {
        let imports = read(root);
        assert!(imports.keys().any(|file| file.starts_with(part)), "{part} is not where it was");
        for (file, others) in imports.iter().filter(|(file, _)| file.starts_with(part)) {
            let upwards = others.iter().find(|other| above.iter().any(|above| other.starts_with(above)));
            assert_eq!(upwards, None, "what {root}/{file} imports");
        }
    }
}

fn read(root: &str) -> BTreeMap<String, BTreeSet<String>> {
    let imports = Source::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(root)).imports();
    assert!(imports.len() > 50, "the source is not where it was");
    imports
}

/// Checks that no more than two files import each other, but in these folders.
fn check(root: &str, folders: &[&str]) {
    let imports = read(root);
    let components = components(&imports);
    let circles: Vec<&BTreeSet<String>> = components.iter().filter(|component| component.len() > 2).collect();
    let chosen: BTreeSet<&str> = circles.iter().filter_map(|component| choosing_folder(&imports, component)).collect();
    assert!(chosen.len() == circles.len(), "files of {root} import each other in a circle: {circles:#?}");
    assert_eq!(chosen, folders.iter().copied().collect(), "the folders of {root} whose `mod.rs` and values are mutual");
}

/// The folder whose files a strongly connected component consists of, if all that they import of each other is between
/// its `mod.rs` and one of the others.
fn choosing_folder<'a>(
    imports: &BTreeMap<String, BTreeSet<String>>,
    component: &'a BTreeSet<String>,
) -> Option<&'a str> {
    let chooser = component.iter().find(|file| file.ends_with("/mod.rs"))?;
    let folder = chooser.strip_suffix("/mod.rs")?;
    let is_value = |file: &String| {
        file.starts_with(&chooser[..=folder.len()])
            && imports[file].intersection(component).all(|imported| imported == chooser)
    };
    component.iter().all(|file| file == chooser || is_value(file)).then_some(folder)
}

/// The files of a crate: by module path its file, the names that it takes from elsewhere, and the other paths in it.
struct Source {
    modules: BTreeMap<Vec<String>, Module>,
}

struct Module {
    file: String,
    /// Names in scope by `use`, with their full paths.
    names: BTreeMap<String, Vec<String>>,
    /// All full paths into the crate.
    paths: Vec<Vec<String>>,
}

impl Source {
    fn read(root: &Path) -> Source {
        let mut files = Vec::new();
        collect(root, &mut files);
        let texts: BTreeMap<Vec<String>, (String, String)> = files
            .iter()
            .map(|path| {
                let file = path.strip_prefix(root).unwrap().to_str().unwrap().to_string();
                (module_path(&file), (file, without_comments_and_tests(&std::fs::read_to_string(path).unwrap())))
            })
            .collect();
        let is_module = |path: &[String]| texts.contains_key(path);
        let parse = |(path, (file, text)): (&Vec<String>, &(String, String))| {
            let mut module = Module { file: file.clone(), names: BTreeMap::new(), paths: Vec::new() };
            let (uses, body) = split(text);
            for Use { is_public, written } in uses {
                let (written, alias) = written.split_once(" as ").unwrap_or((&written, ""));
                let Some(full) = full_path(path, written, is_module) else { continue };
                let last = full.last().map_or("", String::as_str);
                let name = if alias.is_empty() { last } else { alias.trim() }.to_string();
                // What a module only hands on it does not use.
                if !is_public || words(&body).any(|word| word.split("::").next() == Some(&name)) {
                    module.paths.push(full.clone());
                }
                module.names.insert(name, full);
            }
            let written = words(&body).filter(|word| word.contains("::"));
            module.paths.extend(written.filter_map(|written| full_path(path, written, is_module)));
            (path.clone(), module)
        };
        Source { modules: texts.iter().map(parse).collect() }
    }

    /// For each file the files that it imports.
    fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let import = |module: &Module| {
            let files = module.paths.iter().filter_map(|path| self.file_of(path, 0));
            (module.file.clone(), files.filter(|file| *file != module.file).collect())
        };
        self.modules.values().map(import).collect()
    }

    /// The file in which what a path names is found. What a module has from another one by `use` is that one's.
    fn file_of(&self, path: &[String], depth: usize) -> Option<String> {
        let (length, module) =
            (0..=path.len()).rev().find_map(|length| Some((length, self.modules.get(&path[..length])?)))?;
        match path.get(length).and_then(|name| module.names.get(name)) {
            Some(from) if depth < 8 && *from != path[..=length] => {
                let from: Vec<String> = from.iter().chain(&path[length + 1..]).cloned().collect();
                self.file_of(&from, depth + 1)
            }
            _ => Some(module.file.clone()),
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn module_path(file: &str) -> Vec<String> {
    let mut path: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_string).collect();
    if let Some("mod" | "lib") = path.last().map(String::as_str) {
        path.pop();
    }
    path
}

/// The text up to the tests within the file, which are last, without comments.
fn without_comments_and_tests(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_tests = |pair: &[&str]| {
        pair[0].starts_with("#[cfg(") && words(pair[0]).any(|word| word == "test") && pair[1].ends_with('{')
    };
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    // Neither is a visibility an import.
    let code = |line: &&str| match line.split("//").next().unwrap().split_once("pub(in ") {
        Some((before, rest)) => format!("{before}pub{}", rest.split_once(')').map_or("", |(_, rest)| rest)),
        None => line.split("//").next().unwrap().to_string(),
    };
    lines[..end].iter().map(code).collect::<Vec<_>>().join("\n")
}

/// A path that a file has in a `use`.
struct Use {
    is_public: bool,
    written: String,
}

/// The uses of a text, and the rest of it.
fn split(text: &str) -> (Vec<Use>, String) {
    let (mut uses, mut body) = (Vec::new(), String::new());
    for part in text.split_inclusive(';') {
        let start = part.lines().scan(0, |at, line| Some((std::mem::replace(at, *at + line.len() + 1), line)));
        let found = start.filter_map(|(at, line)| {
            let rest = line.trim_start();
            let (is_public, rest) = match rest.strip_prefix("pub") {
                Some(rest) if rest.starts_with('(') => (true, rest.split_once(')')?.1.trim_start()),
                Some(rest) => (true, rest.trim_start()),
                None => (false, rest),
            };
            let tree = rest.strip_prefix("use ")?;
            Some((at, at + line.len() - tree.len(), is_public))
        });
        let Some((line, tree, is_public)) = found.last() else {
            body.push_str(part);
            continue;
        };
        body.push_str(&part[..line]);
        let mut paths = Vec::new();
        expand("", part[tree..].trim_end_matches(';'), &mut paths);
        uses.extend(paths.into_iter().map(|written| Use { is_public, written }));
    }
    (uses, body)
}

/// The words of a text, paths among them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).filter(|word| !word.is_empty())
}

/// The paths of a `use` tree.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        return paths.push(format!("{prefix}{}", tree.trim()));
    };
    let prefix = format!("{prefix}{}", &tree[..open]);
    let inner = &tree[open + 1..tree.rfind('}').expect("a closed group")];
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[start..at].trim().is_empty() {
                    expand(&prefix, inner[start..at].trim(), paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// A path as seen from the crate's root; `None` where it leads out of the crate.
fn full_path(module: &[String], written: &str, is_module: impl Fn(&[String]) -> bool) -> Option<Vec<String>> {
    let parts: Vec<&str> = written.split("::").map(str::trim).filter(|part| !part.is_empty()).collect();
    let (mut full, mut at) = match *parts.first()? {
        "crate" => (Vec::new(), 1),
        "self" => (module.to_vec(), 1),
        "super" => (module.to_vec(), 0),
        child => {
            let full: Vec<String> = module.iter().cloned().chain([child.to_string()]).collect();
            if !is_module(&full) {
                return None;
            }
            (module.to_vec(), 0)
        }
    };
    while parts.get(at) == Some(&"super") {
        full.pop();
        at += 1;
    }
    full.extend(parts[at..].iter().filter(|part| **part != "self").map(|part| part.to_string()));
    Some(full)
}

/// The strongly connected components of a graph (Tarjan 1972).
fn components(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    struct Search<'a> {
        imports: &'a BTreeMap<String, BTreeSet<String>>,
        /// By file: its number, and the lowest that can be reached from it.
        seen: BTreeMap<&'a str, (usize, usize)>,
        stack: Vec<&'a str>,
        found: Vec<BTreeSet<String>>,
    }
    fn visit<'a>(search: &mut Search<'a>, file: &'a str) -> usize {
        let number = search.seen.len();
        search.seen.insert(file, (number, number));
        search.stack.push(file);
        let mut lowest = number;
        for next in &search.imports[file] {
            lowest = lowest.min(match search.seen.get(next.as_str()) {
                None => visit(search, next),
                Some(_) if search.stack.contains(&next.as_str()) => search.seen[next.as_str()].0,
                Some(_) => lowest,
            });
        }
        search.seen.insert(file, (number, lowest));
        if lowest == number {
            let start = search.stack.iter().position(|other| *other == file).expect("it is on the stack");
            search.found.push(search.stack.drain(start..).map(str::to_string).collect());
        }
        lowest
    }
    let mut search = Search { imports, seen: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for file in imports.keys() {
        if !search.seen.contains_key(file.as_str()) {
            visit(&mut search, file);
        }
    }
    search.found
}
