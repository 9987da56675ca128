//! Memories, tables, globals and tags; and [`Extern`], any of these or a function.

mod global;
mod memory;
mod table;
mod tag;

pub use global::Global;
pub use memory::{Memory, MemoryAccessError};
pub use table::Table;
pub use tag::Tag;

use anyhow::Result;
use legato_heap::TypeId;

use crate::store::StoreOpaque;
use crate::types::Actual;
use crate::{AsContext, ExternType, Func};

/// What can be imported and exported.
///
/// ```
/// use legato::{Engine, Extern, Func, Instance, Module, Store};
///
/// let engine = Engine::default();
/// let module = Module::new(
///     &engine,
///     r#"(module
///         (import "host" "next" (func $next (result i32)))
///         (func (export "run") (result i32) (call $next)))"#,
/// )?;
/// let mut store = Store::new(&engine, 41);
/// let next = Func::wrap(&mut store, |caller: legato::Caller<'_, i32>| *caller.data() + 1);
/// let instance = Instance::new(&mut store, &module, &[Extern::Func(next)])?;
/// let run = instance.get_export(&mut store, "run").and_then(Extern::into_func).expect("a function");
/// assert_eq!(run.typed::<(), i32>(&store)?.call(&mut store, ())?, 42);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Extern {
    Func(Func),
    Global(Global),
    Table(Table),
    Memory(Memory),
    Tag(Tag),
}

macro_rules! conversions {
    ($($into:ident $variant:ident $name:literal;)*) => {
        impl Extern {
            $(
                #[doc = concat!("The ", $name, ", if it is one.")]
                pub fn $into(self) -> Option<$variant> {
                    match self {
                        Extern::$variant(item) => Some(item),
                        _ => None,
                    }
                }
            )*
        }

        $(
            impl From<$variant> for Extern {
                fn from(item: $variant) -> Extern {
                    Extern::$variant(item)
                }
            }
        )*
    };
}

conversions! {
    into_func Func "function";
    into_global Global "global";
    into_table Table "table";
    into_memory Memory "memory";
    into_tag Tag "tag";
}

impl Extern {
    /// Its type. Memories and tables have their declared sizes, not the current ones.
    ///
    /// # Panics
    /// If the store is another than its own.
    pub fn ty(&self, store: impl AsContext) -> ExternType {
        match self {
            Extern::Func(item) => ExternType::Func(item.ty(store)),
            Extern::Global(item) => ExternType::Global(item.ty(store)),
            Extern::Table(item) => ExternType::Table(item.ty(store)),
            Extern::Memory(item) => ExternType::Memory(item.ty(store)),
            Extern::Tag(item) => ExternType::Tag(item.ty(store)),
        }
    }

    /// Its type for the matching of imports.
    pub(crate) fn actual(&self, store: &StoreOpaque) -> Result<Actual> {
        Ok(match self {
            Extern::Func(item) => Actual::Func(TypeId(store.func_ref(item.offset(store)?).type_id)),
            Extern::Global(item) => Actual::Global(store.global(item.index(store)?).ty),
            Extern::Table(item) => {
                let table = store.table(item.index(store)?);
                let minimum = table.storage.length();
                Actual::Table(legato_compiler::module::TableType { minimum, ..table.ty })
            }
            Extern::Memory(item) => {
                let memory = &store.state.memories[item.index(store)? as usize];
                let minimum = memory.storage.pages();
                Actual::Memory(legato_compiler::module::MemoryType { minimum, ..*memory.storage.ty() })
            }
            Extern::Tag(item) => Actual::Tag(store.state.tags[item.index(store)? as usize].ty),
        })
    }
}

/// An export of an instance.
///
/// ```
/// use legato::{Engine, Export, Instance, Module, Store};
///
/// let engine = Engine::default();
/// let module = Module::new(&engine, r#"(module (memory (export "memory") 1) (func (export "run")))"#)?;
/// let mut store = Store::new(&engine, ());
/// let instance = Instance::new(&mut store, &module, &[])?;
/// let functions = instance.exports(&mut store).filter(|export| export.clone().into_func().is_some());
/// assert_eq!(functions.map(|export| export.name()).collect::<Vec<_>>(), ["run"]);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Export<'instance> {
    name: &'instance str,
    item: Extern,
}

impl<'instance> Export<'instance> {
    pub(crate) fn new(name: &'instance str, item: Extern) -> Export<'instance> {
        Export { name, item }
    }

    /// Its name.
    pub fn name(&self) -> &'instance str {
        self.name
    }

    /// What is exported.
    pub fn into_extern(self) -> Extern {
        self.item
    }

    /// The function, if it is one.
    pub fn into_func(self) -> Option<Func> {
        self.item.into_func()
    }

    /// The memory, if it is one.
    pub fn into_memory(self) -> Option<Memory> {
        self.item.into_memory()
    }

    /// The table, if it is one.
    pub fn into_table(self) -> Option<Table> {
        self.item.into_table()
    }

    /// The global, if it is one.
    pub fn into_global(self) -> Option<Global> {
        self.item.into_global()
    }
}

/// A handle by the index of the thing in its store.
macro_rules! handle {
    ($($(#[$doc:meta])* $name:ident $what:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name {
            store: crate::store::StoreId,
            index: u32,
        }

        impl $name {
            pub(crate) fn from_index(store: &crate::store::StoreOpaque, index: u32) -> $name {
                $name { store: store.id, index }
            }

            /// Its index in the store.
            pub(crate) fn index(&self, store: &crate::store::StoreOpaque) -> anyhow::Result<u32> {
                store.check_id(self.store, $what)?;
                Ok(self.index)
            }

            #[allow(dead_code, reason = "not every kind needs it")]
            pub(crate) fn own(&self, store: &crate::store::StoreOpaque) -> u32 {
                self.index(store).expect(concat!("the ", $what, "'s own store"))
            }
        }
    )* };
}
pub(crate) use handle;
