//! Code of single functions that outlives the process.

use std::sync::{Mutex, PoisonError};

use legato_compiler::OnDemand;
use legato_compiler::emit::{FunctionCode, Symbol};
use rustc_hash::FxHashMap;
use serde_bytes::Bytes;

/// What has been compiled of a module so far, by this process and by earlier ones.
#[derive(Debug, Default)]
pub(crate) struct KeptCode {
    /// From earlier ones.
    found: FxHashMap<Symbol, Vec<u8>>,
    /// By this one; `None` where nobody is going to ask.
    compiled: Option<Mutex<Vec<(Symbol, Vec<u8>)>>>,
}

impl KeptCode {
    /// Nothing, from contents that cannot be read either; what is compiled now can be had by
    /// [`contents`](Self::contents). The contents are trusted: they hold machine code.
    pub(crate) fn from_contents(contents: Option<&[u8]>) -> KeptCode {
        let found: Option<Vec<(Symbol, &Bytes)>> = contents.and_then(|contents| postcard::from_bytes(contents).ok());
        let found = found.unwrap_or_default().into_iter().map(|(symbol, bytes)| (symbol, bytes.to_vec()));
        KeptCode { found: found.collect(), compiled: Some(Mutex::default()) }
    }

    /// The code that a symbol stands for, and whether it was kept; otherwise it is compiled now.
    ///
    /// # Errors
    /// The compiler refuses it.
    pub(super) fn code(&self, symbol: Symbol, compiler: &OnDemand) -> anyhow::Result<(FunctionCode, bool)> {
        if let Some(code) = self.found.get(&symbol).and_then(|bytes| FunctionCode::from_bytes(bytes)) {
            return Ok((code, true));
        }
        let code = compiler.compile(symbol)?;
        if let Some(compiled) = &self.compiled
            && let Some(bytes) = code.to_bytes()
        {
            compiled.lock().unwrap_or_else(PoisonError::into_inner).push((symbol, bytes));
        }
        Ok((code, false))
    }

    /// All that there is, for [`from_contents`](Self::from_contents); `None` where nothing has been added.
    pub(crate) fn contents(&self) -> Option<Vec<u8>> {
        let compiled = self.compiled.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.is_empty() {
            return None;
        }
        let found = self.found.iter().map(|(symbol, bytes)| (symbol, Bytes::new(bytes)));
        let added = compiled.iter().map(|(symbol, bytes)| (symbol, Bytes::new(bytes)));
        postcard::to_stdvec(&found.chain(added).collect::<Vec<_>>()).ok()
    }
}
