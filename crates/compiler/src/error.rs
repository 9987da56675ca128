//! Why a module was not compiled.

/// Why a module was not compiled. Offsets are in bytes from the start of the module file.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The bytes are not a valid module.
    #[error("invalid module at offset {offset:#x}: {message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// Where.
        offset: usize,
    },
    /// The module is valid but uses what this engine does not offer.
    #[error("unsupported at offset {offset:#x}: {what}")]
    Unsupported {
        /// The instruction or feature, by name.
        what: String,
        /// Where.
        offset: usize,
    },
    /// The code generator refused a function.
    #[error("cannot generate code for function {function}: {message}")]
    CodeGeneration {
        /// Index of the function in the module.
        function: u32,
        /// The generator's reason.
        message: String,
    },
    /// The host's processor or the options do not allow compilation.
    #[error("cannot compile for this target: {0}")]
    Target(String),
}

/// Turns the validator's error into ours.
pub(crate) fn invalid(error: wasmparser::Error) -> CompileError {
    CompileError::Invalid { message: error.message().to_string(), offset: error.offset() as usize }
}

impl CompileError {
    /// Where in the module file the error lies, if it has a place there.
    pub fn offset(&self) -> Option<usize> {
        match self {
            CompileError::Invalid { offset, .. } | CompileError::Unsupported { offset, .. } => Some(*offset),
            CompileError::CodeGeneration { .. } | CompileError::Target(_) => None,
        }
    }
}
