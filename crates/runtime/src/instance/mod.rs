//! Instances.

pub(crate) mod const_expr;
mod images;
mod link;
pub(crate) mod segments;

pub(crate) use images::MemoryImages;
pub(crate) use link::instantiate;

use anyhow::{Context, Result};
use legato_compiler::module as wasm;

use crate::externals::handle;
use crate::store::StoreOpaque;
use crate::{
    AsContextMut, Export, Extern, Func, Global, Memory, Module, Table, Tag, TypedFunc, WasmParams, WasmResults,
};

handle! {
    /// An instance of a module in a store.
    ///
    /// ```
    /// use legato::{Engine, Instance, Module, Store};
    ///
    /// let engine = Engine::default();
    /// let module = Module::new(
    ///     &engine,
    ///     r#"(module
    ///         (memory (export "memory") 1)
    ///         (func (export "twice") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2))))"#,
    /// )?;
    /// let mut store = Store::new(&engine, ());
    /// let instance = Instance::new(&mut store, &module, &[])?;
    /// let twice = instance.get_typed_func::<i32, i32>(&mut store, "twice")?;
    /// assert_eq!(twice.call(&mut store, 21)?, 42);
    /// assert_eq!(instance.get_memory(&mut store, "memory").map(|memory| memory.size(&store)), Some(1));
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    Instance "instance";
}

impl Instance {
    /// Instantiates a module. `imports` are in the order of [`Module::imports`]. Runs the start function.
    ///
    /// # Errors
    /// If the imports do not fit ("incompatible import type"), a limit is passed, a segment or the start function
    /// traps, or the module is the store's first that has to do with objects and the system refuses address space for
    /// the heap.
    ///
    /// # Panics
    /// If an import belongs to another store.
    pub fn new(mut store: impl AsContextMut, module: &Module, imports: &[Extern]) -> Result<Instance> {
        let mut store = store.as_context_mut();
        let raw = store.raw();
        // SAFETY: the whole store, exclusively; `store` is not used otherwise below.
        let index = unsafe { instantiate(raw, module, imports)? };
        // SAFETY: the store is alive, and `instantiate` has returned its borrow.
        Ok(Instance::from_index(unsafe { &*raw }, index))
    }

    /// The module.
    ///
    /// # Panics
    /// If the store is another than the instance's. So for all methods.
    pub fn module<'a, T: 'static>(&self, store: impl Into<crate::StoreContext<'a, T>>) -> &'a Module {
        let store: crate::StoreContext<'a, T> = store.into();
        &store.0.opaque.state.instances[self.own(&store.0.opaque) as usize].module
    }

    /// The export of this name.
    pub fn get_export(&self, mut store: impl AsContextMut, name: &str) -> Option<Extern> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let index = self.own(opaque);
        let kind = opaque.state.instances[index as usize].module.export(name)?;
        Some(opaque.exported(index, kind))
    }

    /// All exports, in the order of the module.
    pub fn exports<'a, T: 'static>(
        &self,
        store: impl Into<crate::StoreContextMut<'a, T>>,
    ) -> impl ExactSizeIterator<Item = Export<'a>> + 'a {
        let store: crate::StoreContextMut<'a, T> = store.into();
        let opaque: &'a StoreOpaque = &store.0.opaque;
        let index = self.own(opaque);
        let exports = &opaque.state.instances[index as usize].module.info().exports;
        exports.iter().map(move |(name, kind)| Export::new(name, opaque.exported(index, *kind)))
    }

    /// The exported function of this name.
    pub fn get_func(&self, store: impl AsContextMut, name: &str) -> Option<Func> {
        self.get_export(store, name)?.into_func()
    }

    /// The exported function of this name, with the types of its parameters and results known to the Rust compiler.
    ///
    /// # Errors
    /// If there is no such function, or it has another type.
    pub fn get_typed_func<Params: WasmParams, Results: WasmResults>(
        &self,
        mut store: impl AsContextMut,
        name: &str,
    ) -> Result<TypedFunc<Params, Results>> {
        let item = self.get_export(&mut store, name);
        let item = item.with_context(|| format!("failed to find function export `{name}`"))?;
        let func = item.into_func().with_context(|| format!("export `{name}` is not a function"))?;
        func.typed(store).with_context(|| format!("export `{name}` has another type"))
    }

    /// The exported memory of this name.
    pub fn get_memory(&self, store: impl AsContextMut, name: &str) -> Option<Memory> {
        self.get_export(store, name)?.into_memory()
    }

    /// The exported table of this name.
    pub fn get_table(&self, store: impl AsContextMut, name: &str) -> Option<Table> {
        self.get_export(store, name)?.into_table()
    }

    /// The exported global of this name.
    pub fn get_global(&self, store: impl AsContextMut, name: &str) -> Option<Global> {
        self.get_export(store, name)?.into_global()
    }

    /// The exported tag of this name.
    pub fn get_tag(&self, store: impl AsContextMut, name: &str) -> Option<Tag> {
        self.get_export(store, name)?.into_tag()
    }
}

impl StoreOpaque {
    /// What an instance has at an index of its module.
    pub(crate) fn exported(&self, instance: u32, kind: wasm::ExportKind) -> Extern {
        let data = &self.state.instances[instance as usize];
        match kind {
            wasm::ExportKind::Func(index) => {
                let offset = data.func_ref(index).expect("an exported function has a record");
                Extern::Func(Func::from_offset(self, offset))
            }
            wasm::ExportKind::Memory(index) => Extern::Memory(Memory::from_index(self, data.memories[index.index()])),
            wasm::ExportKind::Table(index) => Extern::Table(Table::from_index(self, data.tables[index.index()])),
            wasm::ExportKind::Global(index) => Extern::Global(Global::from_index(self, data.globals[index.index()])),
            wasm::ExportKind::Tag(index) => Extern::Tag(Tag::from_index(self, data.tags[index.index()])),
        }
    }
}

impl crate::store::InstanceData {
    /// The offset of a function's record, where it has one.
    pub(crate) fn func_ref(&self, index: wasm::FuncIndex) -> Option<u32> {
        let record = self.module.info().functions[index.index()].func_ref?;
        Some(self.func_refs + record * size_of::<legato_compiler::abi::FuncRef>() as u32)
    }
}
