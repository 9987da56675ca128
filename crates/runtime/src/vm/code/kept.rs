//! Code of single functions that outlives the process.

use std::sync::{Mutex, PoisonError};

use legato_compiler::emit::{FunctionCode, Symbol};
use legato_compiler::{OnDemand, Tier};
use rustc_hash::FxHashMap;
use serde_bytes::ByteBuf;

/// The code of a symbol, compiled so.
type Piece = ((Symbol, Tier), ByteBuf);

/// What has been compiled of a module so far, by this process and by earlier ones.
#[derive(Debug, Default)]
pub(crate) struct KeptCode {
    /// From earlier ones.
    found: FxHashMap<(Symbol, Tier), ByteBuf>,
    /// By this one; `None` where nobody is going to ask.
    compiled: Option<Mutex<Vec<Piece>>>,
}

impl KeptCode {
    /// Nothing, from contents that cannot be read either; what is compiled now can be had by
    /// [`contents`](Self::contents). The contents are trusted: they hold machine code.
    pub(crate) fn from_contents(contents: Option<&[u8]>) -> KeptCode {
        let found: Option<Vec<Piece>> = contents.and_then(|contents| postcard::from_bytes(contents).ok());
        KeptCode { found: found.unwrap_or_default().into_iter().collect(), compiled: Some(Mutex::default()) }
    }

    /// Whether there is optimised code of a symbol.
    pub(super) fn is_optimized(&self, symbol: Symbol) -> bool {
        self.found.contains_key(&(symbol, Tier::Optimized))
    }

    /// The code that a symbol stands for, and whether it was kept; otherwise it is compiled now.
    ///
    /// # Errors
    /// The compiler refuses it.
    pub(super) fn code(&self, symbol: Symbol, tier: Tier, compiler: &OnDemand) -> anyhow::Result<(FunctionCode, bool)> {
        if let Some(code) = self.found.get(&(symbol, tier)).and_then(|bytes| FunctionCode::from_bytes(bytes)) {
            return Ok((code, true));
        }
        let code = compiler.compile(symbol, tier)?;
        if let Some(compiled) = &self.compiled
            && let Some(bytes) = code.to_bytes()
        {
            compiled.lock().unwrap_or_else(PoisonError::into_inner).push(((symbol, tier), ByteBuf::from(bytes)));
        }
        Ok((code, false))
    }

    /// All that there is, for [`from_contents`](Self::from_contents), but for what there is better code of; `None`
    /// where nothing has been added.
    pub(crate) fn contents(&self) -> Option<Vec<u8>> {
        let compiled = self.compiled.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.is_empty() {
            return None;
        }
        let mut all: FxHashMap<_, _> =
            self.found.iter().chain(compiled.iter().map(|(key, bytes)| (key, bytes))).collect();
        let optimized: Vec<Symbol> =
            all.keys().filter(|(_, tier)| *tier == Tier::Optimized).map(|(symbol, _)| *symbol).collect();
        optimized.iter().for_each(|&symbol| _ = all.remove(&(symbol, Tier::Quick)));
        postcard::to_stdvec(&all.into_iter().collect::<Vec<_>>()).ok()
    }
}
