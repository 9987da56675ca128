//! The [`Linker`]: imports by name.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use legato_compiler::module::ExportKind;
use rustc_hash::FxHashMap;

use crate::func::HostFunction;
use crate::{
    AsContext, AsContextMut, Caller, Engine, Extern, ExternType, Func, FuncType, ImportType, Instance, IntoFunc,
    Module, StoreContextMut, Val,
};

/// What a name stands for.
#[derive(Clone)]
enum Definition {
    /// Something of one store.
    Extern(Extern),
    /// A host function, for any store.
    Host(Arc<HostFunction>),
    /// An export of a module, for any store: of the one instance that the store has for this.
    Export(Module, ExportKind),
}

/// Names under which modules find their imports.
///
/// ```
/// use legato::{Engine, Linker, Module, Store};
///
/// let engine = Engine::default();
/// let mut linker = Linker::<()>::new(&engine);
/// linker.func_wrap("host", "add", |left: i32, right: i32| left + right)?;
/// let module = Module::new(
///     &engine,
///     r#"(module
///         (import "host" "add" (func $add (param i32 i32) (result i32)))
///         (func (export "five") (result i32) (call $add (i32.const 2) (i32.const 3))))"#,
/// )?;
/// let mut store = Store::new(&engine, ());
/// let instance = linker.instantiate(&mut store, &module)?;
/// assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "five")?.call(&mut store, ())?, 5);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Linker<T: 'static> {
    engine: Engine,
    definitions: FxHashMap<(Arc<str>, Arc<str>), Definition>,
    allow_shadowing: bool,
    marker: PhantomData<fn(T)>,
}

impl<T: 'static> Clone for Linker<T> {
    fn clone(&self) -> Linker<T> {
        Linker {
            engine: self.engine.clone(),
            definitions: self.definitions.clone(),
            allow_shadowing: self.allow_shadowing,
            marker: PhantomData,
        }
    }
}

impl<T: 'static> fmt::Debug for Linker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linker").field("names", &self.definitions.keys()).finish_non_exhaustive()
    }
}

impl<T: 'static> Linker<T> {
    /// An empty linker.
    pub fn new(engine: &Engine) -> Linker<T> {
        Linker {
            engine: engine.clone(),
            definitions: FxHashMap::default(),
            allow_shadowing: false,
            marker: PhantomData,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether a name may be defined again. Off by default.
    pub fn allow_shadowing(&mut self, allow: bool) -> &mut Linker<T> {
        self.allow_shadowing = allow;
        self
    }

    fn insert(&mut self, module: &str, name: &str, definition: Definition) -> Result<&mut Linker<T>> {
        let key = (Arc::from(module), Arc::from(name));
        if !self.allow_shadowing && self.definitions.contains_key(&key) {
            bail!("import of `{module}::{name}` defined twice");
        }
        self.definitions.insert(key, definition);
        Ok(self)
    }

    fn definition(&self, module: &str, name: &str) -> Option<&Definition> {
        self.definitions.get(&(Arc::from(module), Arc::from(name)))
    }

    /// Defines something of a store.
    ///
    /// # Errors
    /// If the name is defined and shadowing is not allowed, or the item belongs to another store.
    pub fn define(
        &mut self,
        store: impl AsContext<Data = T>,
        module: &str,
        name: &str,
        item: impl Into<Extern>,
    ) -> Result<&mut Linker<T>> {
        let item = item.into();
        item.actual(&store.as_context().0.opaque)?;
        self.insert(module, name, Definition::Extern(item))
    }

    /// Defines a host function that works on values of any type. See [`Func::new`].
    ///
    /// # Errors
    /// If the name is defined and shadowing is not allowed, or the type belongs to another engine.
    pub fn func_new(
        &mut self,
        module: &str,
        name: &str,
        ty: FuncType,
        func: impl Fn(Caller<'_, T>, &[Val], &mut [Val]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<&mut Linker<T>> {
        ensure!(Engine::same(&self.engine, ty.engine()), "the function type belongs to another engine");
        self.insert(module, name, Definition::Host(HostFunction::untyped(ty, func)))
    }

    /// Defines a host function whose type follows from a closure's. See [`Func::wrap`].
    ///
    /// # Errors
    /// If the name is defined and shadowing is not allowed.
    pub fn func_wrap<Params, Results>(
        &mut self,
        module: &str,
        name: &str,
        func: impl IntoFunc<T, Params, Results>,
    ) -> Result<&mut Linker<T>> {
        let function = func.into_host_function(&self.engine);
        self.insert(module, name, Definition::Host(function))
    }

    /// Defines an export of a module, for any store: a store makes an instance of the module when it first needs one of
    /// the module's exports, and the same instance has all of them. Compiled code then calls compiled code, which costs
    /// less than calling a host function. `library` imports nothing; its instance is not counted among the
    /// [instances](crate::ResourceLimiter::instances) that the store may hold.
    ///
    /// ```
    /// use legato::{Engine, Linker, Module, Store};
    ///
    /// let engine = Engine::default();
    /// let library = r#"(module (func (export "root") (param f64) (result f64) (f64.sqrt (local.get 0))))"#;
    /// let library = Module::shared(&engine, library)?;
    /// let mut linker = Linker::<()>::new(&engine);
    /// linker.define_export("math", "sqrt", &library, "root")?;
    /// let module = Module::new(
    ///     &engine,
    ///     r#"(module
    ///         (import "math" "sqrt" (func $sqrt (param f64) (result f64)))
    ///         (func (export "three") (result f64) (call $sqrt (f64.const 9))))"#,
    /// )?;
    /// for _ in 0..2 {
    ///     let mut store = Store::new(&engine, ());
    ///     let instance = linker.instantiate(&mut store, &module)?;
    ///     assert_eq!(instance.get_typed_func::<(), f64>(&mut store, "three")?.call(&mut store, ())?, 3.0);
    /// }
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the library has no such export, imports something, or belongs to another engine; if the name is defined and
    /// shadowing is not allowed.
    pub fn define_export(
        &mut self,
        module: &str,
        name: &str,
        library: &Module,
        export: &str,
    ) -> Result<&mut Linker<T>> {
        ensure!(Engine::same(&self.engine, library.engine()), "the module belongs to another engine");
        ensure!(library.imports().len() == 0, "a module whose exports are defined for any store may import nothing");
        let kind = library.export(export).with_context(|| format!("the module has no export `{export}`"))?;
        self.insert(module, name, Definition::Export(library.clone(), kind))
    }

    /// Defines every export of an instance under a module name.
    ///
    /// # Errors
    /// If a name is defined and shadowing is not allowed.
    ///
    /// # Panics
    /// If the instance belongs to another store.
    pub fn instance(
        &mut self,
        mut store: impl AsContextMut<Data = T>,
        module: &str,
        instance: Instance,
    ) -> Result<&mut Linker<T>> {
        let mut store = store.as_context_mut();
        let exports: Vec<(String, Extern)> =
            instance.exports(&mut store).map(|export| (export.name().to_string(), export.into_extern())).collect();
        for (name, item) in exports {
            self.insert(module, &name, Definition::Extern(item))?;
        }
        Ok(self)
    }

    /// Instantiates a module, calls its `_initialize` if it exports one, and defines its exports under a module name.
    ///
    /// # Errors
    /// As [`instantiate`](Self::instantiate) and [`instance`](Self::instance).
    pub fn module(
        &mut self,
        mut store: impl AsContextMut<Data = T>,
        name: &str,
        module: &Module,
    ) -> Result<&mut Linker<T>> {
        let instance = self.instantiate(&mut store, module)?;
        if let Some(initialize) = instance.get_func(&mut store, "_initialize") {
            initialize.typed::<(), ()>(&store)?.call(&mut store, ())?;
        }
        self.instance(store, name, instance)
    }

    /// Defines a second name for what a name stands for.
    ///
    /// # Errors
    /// If the first is not defined, or the second is and shadowing is not allowed.
    pub fn alias(&mut self, module: &str, name: &str, as_module: &str, as_name: &str) -> Result<&mut Linker<T>> {
        let definition = self.definition(module, name).cloned();
        let definition = definition.with_context(|| format!("`{module}::{name}` is not defined"))?;
        self.insert(as_module, as_name, definition)
    }

    /// Defines every name of a module under another module name.
    ///
    /// # Errors
    /// If a new name is defined and shadowing is not allowed.
    pub fn alias_module(&mut self, module: &str, as_module: &str) -> Result<()> {
        let names: Vec<Arc<str>> =
            self.definitions.keys().filter(|(of, _)| **of == *module).map(|(_, name)| name.clone()).collect();
        for name in names {
            self.alias(module, &name, as_module, &name)?;
        }
        Ok(())
    }

    /// Defines each import of `module` that has no definition as a function that fails when it is called.
    ///
    /// # Errors
    /// If such an import is no function.
    pub fn define_unknown_imports_as_traps(&mut self, module: &Module) -> Result<()> {
        for import in module.imports() {
            let (of, name) = (import.module(), import.name());
            if self.definition(of, name).is_some() {
                continue;
            }
            let ExternType::Func(ty) = import.ty() else { return Err(unknown(&import)) };
            let message = format!("unknown import: `{of}::{name}` was called, but has not been defined");
            self.func_new(of, name, ty, move |_, _, _| Err(anyhow!("{message}")))?;
        }
        Ok(())
    }

    /// What a name stands for, in this store.
    pub fn get(&self, mut store: impl AsContextMut<Data = T>, module: &str, name: &str) -> Option<Extern> {
        let definition = self.definition(module, name)?;
        resolve(&mut store.as_context_mut(), definition).ok()
    }

    /// What the import of a module stands for, in this store.
    pub fn get_by_import(&self, store: impl AsContextMut<Data = T>, import: &ImportType<'_>) -> Option<Extern> {
        self.get(store, import.module(), import.name())
    }

    /// The names that are defined, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> + '_ {
        self.definitions.keys().map(|(module, name)| (&**module, &**name))
    }

    /// Whether a name is defined.
    pub fn is_defined(&self, module: &str, name: &str) -> bool {
        self.definition(module, name).is_some()
    }

    /// The function by which the module of this name is started: its unnamed export, or `_start`.
    ///
    /// # Errors
    /// If there is none.
    pub fn get_default(&self, mut store: impl AsContextMut<Data = T>, module: &str) -> Result<Func> {
        let found = self.get(&mut store, module, "").or_else(|| self.get(&mut store, module, "_start"));
        found.and_then(Extern::into_func).with_context(|| format!("no default function in `{module}`"))
    }

    /// Instantiates a module with the imports that are defined here. Runs its start function.
    ///
    /// # Errors
    /// "unknown import" where a name is not defined; else as [`Instance::new`].
    pub fn instantiate(&self, mut store: impl AsContextMut<Data = T>, module: &Module) -> Result<Instance> {
        let mut store = store.as_context_mut();
        let mut imports = Vec::with_capacity(module.imports().len());
        for import in &module.info().imports {
            let Some(definition) = self.definition(&import.module, &import.name) else {
                let mut all = module.imports();
                let import = all.find(|one| one.module() == import.module && one.name() == import.name);
                return Err(unknown(&import.expect("an import of the module")));
            };
            imports.push(resolve(&mut store, definition)?);
        }
        Instance::new(store, module, &imports)
    }

    /// Resolves the imports that do not depend on a store, to instantiate the module later, and more than once: what
    /// its data segments leave in its memories is put together now, for instances to share until they write to it.
    ///
    /// # Errors
    /// "unknown import" where a name is not defined.
    pub fn instantiate_pre(&self, module: &Module) -> Result<InstancePre<T>> {
        let mut imports = Vec::new();
        for import in module.imports() {
            let definition = self.definition(import.module(), import.name());
            imports.push(definition.cloned().ok_or_else(|| unknown(&import))?);
        }
        module.memory_images().prepare(module.info());
        Ok(InstancePre { module: module.clone(), imports: imports.into(), marker: PhantomData })
    }
}

/// A module with its imports resolved.
///
/// ```
/// use legato::{Engine, Linker, Module, Store};
///
/// let engine = Engine::default();
/// let module = Module::new(&engine, r#"(module (func (export "one") (result i32) (i32.const 1)))"#)?;
/// let ready = Linker::<()>::new(&engine).instantiate_pre(&module)?;
/// for _ in 0..3 {
///     let mut store = Store::new(&engine, ());
///     let instance = ready.instantiate(&mut store)?;
///     assert_eq!(instance.get_typed_func::<(), i32>(&mut store, "one")?.call(&mut store, ())?, 1);
/// }
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct InstancePre<T: 'static> {
    module: Module,
    imports: Arc<[Definition]>,
    marker: PhantomData<fn(T)>,
}

impl<T: 'static> Clone for InstancePre<T> {
    fn clone(&self) -> InstancePre<T> {
        InstancePre { module: self.module.clone(), imports: self.imports.clone(), marker: PhantomData }
    }
}

impl<T: 'static> fmt::Debug for InstancePre<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstancePre").field("module", &self.module).finish_non_exhaustive()
    }
}

impl<T: 'static> InstancePre<T> {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Instantiates the module. Runs its start function.
    ///
    /// # Errors
    /// As [`Instance::new`].
    pub fn instantiate(&self, mut store: impl AsContextMut<Data = T>) -> Result<Instance> {
        let mut store = store.as_context_mut();
        let imports = self.imports.iter().map(|definition| resolve(&mut store, definition));
        let imports: Result<Vec<Extern>> = imports.collect();
        Instance::new(&mut store, &self.module, &imports?)
    }
}

fn resolve<T: 'static>(store: &mut StoreContextMut<'_, T>, definition: &Definition) -> Result<Extern> {
    match definition {
        Definition::Extern(item) => Ok(*item),
        Definition::Host(function) => {
            // Kept by the store, so that the address stands for the function as long as the store lives.
            Func::host(&mut store.0.opaque, function.clone()).map(Extern::Func)
        }
        Definition::Export(module, kind) => {
            let known = store.0.opaque.state.linked_modules.get(&module.identity()).copied();
            let index = known.map_or_else(|| link_module(store, module), Ok)?;
            Ok(store.0.opaque.exported(index, *kind))
        }
    }
}

/// Makes the instance of a module of which a linker defines exports. It keeps the module alive, and so its identity.
fn link_module<T: 'static>(store: &mut StoreContextMut<'_, T>, module: &Module) -> Result<u32> {
    let state = &mut store.0.opaque.state;
    let index = state.instances.len() as u32;
    // Known beforehand, so that it is not counted.
    state.linked_modules.insert(module.identity(), index);
    if let Err(error) = Instance::new(&mut *store, module, &[]) {
        store.0.opaque.state.linked_modules.remove(&module.identity());
        return Err(error.context("cannot instantiate a module that provides imports"));
    }
    Ok(index)
}

fn unknown(import: &ImportType<'_>) -> anyhow::Error {
    anyhow!("unknown import: `{}::{}` has not been defined (a {})", import.module(), import.name(), import.ty())
}
