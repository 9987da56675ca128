//! Compiled modules.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use legato_compiler::abi::ContextLayout;
use legato_compiler::artifact::CompiledModule;
use legato_compiler::module::HeapType::Concrete;
use legato_compiler::module::{ExportKind, ModuleInfo, TypeIndex};
use legato_heap::TypeId;
use rustc_hash::FxHashMap;

use crate::cache::{Cache, Key};
use crate::instance::MemoryImages;
use crate::types::ModuleTypes;
use crate::vm::{CodeImage, Compiled, KeptCode, Observers};
use crate::{Compilation, Engine, ExportType, ExternType, HeapType, ImportType, serialize};

/// A compiled module. Cheap to clone.
///
/// ```
/// use legato::{Engine, Module};
///
/// let engine = Engine::default();
/// let module = Module::new(&engine, r#"(module (func (export "run") (result i32) (i32.const 1)))"#)?;
/// let names: Vec<&str> = module.exports().map(|export| export.name()).collect();
/// assert_eq!(names, ["run"]);
/// assert_eq!(module.imports().len(), 0);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone)]
pub struct Module {
    engine: Engine,
    inner: Arc<ModuleInner>,
}

// As for the engine: what threads share is never left half-changed.
impl UnwindSafe for Module {}
impl RefUnwindSafe for Module {}

/// All of a module but its engine, so that an engine can keep it.
pub(crate) struct ModuleInner {
    image: Arc<CodeImage>,
    types: ModuleTypes,
    exports: FxHashMap<String, ExportKind>,
    memory_images: MemoryImages,
    /// Where functions are kept that are compiled when they are called, and under which key.
    keeper: Option<(Cache, Key)>,
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        if let Some((cache, key)) = &self.keeper
            && let Some(contents) = self.image.code_to_be_kept()
        {
            cache.keep(key, &contents);
        }
    }
}

impl Module {
    /// Compiles a module from the binary or the text format.
    ///
    /// # Errors
    /// If it is malformed, invalid, or uses an instruction that is not supported; the error says what and where.
    pub fn new(engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<Module> {
        let bytes = bytes.as_ref();
        ensure!(!Module::is_precompiled(bytes), "this is a precompiled module, which `Module::deserialize` loads");
        let bytes = wat::parse_bytes(bytes)?;
        Module::from_binary(engine, &bytes)
    }

    /// The module of these bytes (binary or text) that the engine keeps: it is compiled when it is asked for first, and
    /// is the same one from then on. It stays as long as the engine, so this is for the few small modules that a
    /// library brings along, say for [`Linker::define_export`](crate::Linker::define_export), and not for programs.
    ///
    /// ```
    /// use legato::{Engine, Module};
    ///
    /// let engine = Engine::default();
    /// let text = r#"(module (func (export "root") (param f64) (result f64) (f64.sqrt (local.get 0))))"#;
    /// let module = Module::shared(&engine, text)?;
    /// assert!(Module::same(&module, &Module::shared(&engine, text)?));
    /// assert!(!Module::same(&module, &Module::new(&engine, text)?));
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn shared(engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<Module> {
        let bytes = bytes.as_ref();
        let inner = engine.shared_module(bytes, || Ok(Module::new(engine, bytes)?.inner))?;
        Ok(Module { engine: engine.clone(), inner })
    }

    /// Whether two values are clones of one module.
    pub fn same(a: &Module, b: &Module) -> bool {
        Arc::ptr_eq(&a.inner, &b.inner)
    }

    /// Compiles a module from the binary format.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_binary(engine: &Engine, binary: &[u8]) -> Result<Module> {
        let Some(cache) = engine.cache() else { return Module::compiled(engine, binary, None) };
        let key = Key::of(binary, engine.options())?;
        let decode = |contents: &[u8]| {
            Module::publish(engine, serialize::for_engine(engine, serialize::decode_contents(contents)?)?)
        };
        if let Some(module) = cache.find(&key, decode) {
            return Ok(module);
        }
        Module::compiled(engine, binary, Some((cache, key)))
    }

    /// A module that is compiled as the engine's configuration says. The cache gets its code under this key: of one
    /// whose functions are compiled when they are called, once it is dropped, those that have been.
    fn compiled(engine: &Engine, binary: &[u8], keeper: Option<(&Cache, Key)>) -> Result<Module> {
        let config = engine.config();
        if config.compilation == Compilation::Lazy && CodeImage::CAN_BE_LAZY {
            let observer = config.compile_observer.as_ref().map(|observer| Arc::clone(&observer.0));
            let observers = Observers { observer, perf_map: engine.perf_map() };
            return Module::lazy(engine, binary, observers, keeper);
        }
        let module = match &config.compile_observer {
            Some(observer) => legato_compiler::compile_observed(binary, engine.options(), |generated| {
                observer.0(&Compiled::before(generated));
            })?,
            None => legato_compiler::compile(binary, engine.options())?,
        };
        if let Some((cache, key)) = keeper {
            cache.keep(&key, &serialize::encode_contents(&module)?);
        }
        Module::publish(engine, module)
    }

    /// A module whose functions are compiled when they are called. Their code holds the ids that types have in this
    /// engine, unless kept code holds others: then code that loads them is used and kept, under a second key, so that
    /// hosts which load their modules in no certain order find code, too.
    fn lazy(engine: &Engine, binary: &[u8], observers: Observers, keeper: Option<(&Cache, Key)>) -> Result<Module> {
        let find = |cache: &Cache, key: &Key| {
            cache
                .find(key, |contents| Ok(KeptCode::from_contents(Some(contents))))
                .unwrap_or_else(|| KeptCode::from_contents(None))
        };
        let mut keeper = keeper.map(|(cache, key)| (cache.clone(), key.of_functions(), key));
        let mut kept = keeper.as_ref().map_or_else(KeptCode::default, |(cache, key, _)| find(cache, key));
        let mut compiler = kept.compiler(binary, engine.options())?;
        let types = engine.types().register_module(compiler.info())?;
        let ids: Box<[u32]> = types.ids().iter().map(|id| id.0).collect();
        if kept.fits(&ids) {
            compiler.set_type_ids(ids);
        } else if let Some((cache, used, key)) = &mut keeper {
            *used = key.of_functions_anywhere();
            kept = find(cache, used);
        }
        let image = CodeImage::lazy(compiler, observers, kept)?;
        Ok(Module::of_image(engine, image, types, keeper.map(|(cache, used, _)| (cache, used))))
    }

    /// Compiles a module from a file in the binary or the text format.
    ///
    /// # Errors
    /// If the file cannot be read; else as [`new`](Self::new).
    pub fn from_file(engine: &Engine, file: impl AsRef<Path>) -> Result<Module> {
        let file = file.as_ref();
        let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        Module::new(engine, &bytes).with_context(|| format!("cannot compile {}", file.display()))
    }

    /// Checks a module in the binary format without keeping its code.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn validate(engine: &Engine, binary: &[u8]) -> Result<()> {
        legato_compiler::compile(binary, engine.options())?;
        Ok(())
    }

    /// Loads a precompiled module, made by [`serialize`](Self::serialize) or
    /// [`Engine::precompile_module`]. The bytes must come from there: they contain machine code, which is run.
    ///
    /// # Errors
    /// If they are damaged, of another version of this library, or of an engine with another configuration or target.
    ///
    /// # Safety
    /// The bytes are unaltered, and their origin is trusted.
    pub unsafe fn deserialize(engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<Module> {
        Module::publish(engine, serialize::decode_for(engine, bytes.as_ref())?)
    }

    /// As [`deserialize`](Self::deserialize), from a file.
    ///
    /// # Errors
    /// If the file cannot be read; else as [`deserialize`](Self::deserialize).
    ///
    /// # Safety
    /// As [`deserialize`](Self::deserialize).
    pub unsafe fn deserialize_file(engine: &Engine, file: impl AsRef<Path>) -> Result<Module> {
        let file = file.as_ref();
        let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        // SAFETY: passed on to the caller.
        unsafe { Module::deserialize(engine, bytes) }.with_context(|| format!("cannot load {}", file.display()))
    }

    /// Whether these are the first bytes of a precompiled module.
    pub fn is_precompiled(bytes: &[u8]) -> bool {
        serialize::is_precompiled(bytes)
    }

    /// The module as bytes that [`deserialize`](Self::deserialize) loads without compiling. If it is
    /// [lazy](crate::Compilation::Lazy), all of it is compiled now.
    ///
    /// # Errors
    /// If it cannot be encoded, or its compilation now fails.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        serialize::encode(&self.inner.image.to_compiled_module()?)
    }

    fn publish(engine: &Engine, module: CompiledModule) -> Result<Module> {
        let image = CodeImage::publish(module)?;
        if let Some(map) = engine.perf_map() {
            map.note_image(&image);
        }
        let types = engine.types().register_module(&image.module().info)?;
        Ok(Module::of_image(engine, image, types, None))
    }

    fn of_image(engine: &Engine, image: Arc<CodeImage>, types: ModuleTypes, keeper: Option<(Cache, Key)>) -> Module {
        let exports = image.module().info.exports.iter().cloned().collect();
        engine.note_trampolines(&image);
        let memory_images = MemoryImages::default();
        let inner = Arc::new(ModuleInner { image, types, exports, memory_images, keeper });
        Module { engine: engine.clone(), inner }
    }

    /// The engine that compiled it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The module's name, from the name section.
    pub fn name(&self) -> Option<&str> {
        self.info().names.module.as_deref()
    }

    /// The name of a type that the module declares, from the name section. `None` where that has none, or more than one
    /// for types that are equal.
    pub fn type_name(&self, ty: &HeapType) -> Option<&str> {
        ty.check_engine(self.engine()).ok()?;
        let Concrete(TypeIndex(id)) = ty.to_engine() else { return None };
        let names = self.type_ids().iter().zip(&self.info().names.types);
        let mut names = names.filter(|&(&of, name)| of.0 == id && !name.is_empty()).map(|(_, name)| name.as_str());
        let name = names.next()?;
        names.all(|other| other == name).then_some(name)
    }

    /// Its imports, in order.
    pub fn imports(&self) -> impl ExactSizeIterator<Item = ImportType<'_>> + '_ {
        ExternType::imports(&self.engine, self.type_ids(), self.info())
    }

    /// Its exports, in order.
    pub fn exports(&self) -> impl ExactSizeIterator<Item = ExportType<'_>> + '_ {
        ExternType::exports(&self.engine, self.type_ids(), self.info())
    }

    /// The type of an export.
    pub fn get_export(&self, name: &str) -> Option<ExternType> {
        let kind = self.export(name)?;
        Some(ExternType::of_export(&self.engine, self.type_ids(), self.info(), kind))
    }

    /// The contents of the custom section of this name, the first where there are several. The name section is not kept
    /// so.
    pub fn custom_section(&self, name: &str) -> Option<&[u8]> {
        self.info().custom.iter().find(|(section, _)| section == name).map(|(_, bytes)| bytes.as_slice())
    }

    /// The names and contents of all custom sections, in order.
    pub fn custom_sections(&self) -> impl Iterator<Item = (&str, &[u8])> + '_ {
        self.info().custom.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// The module's declarations, as the compiler describes them.
    pub fn info(&self) -> &ModuleInfo {
        &self.inner.image.module().info
    }

    /// Bytes of machine code: of what has been compiled, if it is [lazy](crate::Compilation::Lazy).
    pub fn code_size(&self) -> usize {
        self.inner.image.code_size()
    }

    pub(crate) fn export(&self, name: &str) -> Option<ExportKind> {
        self.inner.exports.get(name).copied()
    }

    /// What its memories hold first.
    pub(crate) fn memory_images(&self) -> &MemoryImages {
        &self.inner.memory_images
    }

    /// What tells it from others while it lives.
    pub(crate) fn identity(&self) -> *const ModuleInner {
        Arc::as_ptr(&self.inner)
    }

    pub(crate) fn image(&self) -> &Arc<CodeImage> {
        &self.inner.image
    }

    pub(crate) fn type_ids(&self) -> &[TypeId] {
        self.inner.types.ids()
    }

    pub(crate) fn context_layout(&self) -> &ContextLayout {
        &self.inner.image.module().context
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("name", &self.name()).finish_non_exhaustive()
    }
}
