//! The language's parts as switches of a [`Config`], by the names that users of wasmtime know.

use anyhow::{Result, ensure};

use crate::Config;

/// A switch for each part that is always there.
macro_rules! always {
    ($($name:ident: $what:literal;)*) => {
        impl Config {
            $(
                #[doc = concat!("Modules may use ", $what, ", always: an engine that is to do without cannot be made.")]
                pub fn $name(&mut self, on: bool) -> &mut Config {
                    self.always($what, on)
                }
            )*
        }
    };
}

always! {
    wasm_gc: "garbage-collected objects";
    wasm_function_references: "typed function references";
    wasm_reference_types: "reference types";
    wasm_exceptions: "exceptions";
    wasm_tail_call: "tail calls";
    wasm_memory64: "64-bit memories";
    wasm_multi_value: "several results";
    wasm_bulk_memory: "bulk memory operations";
    wasm_extended_const: "extended constant expressions";
}

impl Config {
    fn always(&mut self, what: &'static str, on: bool) -> &mut Config {
        self.refused.retain(|refused| *refused != what);
        if !on {
            self.refused.push(what);
        }
        self
    }

    /// # Errors
    /// If a part was to be turned off that is always there.
    pub(crate) fn check_language(&self) -> Result<()> {
        ensure!(self.refused.is_empty(), "modules may always use {}: it cannot be turned off", self.refused.join(", "));
        Ok(())
    }
}
