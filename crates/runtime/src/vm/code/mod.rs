//! A compiled module in executable memory, and the tables that say what its addresses mean.

mod ahead;
mod compiler_stack;
mod kept;
mod lazy;
mod observe;
mod parts;
mod room;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use legato_compiler::artifact::{
    CallSite, CodeRange, CompiledModule, Handler, MachineSignature, Trampolines, TrapCode,
};
use legato_compiler::module::FuncIndex;
use legato_compiler::{CompileError, OnDemand};
use rustc_hash::FxHashMap;

pub(crate) use self::compiler_stack::with_compiler_stack;
pub(crate) use self::kept::KeptCode;
pub(crate) use self::lazy::first_called;
use self::lazy::{Lazy, most_loops};
pub(crate) use self::observe::Observers;
pub use self::observe::{CompileCause, CompileObserver, Compiled};
use self::parts::{Part, Parts};
use crate::vm::os::Mapping;
use crate::vm::{Error, arch, registry, signals, target};

/// A published module: code that can run, until the last reference to the image is dropped.
#[derive(Debug)]
pub struct CodeImage {
    memory: Memory,
    /// Without code, functions and tables: the memory and the parts hold them.
    module: CompiledModule,
    parts: Arc<Parts>,
    /// Where the bodies of the defined functions lie in the module file, in order.
    sources: Vec<u32>,
    /// Index in `module.trampolines`.
    trampolines: FxHashMap<MachineSignature, usize>,
}

/// Where code lies.
#[derive(Debug)]
enum Memory {
    /// All of it, compiled before: its memory and bytes.
    Whole(Mapping, usize),
    /// Compiled when it is called.
    Lazy(Arc<Lazy>),
}

impl CodeImage {
    /// Makes a module's code executable and known to the signal handlers.
    ///
    /// # Errors
    /// If the code was made for another machine, if its tables point outside the code, or if the system refuses memory.
    pub fn publish(mut module: CompiledModule) -> Result<Arc<CodeImage>, Error> {
        target::check(&module.target)?;
        check_tables(&module)?;
        signals::install()?;
        let code = std::mem::take(&mut module.code);
        // One byte more, so that a return address behind the last call belongs to this image and no other.
        let mapping = Mapping::reserve(code.len() + 1)?;
        mapping.make_writable(0..code.len())?;
        // SAFETY: the mapping is fresh, writable, and at least as long as the code.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), mapping.base(), code.len()) };
        arch::synchronize_code(mapping.base(), code.len());
        mapping.make_executable(0..code.len())?;
        let functions = std::mem::take(&mut module.functions);
        let sources = functions.iter().map(|function| function.source).collect();
        let parts = Arc::new(Parts::new(1));
        let tables = std::mem::take(&mut module.tables);
        parts.add(Part { start: 0, end: code.len() as u32, functions, tables });
        Ok(CodeImage::register(Memory::Whole(mapping, code.len()), module, parts, sources))
    }

    /// Whether functions can be compiled when they are called, on this processor.
    pub(crate) const CAN_BE_LAZY: bool = arch::FIRST_CALL.is_some();

    /// Makes a module ready whose functions are compiled when they are called, and told to the observers, unless their
    /// code is kept.
    ///
    /// # Errors
    /// If the system refuses memory.
    pub(crate) fn lazy(compiler: OnDemand, observers: Observers, kept: KeptCode) -> Result<Arc<CodeImage>, Error> {
        signals::install()?;
        let module = compiler.declarations();
        let sources: Vec<u32> = compiler.sources().collect();
        // Each function twice, loops, and two trampolines for each builtin.
        let count = 2 * sources.len() + most_loops(sources.len()) + 2 * module.builtins.len();
        let parts = Arc::new(Parts::new(count));
        let lazy = Lazy::new(compiler, observers, kept, Arc::clone(&parts))?;
        Ok(CodeImage::register(Memory::Lazy(lazy), module, parts, sources))
    }

    fn register(memory: Memory, module: CompiledModule, parts: Arc<Parts>, sources: Vec<u32>) -> Arc<CodeImage> {
        let trampolines = module.trampolines.iter().enumerate();
        let trampolines = trampolines.map(|(index, trampolines)| (trampolines.signature.clone(), index)).collect();
        let image = Arc::new(CodeImage { memory, module, parts, sources, trampolines });
        registry::register(&image);
        image
    }

    /// The functions that have been compiled so far.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &legato_compiler::artifact::CompiledFunction> {
        self.parts.iter().flat_map(|part| &part.functions)
    }

    /// What has been compiled function by function, where that is to be kept and something has been added.
    pub(crate) fn code_to_be_kept(&self) -> Option<Vec<u8>> {
        match &self.memory {
            Memory::Whole(..) => None,
            Memory::Lazy(lazy) => lazy.kept.contents(lazy.compiler()),
        }
    }

    /// The address of optimised code that goes on in a loop of quick code, given by its function and its offset in the
    /// module file; 0 where there is none, or not yet. Also: after how many iterations a loop is to ask again.
    pub(crate) fn loop_entry(&self, function: FuncIndex, offset: u32) -> (usize, i32) {
        match &self.memory {
            Memory::Whole(..) => (0, i32::MAX),
            Memory::Lazy(lazy) => {
                let defined = function.0 - self.module.info.imported_functions;
                (lazy.loop_entry((defined, offset)), lazy.iterations())
            }
        }
    }

    /// Where code notes what calls by reference lead to, and how often loops and calls run; null where it does not.
    pub(crate) fn profile(&self) -> *const AtomicU32 {
        match &self.memory {
            Memory::Whole(..) => std::ptr::null(),
            Memory::Lazy(lazy) => lazy.compiler().profile().as_ptr(),
        }
    }

    /// The module's declarations. Its code, functions and tables are empty: the image answers for them.
    pub fn module(&self) -> &CompiledModule {
        &self.module
    }

    /// Bytes of machine code so far.
    pub fn code_size(&self) -> usize {
        match &self.memory {
            Memory::Whole(_, bytes) => *bytes,
            Memory::Lazy(_) => self.parts.iter().map(|part| (part.end - part.start) as usize).sum(),
        }
    }

    /// The module as it was before publication, code included: what a precompiled file holds.
    ///
    /// # Errors
    /// If not all of it was compiled before, and the compiler refuses it now.
    pub fn to_compiled_module(&self) -> Result<CompiledModule, CompileError> {
        let (mapping, bytes) = match &self.memory {
            Memory::Whole(mapping, bytes) => (mapping, *bytes),
            Memory::Lazy(lazy) => return lazy.compiler().whole(),
        };
        let whole = self.parts.iter().next().expect("a published module is one piece");
        // SAFETY: readable for the image's life, and never written again.
        let code = unsafe { std::slice::from_raw_parts(mapping.base(), bytes) }.to_vec();
        let (functions, tables) = (whole.functions.clone(), whole.tables.clone());
        Ok(CompiledModule { code, functions, tables, ..self.module.clone() })
    }

    /// The address of the first byte of code.
    pub(crate) fn start(&self) -> usize {
        match &self.memory {
            Memory::Whole(mapping, _) => mapping.base() as usize,
            Memory::Lazy(lazy) => lazy.code() as usize,
        }
    }

    /// Bytes of address space in which code is, or may come to be.
    fn reach(&self) -> usize {
        match &self.memory {
            Memory::Whole(_, bytes) => *bytes,
            Memory::Lazy(lazy) => lazy.code_bytes(),
        }
    }

    /// Whether `address` lies in this image's code. The end counts too: a call may be the last instruction.
    pub fn contains(&self, address: usize) -> bool {
        (self.start()..=self.start() + self.reach()).contains(&address)
    }

    /// Offset of an address in the code; `None` where it lies elsewhere.
    fn offset(&self, address: usize) -> Option<u32> {
        self.contains(address).then(|| (address - self.start()) as u32)
    }

    fn address(&self, offset: u32) -> *const u8 {
        (self.start() as *const u8).wrapping_add(offset as usize)
    }

    /// Entry address of the function `index` of the module's function index space (imports counted), for calls with the
    /// `Tail` convention.
    ///
    /// # Panics
    /// If the function is imported.
    pub fn function_code(&self, index: FuncIndex) -> *const u8 {
        let defined = index.0.checked_sub(self.module.info.imported_functions);
        let defined = defined.expect("an imported function has no code here") as usize;
        self.address(
            match &self.memory {
                Memory::Whole(..) => self.parts.iter().next().map(|whole| whole.functions[defined].range.start),
                Memory::Lazy(lazy) => Some(lazy.callable(defined)),
            }
            .expect("a published module is one piece"),
        )
    }

    fn trampolines(&self, signature: &MachineSignature) -> Option<&Trampolines> {
        self.trampolines.get(signature).map(|&index| &self.module.trampolines[index])
    }

    /// The trampoline from the host into functions of this signature, if the module carries one.
    pub fn entry_trampoline(&self, signature: &MachineSignature) -> Option<*const u8> {
        self.trampolines(signature).map(|trampolines| self.address(trampolines.entry.start))
    }

    /// The trampoline from compiled code to host functions of this signature, if the module carries one.
    pub fn exit_trampoline(&self, signature: &MachineSignature) -> Option<*const u8> {
        self.trampolines(signature).map(|trampolines| self.address(trampolines.exit.start))
    }

    /// The trap that a fault of the instruction at `pc` means; `None` where it may not fault.
    pub fn trap_at(&self, pc: usize) -> Option<TrapCode> {
        self.parts.trap_at(self.offset(pc)?)
    }

    /// The live references of a frame that waits for a call to return to `return_address`: distances in bytes below the
    /// frame pointer. `None` where there are none.
    pub fn stack_map(&self, return_address: usize) -> Option<&[u32]> {
        self.parts.stack_map(self.offset(return_address)?)
    }

    /// The call that returns to `return_address` and its exception handlers, in order of precedence, if it has any.
    pub fn call_site(&self, return_address: usize) -> Option<(&CallSite, &[Handler])> {
        self.parts.call_site(self.offset(return_address)?)
    }

    /// The address of a handler's landing pad.
    pub(crate) fn landing(&self, handler: &Handler) -> usize {
        self.start() + handler.landing as usize
    }

    /// Byte offsets in the module file of the instruction that the machine instruction at `pc` belongs to, and of the
    /// calls that it was inlined at, from the innermost on; none where it is not known.
    pub fn wasm_offsets(&self, pc: usize) -> Vec<u32> {
        self.offset(pc).map(|offset| self.parts.wasm_offsets(offset)).unwrap_or_default()
    }

    /// Index, in the module's function index space, of the function that contains `pc`; `None` for trampolines.
    pub fn function_at(&self, pc: usize) -> Option<u32> {
        self.parts.function_at(self.offset(pc)?).map(|function| function.index)
    }

    /// Index of the function whose body in the module file contains a Wasm offset.
    pub fn function_of_source(&self, wasm_offset: u32) -> Option<u32> {
        let after = self.sources.partition_point(|&source| source <= wasm_offset);
        Some(self.module.info.imported_functions + after.checked_sub(1)? as u32)
    }
}

impl Drop for CodeImage {
    fn drop(&mut self) {
        registry::deregister(self.start());
    }
}

/// Checks that every table stays within the code and its own arrays, and that what is searched is sorted.
fn check_tables(module: &CompiledModule) -> Result<(), Error> {
    let code_bytes = u32::try_from(module.code.len()).map_err(|_| Error::Damaged("more than 4 GiB of code"))?;
    let inside = |range: CodeRange| range.start.checked_add(range.length).is_some_and(|end| end <= code_bytes);
    let check = |sound: bool, what| {
        if sound { Ok(()) } else { Err(Error::Damaged(what)) }
    };

    let functions = &module.functions;
    check(
        functions.len() + module.info.imported_functions as usize == module.info.functions.len(),
        "not one piece of code for each function",
    )?;
    check(functions.iter().all(|function| inside(function.range)), "a function outside the code")?;
    check(functions.is_sorted_by_key(|function| function.range.start), "functions out of order")?;
    check(module.builtins.iter().all(|&range| inside(range)), "a builtin outside the code")?;
    check(
        module.trampolines.iter().all(|trampolines| inside(trampolines.entry) && inside(trampolines.exit)),
        "a trampoline outside the code",
    )?;
    let tables = &module.tables;
    check(tables.traps.is_sorted_by_key(|site| site.offset), "trap sites out of order")?;
    check(tables.addresses.is_sorted_by_key(|&(offset, _)| offset), "addresses out of order")?;
    check(
        tables.sources.are_sound() && tables.addresses.iter().all(|&(_, source)| tables.sources.explain(source)),
        "sources that nothing explains",
    )?;

    let part_of = |first: u32, count: u32, all: usize| first as u64 + count as u64 <= all as u64;
    let maps = &tables.stack_maps;
    check(
        maps.entries.is_sorted_by_key(|entry| entry.offset)
            && maps.entries.iter().all(|entry| part_of(entry.first, entry.count, maps.slots.len())),
        "stack maps out of order",
    )?;
    let sites = &tables.call_sites;
    check(
        sites.entries.is_sorted_by_key(|site| site.offset)
            && sites.entries.iter().all(|site| part_of(site.first, site.count, sites.handlers.len()))
            && sites.handlers.iter().all(|handler| handler.landing < code_bytes),
        "call sites out of order",
    )
}

#[cfg(test)]
mod tests {
    use legato_compiler::artifact::StackMapEntry;

    use super::parts::FOUND;
    use super::*;
    use crate::Config;

    /// Traps, stack maps, exception handlers, trampolines.
    fn module() -> CompiledModule {
        let text = r#"(module
            (type $s (struct (field i32)))
            (import "h" "f" (func $f (param (ref $s))))
            (func $divide (param i32 i32) (result i32) (i32.div_s (local.get 0) (local.get 1)))
            (func (export "call") (param (ref $s)) (result i32)
                (block (try_table (catch_all 0) (call $f (local.get 0))))
                (call $divide (struct.get $s 0 (local.get 0)) (i32.const 3))))"#;
        legato_compiler::compile(&wat::parse_str(text).unwrap(), &Config::new().compile_options()).unwrap()
    }

    #[test]
    fn images_are_found_by_address_while_they_live() {
        let module = module();
        let bytes = module.code.clone();
        let image = CodeImage::publish(module).unwrap();
        assert_eq!(image.code_size(), bytes.len());
        assert_eq!(image.to_compiled_module().unwrap().code, bytes);
        let code = image.function_code(FuncIndex(2)) as usize;
        assert_eq!(image.function_at(code), Some(2));
        let trampoline = image.address(image.module().trampolines[0].entry.start) as usize;
        assert_eq!(image.function_at(trampoline), None, "a trampoline is no function");
        assert!(registry::find(code).is_some_and(|found| Arc::ptr_eq(&found, &image)));
        assert!(registry::find(0).is_none());
        drop(image);
        assert!(registry::find(code).is_none());
    }

    #[test]
    fn damaged_modules_are_refused() {
        let damaged = |damage: &dyn Fn(&mut CompiledModule), expected: &str| {
            let mut module = module();
            damage(&mut module);
            let error = CodeImage::publish(module).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}, not {expected}");
        };
        damaged(&|module| module.code.truncate(64), "damaged");
        damaged(&|module| module.tables.traps.reverse(), "trap sites");
        damaged(&|module| module.tables.stack_maps.slots.clear(), "stack maps");
        damaged(&|module| module.tables.call_sites.handlers.clear(), "call sites");
        damaged(&|module| module.functions.truncate(1), "function");
        damaged(&|module| module.trampolines[0].exit.length = u32::MAX, "trampoline");
        damaged(&|module| module.target.triple = "sparc-sun-solaris".into(), "sparc");
    }

    #[test]
    fn stack_maps_are_found_in_any_order() {
        let mut module = module();
        // More of them than an image remembers.
        let bytes = module.code.len() as u32;
        assert!(bytes as usize > 2 * FOUND);
        module.tables.stack_maps.slots = (0..bytes).collect();
        let entries = (1..bytes).filter(|offset| offset % 3 != 0);
        module.tables.stack_maps.entries =
            entries.map(|offset| StackMapEntry { offset, first: offset, count: 1 }).collect();
        let image = CodeImage::publish(module).unwrap();
        let check = |offset: u32| {
            let expected = (!offset.is_multiple_of(3) && offset < bytes).then_some(offset);
            let found = image.stack_map(image.start() + offset as usize);
            assert_eq!(found, expected.as_ref().map(std::slice::from_ref), "at {offset} of {bytes}");
        };
        (0..=bytes).for_each(check);
        (0..=bytes).rev().for_each(check);
        (0..4 * bytes).for_each(|index| check(index.wrapping_mul(2_654_435_761) % (bytes + 1)));
    }
}
