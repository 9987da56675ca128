//! What an embedder chooses for an [`Engine`](crate::Engine).

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use legato_compiler::{CompileOptions, Features};
use legato_heap::HeapConfig;

use crate::Cache;
use crate::vm::{CompileObserver, MemoryReservation};

/// Stack that compiled code may take by default, in bytes.
const DEFAULT_WASM_STACK: usize = 1 << 20;

/// When functions are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compilation {
    /// All of them when the module is made, on several threads: a program runs without any delay once it runs.
    #[default]
    Eager,
    /// Each when it is first called, by the thread that calls it, or a little earlier by another: a program runs soon.
    /// Most functions are compiled quickly at first, and anew, with all optimisations, when they have been called
    /// often; until then their frames are larger, mostly 1,024 bytes at most, and recursion ends earlier. The module is
    /// validated as a whole before. A function that the code generator refuses, as it passes one of its limits, ends
    /// the first call of it with an error. Where a processor offers no such thing (AArch64 at present), this is
    /// `Eager`.
    Lazy,
}

/// Who is told the names of compiled functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ProfilingStrategy {
    /// Nobody.
    #[default]
    None,
    /// The file `/tmp/perf-PID.map`, in which Linux's `perf` looks for names. It has a line for each piece of code once
    /// that is compiled, and stays when the process has ended. Names of code that was made quickly end in `(quick)`,
    /// those of loops that are replaced while they run in `(in a loop)`.
    PerfMap,
}

/// The configuration of an [`Engine`](crate::Engine).
///
/// ```
/// let mut config = legato::Config::new();
/// config.heap_option("nursery", "1M")?.max_wasm_stack(256 << 10);
/// let engine = legato::Engine::new(&config)?;
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) heap: HeapConfig,
    pub(crate) features: Features,
    pub(crate) optimize: bool,
    pub(crate) parallel: bool,
    pub(crate) verify_compiler: bool,
    pub(crate) compilation: Compilation,
    pub(crate) compile_observer: Option<Observer>,
    pub(crate) max_wasm_stack: usize,
    pub(crate) memory_reservation: MemoryReservation,
    pub(crate) profiler: ProfilingStrategy,
    pub(crate) backtrace: bool,
    pub(crate) cache: Option<Cache>,
    /// Parts of the language that were to be turned off, and cannot be.
    pub(crate) refused: Vec<&'static str>,
}

/// Told of what is compiled.
#[derive(Clone)]
pub(crate) struct Observer(pub(crate) Arc<CompileObserver>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

impl Config {
    /// The default configuration: optimised code, functions compiled in parallel, the heap's defaults.
    pub fn new() -> Config {
        Config {
            heap: HeapConfig::default(),
            features: Features::default(),
            optimize: true,
            parallel: true,
            verify_compiler: false,
            compilation: Compilation::default(),
            compile_observer: None,
            max_wasm_stack: DEFAULT_WASM_STACK,
            memory_reservation: MemoryReservation::DEFAULT,
            profiler: ProfilingStrategy::None,
            backtrace: true,
            refused: Vec::new(),
            cache: None,
        }
    }

    /// How the heap of each store works. Code is compiled for one way of reaching objects, so this belongs to the
    /// engine.
    pub fn heap(&mut self, heap: HeapConfig) -> &mut Config {
        self.heap = heap;
        self
    }

    /// Sets one parameter of the heap by name, as on a command line. See [`HeapConfig::set`].
    ///
    /// # Errors
    /// If the key or the value is unknown.
    pub fn heap_option(&mut self, key: &str, value: &str) -> Result<&mut Config> {
        self.heap.set(key, value)?;
        Ok(self)
    }

    /// The heap's configuration as it stands.
    pub fn heap_config(&self) -> &HeapConfig {
        &self.heap
    }

    /// Whether modules may have more than one memory. On by default, as in WebAssembly 3.0.
    pub fn wasm_multi_memory(&mut self, on: bool) -> &mut Config {
        self.features.multi_memory = on;
        self
    }

    /// Whether the compiler's optimisations run. On by default.
    pub fn optimize(&mut self, on: bool) -> &mut Config {
        self.optimize = on;
        self
    }

    /// Whether functions are compiled on several threads. On by default; the code is the same. With
    /// [`Compilation::Lazy`]: whether other threads than the callers' compile functions ahead, and those anew that are
    /// called often.
    pub fn parallel_compilation(&mut self, on: bool) -> &mut Config {
        self.parallel = on;
        self
    }

    /// Whether the compiler checks its own intermediate forms, and in generated code that no reference is used behind a
    /// safepoint at which the collector may have moved its object: slow, for tests and fuzzing. Off by default.
    pub fn compiler_verifier(&mut self, on: bool) -> &mut Config {
        self.verify_compiler = on;
        self
    }

    /// When functions are compiled. [`Compilation::Eager`] by default.
    pub fn compilation(&mut self, compilation: Compilation) -> &mut Config {
        self.compilation = compilation;
        self
    }

    /// Has an observer told of each function that has been compiled, by the thread that did it.
    pub fn compile_observer(&mut self, observer: Arc<CompileObserver>) -> &mut Config {
        self.compile_observer = Some(Observer(observer));
        self
    }

    /// Stack that compiled code may take, in bytes, measured from the outermost call into a store. Passing it is the
    /// trap [`StackOverflow`](crate::Trap::StackOverflow). The thread's own stack, less a reserve of 256 KiB for host
    /// functions, limits it too. Another stack, a fiber's, has to have room for both:
    /// see `docs/guides/limits.md`.
    pub fn max_wasm_stack(&mut self, bytes: usize) -> &mut Config {
        self.max_wasm_stack = bytes;
        self
    }

    /// Address space that every linear memory reserves, in bytes: by default 6 GiB, all that code can address, so that
    /// no access to a 32-bit memory has to be checked. With less, a memory reserves so much at first, or less where its
    /// maximum is smaller, and moves when it outgrows that; each access is compared with its length, which costs time.
    /// For thousands of memories in one process. Code is compiled for one of both: a module with memories that was
    /// precompiled without checks is refused by an engine with less.
    ///
    /// Where address space is limited (`ulimit -v`) and less than 24 GiB of it are left when the engine is made, the
    /// default is less too: a memory reserves at most 1 GiB, or an eighth of what is left when it is made.
    pub fn memory_reservation(&mut self, bytes: u64) -> &mut Config {
        self.memory_reservation = MemoryReservation::of(bytes);
        self
    }

    /// Who is told the names of compiled functions, for profilers. Nobody by default.
    ///
    /// ```
    /// let mut config = legato::Config::new();
    /// config.profiler(legato::ProfilingStrategy::PerfMap);
    /// let engine = legato::Engine::new(&config)?;
    /// legato::Module::new(&engine, r#"(module (func $seen (export "f")))"#)?;
    /// let map = format!("/tmp/perf-{}.map", std::process::id());
    /// assert!(std::fs::read_to_string(&map)?.contains(" seen\n"));
    /// # std::fs::remove_file(map)?;
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    pub fn profiler(&mut self, strategy: ProfilingStrategy) -> &mut Config {
        self.profiler = strategy;
        self
    }

    /// Whether traps and uncaught exceptions carry a [`WasmBacktrace`](crate::WasmBacktrace). On by default.
    pub fn wasm_backtrace(&mut self, on: bool) -> &mut Config {
        self.backtrace = on;
        self
    }

    /// Compiles modules through a cache: what another engine or another process has compiled with the same
    /// configuration is taken from there. None by default, nor where [`compiler_verifier`](Self::compiler_verifier) is
    /// on.
    pub fn cache(&mut self, cache: Option<Cache>) -> &mut Config {
        self.cache = cache;
        self
    }

    /// What the compiler is told, where memories get this reservation.
    pub(crate) fn compile_options_with(&self, memories: MemoryReservation) -> CompileOptions {
        CompileOptions {
            plan: self.heap.access_plan(),
            features: self.features,
            checked_memories: memories.is_checked(),
            optimize: self.optimize,
            parallel: self.parallel,
            verify: self.verify_compiler,
        }
    }
    /// What the compiler is told, where address space is not limited.
    #[cfg(test)]
    pub(crate) fn compile_options(&self) -> CompileOptions {
        self.compile_options_with(self.memory_reservation)
    }
}
