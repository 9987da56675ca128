//! Globals.

use anyhow::{Result, ensure};
use legato_compiler::module as wasm;
use legato_heap::Reference;

use crate::externals::handle;
use crate::store::{GlobalCell, StoreOpaque, StoredGlobal};
use crate::{AsContext, AsContextMut, GlobalType, Val, ValType};

handle! {
    /// A global of a store.
    ///
    /// ```
    /// use legato::{Engine, Global, GlobalType, Mutability, Store, Val, ValType};
    ///
    /// let mut store = Store::new(&Engine::default(), ());
    /// let ty = GlobalType::new(ValType::I64, Mutability::Var);
    /// let global = Global::new(&mut store, ty, Val::I64(5))?;
    /// global.set(&mut store, Val::I64(6))?;
    /// assert_eq!(global.get(&mut store).i64(), Some(6));
    /// assert!(global.set(&mut store, Val::I32(7)).is_err());
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    Global "global";
}

impl Global {
    /// A global that belongs to no instance.
    ///
    /// # Errors
    /// If the value has another type, or the type belongs to another engine than the store's.
    pub fn new(mut store: impl AsContextMut, ty: GlobalType, value: Val) -> Result<Global> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        ty.content().check_engine(&opaque.engine)?;
        if let ValType::Ref(ty) = ty.content() {
            opaque.state.keep_heap_type(ty.heap_type());
        }
        let ty = ty.to_engine();
        let bits = value.to_bits(opaque, ty.value)?;
        opaque.state.global_cells.push(Box::new(GlobalCell(bits.to_le_bytes())));
        let cell: *mut GlobalCell = &raw mut **opaque.state.global_cells.last_mut().expect("just pushed");
        let index = opaque.add_global(ty, cell.cast());
        Ok(Global::from_index(opaque, index))
    }

    /// Its type.
    ///
    /// # Panics
    /// If the store is another than the global's.
    pub fn ty(&self, store: impl AsContext) -> GlobalType {
        let store = store.as_context();
        let opaque = &store.0.opaque;
        GlobalType::from_engine(&opaque.engine, opaque.global(self.own(opaque)).ty)
    }

    /// Its value; a reference is rooted in the current scope.
    ///
    /// # Panics
    /// If the store is another than the global's.
    pub fn get(&self, mut store: impl AsContextMut) -> Val {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let (bits, ty) = opaque.read_global(self.own(opaque));
        Val::from_bits(opaque, bits, ty)
    }

    /// Sets its value.
    ///
    /// # Errors
    /// If it is constant, the value has another type, or the store is another.
    pub fn set(&self, mut store: impl AsContextMut, value: Val) -> Result<()> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        let index = self.index(opaque)?;
        let ty = opaque.global(index).ty;
        ensure!(ty.mutable, "the global is immutable");
        let bits = value.to_bits(opaque, ty.value)?;
        opaque.write_global(index, bits);
        Ok(())
    }
}

impl StoreOpaque {
    /// Adds a global (type in engine space); the result is its index. The 16-byte cell lives as long as the store.
    pub(crate) fn add_global(&mut self, ty: wasm::GlobalType, cell: *mut u8) -> u32 {
        let traced = match ty.value {
            wasm::ValueType::Ref(ty) => !self.engine.types().is_function(ty.heap),
            _ => false,
        };
        self.state.globals.push(StoredGlobal { ty, cell, traced });
        self.state.globals.len() as u32 - 1
    }

    /// A global's bits and type (engine space).
    pub(crate) fn read_global(&self, index: u32) -> (u128, wasm::ValueType) {
        let global = self.global(index);
        // SAFETY: the cell lives as long as the store, and is 16-byte aligned; compiled code waits.
        (u128::from_le_bytes(unsafe { *global.cell.cast::<[u8; 16]>() }), global.ty.value)
    }

    /// Writes a global's bits, which belong to its type. The one way to do so, but for compiled code's.
    pub(crate) fn write_global(&mut self, index: u32, mut bits: u128) {
        let global = &self.state.globals[index as usize];
        if global.traced {
            bits = self.heap.current(Reference(bits as u32)).0.into();
            // SAFETY: the cell of a traced global holds a reference.
            let overwritten = unsafe { *global.cell.cast::<Reference>() };
            self.heap.before_root_store(std::iter::once(overwritten));
        }
        // SAFETY: the cell lives as long as the store, and is 16-byte aligned; compiled code waits.
        unsafe { *global.cell.cast::<[u8; 16]>() = bits.to_le_bytes() };
    }
}
