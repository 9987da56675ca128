//! The [`Engine`]: what modules and stores share.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context, Result};
use legato_compiler::CompileOptions;
use legato_compiler::artifact::MachineSignature;
use legato_heap::{AddressSpace, HeapConfig};
use rustc_hash::FxHashMap;

use crate::cache::Cache;
use crate::module::ModuleInner;
use crate::types::TypeRegistry;
use crate::vm::{CodeImage, MemoryReservation, PerfMap, with_compiler_stack};
use crate::{Config, ProfilingStrategy};

/// A configuration, the types of all its modules, and the compiler. Cheap to clone: clones are one engine.
///
/// ```
/// use legato::{Config, Engine, Module};
///
/// let mut config = Config::new();
/// config.heap_option("max", "64M")?;
/// let engine = Engine::new(&config)?;
/// let module = Module::new(&engine, "(module)")?;
/// assert!(Engine::same(module.engine(), &engine.clone()));
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    inner: Arc<EngineInner>,
}

// Locks are taken over where their holder panicked, and what they guard is never left half-changed; what a
// configuration brings of the embedder's code is called by shared reference.
impl UnwindSafe for Engine {}
impl RefUnwindSafe for Engine {}

struct EngineInner {
    config: Config,
    options: CompileOptions,
    /// What every linear memory reserves.
    memory_reservation: MemoryReservation,
    types: TypeRegistry,
    perf_map: Option<&'static PerfMap>,
    trampolines: Mutex<Trampolines>,
    /// Modules that stay as long as the engine, by their binary or text format.
    shared_modules: Mutex<FxHashMap<Box<[u8]>, Arc<ModuleInner>>>,
}

/// Images that carry trampolines for a signature. They live as long as their modules and stores.
#[derive(Default)]
struct Trampolines {
    images: FxHashMap<MachineSignature, Weak<CodeImage>>,
    /// How many there were when those that are gone were last forgotten.
    stayed: usize,
}

impl Trampolines {
    /// So many are noted before any is forgotten.
    const MIN_BEFORE_FORGETTING: usize = 256;

    fn find(&self, signature: &MachineSignature) -> Option<Arc<CodeImage>> {
        self.images.get(signature)?.upgrade()
    }

    fn note(&mut self, signature: &MachineSignature, image: &Arc<CodeImage>) {
        if self.images.len() >= (2 * self.stayed).max(Self::MIN_BEFORE_FORGETTING) {
            self.images.retain(|_, image| image.strong_count() > 0);
            self.stayed = self.images.len();
        }
        self.images.insert(signature.clone(), Arc::downgrade(image));
    }
}

impl Engine {
    /// An engine with this configuration.
    ///
    /// # Errors
    /// If the heap's configuration is contradictory, or the system refuses address space, or the file of a
    /// [profiler](Config::profiler).
    pub fn new(config: &Config) -> Result<Engine> {
        config.heap.validate()?;
        config.check_language()?;
        let memory_reservation = config.memory_reservation.within(AddressSpace::of_process());
        let inner = EngineInner {
            config: config.clone(),
            options: config.compile_options_with(memory_reservation),
            memory_reservation,
            types: TypeRegistry::new()?,
            perf_map: match config.profiler {
                ProfilingStrategy::None => None,
                ProfilingStrategy::PerfMap => Some(PerfMap::of_process()?),
            },
            trampolines: Mutex::default(),
            shared_modules: Mutex::default(),
        };
        Ok(Engine { inner: Arc::new(inner) })
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Whether two values are clones of one engine.
    pub fn same(a: &Engine, b: &Engine) -> bool {
        Arc::ptr_eq(&a.inner, &b.inner)
    }

    /// Compiles a module (binary or text) to the bytes of a precompiled file, for
    /// [`Module::deserialize`](crate::Module::deserialize).
    ///
    /// # Errors
    /// As [`Module::new`](crate::Module::new).
    pub fn precompile_module(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        crate::Module::new(self, bytes)?.serialize()
    }

    pub(crate) fn options(&self) -> &CompileOptions {
        &self.inner.options
    }

    /// What every linear memory reserves: what was configured, or what address space allows.
    pub(crate) fn memory_reservation(&self) -> MemoryReservation {
        self.inner.memory_reservation
    }

    /// The cache that modules are compiled through. Where the compiler's work is to be checked, it has to work.
    pub(crate) fn cache(&self) -> Option<&Cache> {
        let Config { cache, verify_compiler, .. } = self.config();
        cache.as_ref().filter(|_| !verify_compiler)
    }

    pub(crate) fn heap_config(&self) -> &HeapConfig {
        &self.inner.config.heap
    }

    /// Who is told the names of compiled code.
    pub(crate) fn perf_map(&self) -> Option<&'static PerfMap> {
        self.inner.perf_map
    }

    pub(crate) fn types(&self) -> &TypeRegistry {
        &self.inner.types
    }

    /// The module that is kept for these bytes; made now where there is none. Others who ask wait meanwhile, so that it
    /// is made once.
    pub(crate) fn shared_module(
        &self,
        bytes: &[u8],
        make: impl FnOnce() -> Result<Arc<ModuleInner>>,
    ) -> Result<Arc<ModuleInner>> {
        let mut shared = self.inner.shared_modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = shared.get(bytes) {
            return Ok(Arc::clone(module));
        }
        let module = make()?;
        shared.insert(bytes.into(), Arc::clone(&module));
        Ok(module)
    }

    /// Notes that `image` carries trampolines.
    pub(crate) fn note_trampolines(&self, image: &Arc<CodeImage>) {
        let mut known = self.inner.trampolines.lock().unwrap_or_else(PoisonError::into_inner);
        for trampolines in &image.module().trampolines {
            if known.find(&trampolines.signature).is_none() {
                known.note(&trampolines.signature, image);
            }
        }
    }

    /// An image that carries the trampolines for `signature`; compiled now where no living module has them.
    pub(crate) fn trampolines(&self, signature: &MachineSignature) -> Result<Arc<CodeImage>> {
        let mut known = self.inner.trampolines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = known.find(signature) {
            return Ok(image);
        }
        let compile = || legato_compiler::compile_trampolines(std::slice::from_ref(signature), self.options());
        let module =
            with_compiler_stack(compile).context("cannot make a thread")?.context("cannot compile a trampoline")?;
        let image = CodeImage::publish(module)?;
        if let Some(map) = self.perf_map() {
            map.note_image(&image);
        }
        known.note(signature, &image);
        Ok(image)
    }
}

impl Default for Engine {
    /// An engine with the default configuration.
    ///
    /// # Panics
    /// If the system refuses address space for the type table.
    fn default() -> Engine {
        Engine::new(&Config::default()).expect("the default configuration is valid")
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use legato_compiler::module::{FuncType, ValueType};

    use super::*;

    #[test]
    fn trampolines_that_are_gone_are_forgotten() {
        let engine = Engine::default();
        let signature = |number: usize| {
            let ty = |bit: usize| if number >> bit & 1 == 1 { ValueType::I64 } else { ValueType::F64 };
            MachineSignature::of(&FuncType { params: (0..10).map(ty).collect(), results: vec![] })
        };
        let kept = engine.trampolines(&signature(0)).unwrap();
        for number in 1..600 {
            engine.trampolines(&signature(number)).unwrap();
        }
        let known = engine.inner.trampolines.lock().unwrap();
        assert!(known.images.len() <= Trampolines::MIN_BEFORE_FORGETTING, "{} are known", known.images.len());
        assert!(Arc::ptr_eq(&known.find(&signature(0)).unwrap(), &kept));
        assert!(known.find(&signature(1)).is_none());
    }
}
