//! What a precompiled file declares, without loading its code.

use anyhow::Result;
use legato_compiler::module::ModuleInfo;

use crate::types::ModuleTypes;
use crate::{Engine, ExportType, ExternType, ImportType, serialize};

/// The declarations in a precompiled file. Only data is read: nothing of the file is ever executed, so the file need
/// not be trusted, nor be for this engine's heap or this machine.
///
/// ```
/// use legato::{Engine, Module, Precompiled};
///
/// let engine = Engine::default();
/// let bytes = Module::new(&engine, r#"(module (func (export "run")))"#)?.serialize()?;
/// let declared = Precompiled::read(&engine, &bytes)?;
/// assert_eq!(declared.exports().map(|export| export.name().to_owned()).collect::<Vec<_>>(), ["run"]);
/// assert!(declared.code_size() > 0);
/// assert!(Precompiled::read(&engine, b"something else").is_err());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Debug)]
pub struct Precompiled {
    engine: Engine,
    info: ModuleInfo,
    types: ModuleTypes,
    code_size: usize,
}

impl Precompiled {
    /// Reads what [`Module::serialize`](crate::Module::serialize) has written.
    ///
    /// # Errors
    /// If the bytes are something else, damaged, or of another version of this library.
    pub fn read(engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<Precompiled> {
        let module = serialize::decode(bytes.as_ref())?;
        let types = engine.types().register_module(&module.info)?;
        Ok(Precompiled { engine: engine.clone(), types, code_size: module.code.len(), info: module.info })
    }

    /// The module's imports, in order.
    pub fn imports(&self) -> impl ExactSizeIterator<Item = ImportType<'_>> + '_ {
        ExternType::imports(&self.engine, self.types.ids(), &self.info)
    }

    /// The module's exports, in order.
    pub fn exports(&self) -> impl ExactSizeIterator<Item = ExportType<'_>> + '_ {
        ExternType::exports(&self.engine, self.types.ids(), &self.info)
    }

    /// Bytes of machine code.
    pub fn code_size(&self) -> usize {
        self.code_size
    }

    /// Makes the checksum of an altered file right again, so that what lies behind it can be tested with damaged files.
    #[doc(hidden)]
    pub fn reseal(bytes: &mut [u8]) {
        serialize::reseal_altered(bytes);
    }
}
