//! What names an entry: a hash of all that compiled code follows from.

use std::fmt;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use anyhow::Result;
use blake3::Hasher;
use legato_compiler::artifact::TargetInfo;
use legato_compiler::{CompileOptions, Features};

use crate::serialize;

/// A hash of a module's bytes, of what the compiler is told beside them, of the processor, and of the compiler itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key([u8; Key::BYTES]);

impl Key {
    /// Bytes of a key.
    pub(super) const BYTES: usize = 32;

    /// The key of the code that the compiler makes of `wasm` with these options on this machine.
    pub(crate) fn of(wasm: &[u8], options: &CompileOptions) -> Result<Key> {
        // The code is the same in parallel or not, verified or not.
        let CompileOptions { plan, features, checked_memories, optimize, parallel: _, verify: _ } = options;
        let Features { multi_memory } = features;
        let target = TargetInfo::host(options)?;
        let facts = (serialize::header(), compiler(), &target, plan, multi_memory, checked_memories, optimize);
        let facts = postcard::to_stdvec(&facts)?;
        let mut hasher = Hasher::new_derive_key("legato 2026 code cache: facts, module");
        hasher.update(&(facts.len() as u64).to_le_bytes());
        hasher.update(&facts);
        hasher.update(wasm);
        Ok(Key(hasher.finalize().into()))
    }

    /// The key of what has been compiled of that module so far, function by function: code that holds the ids which its
    /// types had in the process that wrote it.
    pub(crate) fn of_functions(&self) -> Key {
        Key(blake3::derive_key("legato 2026 code cache: functions", &self.0))
    }

    /// The key of the same in code for processes in which types have other ids.
    pub(crate) fn of_functions_anywhere(&self) -> Key {
        Key(blake3::derive_key("legato 2026 code cache: functions, any type ids", &self.0))
    }

    #[cfg(test)]
    pub(super) fn of_bytes(bytes: &[u8]) -> Key {
        Key(blake3::hash(bytes).into())
    }

    pub(super) fn bytes(&self) -> &[u8; Key::BYTES] {
        &self.0
    }
}

/// As a file's name.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Which compiler this is. One version has many between two releases, so a version says too little: the program's file
/// stands for it, by path, length and time of its last change (in nanoseconds). Empty where the system does not say.
fn compiler() -> &'static Option<(Vec<u8>, u64, u128)> {
    static COMPILER: OnceLock<Option<(Vec<u8>, u64, u128)>> = OnceLock::new();
    COMPILER.get_or_init(|| {
        let path = std::env::current_exe().ok()?;
        let metadata = path.metadata().ok()?;
        let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some((path.into_os_string().into_encoded_bytes(), metadata.len(), changed.as_nanos()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Config;

    #[test]
    fn whatever_changes_code_changes_the_key() {
        let key = |wasm: &[u8], config: &Config| Key::of(wasm, &config.compile_options()).unwrap().to_string();
        let default = key(b"module", &Config::new());
        assert_eq!(default, key(b"module", &Config::new()), "a key does not depend on when it is asked for");
        assert_eq!(default, key(b"module", Config::new().parallel_compilation(false)));
        assert_eq!(default, key(b"module", Config::new().heap_option("max", "64M").unwrap()));
        let mut keys: HashSet<String> = [default].into();
        let mut differs = |key: String| assert!(keys.insert(key));
        differs(key(b"modulf", &Config::new()));
        differs(key(b"module", Config::new().optimize(false)));
        differs(key(b"module", Config::new().wasm_multi_memory(false)));
        differs(key(b"module", Config::new().memory_reservation(0)));
        for (name, value) in [("collector", "mark-sweep"), ("arrays", "zrays"), ("references", "thin-handles")] {
            let mut config = Config::new();
            if name == "references" {
                config.heap_option("collector", "mark-sweep").unwrap();
            }
            differs(key(b"module", config.heap_option(name, value).unwrap()));
        }
    }
}
