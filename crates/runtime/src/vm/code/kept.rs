//! Code of single functions that outlives the process.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use legato_compiler::emit::{FunctionCode, Symbol};
use legato_compiler::{CompileError, CompileOptions, OnDemand, Tier};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_bytes::ByteBuf;

/// What code is kept by. Trampolines and loops are all [`Tier::Optimized`].
type Key = (Symbol, Tier);

/// Code with its key.
type Piece = (Key, ByteBuf);

/// What functions are compiled with, the ids of types that code holds, and the code.
type Contents = (ByteBuf, Option<Box<[u32]>>, Vec<Piece>);

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
    /// What functions are compiled with ([`OnDemand::to_bytes`]), from earlier ones.
    compiler: Option<ByteBuf>,
    /// From earlier ones.
    found: FxHashMap<Key, ByteBuf>,
    /// The ids of types that this code holds ([`OnDemand::set_type_ids`]).
    type_ids: Option<Box<[u32]>>,
    /// By this one; `None` where nobody is going to ask.
    compiled: Option<Mutex<Vec<Piece>>>,
}

impl KeptCode {
    /// Nothing, from contents that cannot be read either; what is compiled now can be had by
    /// [`contents`](Self::contents). The contents are trusted: they hold machine code.
    pub(crate) fn from_contents(contents: Option<&[u8]>) -> KeptCode {
        let contents: Option<Contents> = contents.and_then(|bytes| postcard::from_bytes(bytes).ok());
        let compiled = Some(Mutex::default());
        match contents {
            Some((compiler, type_ids, pieces)) => {
                KeptCode { compiler: Some(compiler), found: pieces.into_iter().collect(), type_ids, compiled }
            }
            None => KeptCode { compiled, ..KeptCode::default() },
        }
    }

    /// Whether the code is right where types have these ids: there is none yet, or it holds the same ones.
    pub(crate) fn fits(&self, type_ids: &[u32]) -> bool {
        self.found.is_empty() || self.type_ids.as_deref() == Some(type_ids)
    }

    /// What compiles the functions of this module, for which the contents were kept: with what earlier processes found
    /// out about it, if they have.
    ///
    /// # Errors
    /// The module is invalid, or the host is not supported.
    pub(crate) fn compiler(&self, binary: &[u8], options: &CompileOptions) -> Result<OnDemand, CompileError> {
        if let Some(bytes) = &self.compiler
            && let Some(compiler) = OnDemand::from_bytes(bytes, binary, options)?
        {
            return Ok(compiler);
        }
        OnDemand::new(binary, options)
    }

    /// All code from earlier processes, the best that there is for each symbol, in an order that does not change.
    pub(super) fn found(&self) -> Vec<(Symbol, Found)> {
        let mut keys: Vec<&Key> = self.found.keys().collect();
        keys.sort_unstable_by_key(|(symbol, tier)| (*symbol, *tier == Tier::Quick));
        keys.dedup_by_key(|(symbol, _)| *symbol);
        let found = |key: &Key| {
            let (symbol, tier) = *key;
            Some((symbol, Found { code: FunctionCode::from_bytes(&self.found[key])?, tier, kept: true }))
        };
        keys.into_iter().filter_map(found).collect()
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
        self.compile(symbol, tier, compiler)
    }

    /// The same, compiled now.
    ///
    /// # Errors
    /// The compiler refuses it.
    pub(super) fn compile(&self, symbol: Symbol, tier: Tier, compiler: &OnDemand) -> anyhow::Result<Found> {
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
    pub(crate) fn contents(&self, compiler: &OnDemand) -> Option<Vec<u8>> {
        let compiled = self.compiled.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.is_empty() {
            return None;
        }
        let added = compiled.iter().map(|(key, bytes)| (key, bytes));
        let mut all: FxHashMap<_, _> = self.found.iter().chain(added).collect();
        // Quick code of functions that have better code is not entered any more, nor are its loops replaced.
        let is_better = |key: &&Key| matches!(key, (Symbol::Function(_), Tier::Optimized));
        let better: FxHashSet<Symbol> = all.keys().copied().filter(is_better).map(|(symbol, _)| *symbol).collect();
        all.retain(|key, _| match key {
            (Symbol::Loop(function, _), _) => !better.contains(&Symbol::Function(*function)),
            (symbol, tier) => *tier == Tier::Optimized || !better.contains(symbol),
        });
        let type_ids = compiler.type_ids();
        let compiler = match &self.compiler {
            Some(bytes) => Cow::Borrowed(bytes),
            None => Cow::Owned(ByteBuf::from(compiler.to_bytes()?)),
        };
        postcard::to_stdvec(&(compiler, type_ids, all.into_iter().collect::<Vec<_>>())).ok()
    }
}
