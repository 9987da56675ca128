//! Code of single functions that outlives the process.

use std::sync::{Mutex, PoisonError};

use legato_compiler::emit::{FunctionCode, Symbol};
use legato_compiler::{OnDemand, Tier};
use rustc_hash::FxHashMap;
use serde_bytes::ByteBuf;

/// What code is kept by. Trampolines are all [`Tier::Optimized`].
type Key = (Symbol, Tier);

/// Code with its key.
type Piece = (Key, ByteBuf);

/// The code that a symbol stands for.
pub(super) struct Found {
    pub(super) code: FunctionCode,
    pub(super) tier: Tier,
    /// Whether it was kept; otherwise it has been compiled now.
    pub(super) kept: bool,
}

/// What has been compiled of a module so far, by this process and by earlier ones.
#[derive(Debug, Default)]
pub(crate) struct KeptCode {
    /// From earlier ones.
    found: FxHashMap<Key, ByteBuf>,
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

    /// The code that a symbol stands for, of this tier or a better one that was kept.
    ///
    /// # Errors
    /// The compiler refuses it.
    pub(super) fn code(&self, symbol: Symbol, tier: Tier, compiler: &OnDemand) -> anyhow::Result<Found> {
        for better in [Tier::Optimized, tier] {
            let bytes = self.found.get(&(symbol, better));
            if let Some(code) = bytes.and_then(|bytes| FunctionCode::from_bytes(bytes)) {
                return Ok(Found { code, tier: better, kept: true });
            }
        }
        let code = compiler.compile(symbol, tier)?;
        if let Some(compiled) = &self.compiled
            && let Some(bytes) = code.to_bytes()
        {
            compiled.lock().unwrap_or_else(PoisonError::into_inner).push(((symbol, tier), ByteBuf::from(bytes)));
        }
        Ok(Found { code, tier, kept: false })
    }

    /// All that there is, for [`from_contents`](Self::from_contents), but for what there is better code of; `None`
    /// where nothing has been added.
    pub(crate) fn contents(&self) -> Option<Vec<u8>> {
        let compiled = self.compiled.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.is_empty() {
            return None;
        }
        let added = compiled.iter().map(|(key, bytes)| (key, bytes));
        let mut all: FxHashMap<_, _> = self.found.iter().chain(added).collect();
        let optimized: Vec<Symbol> =
            all.keys().filter(|(_, tier)| *tier == Tier::Optimized).map(|(symbol, _)| *symbol).collect();
        optimized.iter().for_each(|&symbol| _ = all.remove(&(symbol, Tier::Quick)));
        postcard::to_stdvec(&all.into_iter().collect::<Vec<_>>()).ok()
    }
}
