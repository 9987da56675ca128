//! A compiled module in executable memory, and the tables that say what its addresses mean.

use std::sync::Arc;

use legato_compiler::artifact::{
    CallSite, CodeRange, CompiledModule, Handler, MachineSignature, Trampolines, TrapCode,
};
use legato_compiler::module::FuncIndex;
use rustc_hash::FxHashMap;

use crate::vm::os::Mapping;
use crate::vm::{Error, arch, registry, signals, target};

/// A published module: code that can run, until the last reference to the image is dropped.
#[derive(Debug)]
pub struct CodeImage {
    mapping: Mapping,
    code_bytes: usize,
    /// Its `code` is empty: the mapping holds it.
    module: CompiledModule,
    /// Index in `module.trampolines`.
    trampolines: FxHashMap<MachineSignature, usize>,
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
        let trampolines = module
            .trampolines
            .iter()
            .enumerate()
            .map(|(index, trampolines)| (trampolines.signature.clone(), index))
            .collect();
        let image = Arc::new(CodeImage { mapping, code_bytes: code.len(), module, trampolines });
        registry::register(&image);
        Ok(image)
    }

    /// The module's declarations and tables. Its `code` is empty: see [`code`](Self::code).
    pub fn module(&self) -> &CompiledModule {
        &self.module
    }

    /// The machine code.
    pub fn code(&self) -> &[u8] {
        // SAFETY: readable for the image's life, and never written again.
        unsafe { std::slice::from_raw_parts(self.mapping.base(), self.code_bytes) }
    }

    /// The module as it was before publication, code included: what a precompiled file holds.
    pub fn to_compiled_module(&self) -> CompiledModule {
        CompiledModule { code: self.code().to_vec(), ..self.module.clone() }
    }

    /// The address of the first byte of code.
    pub(crate) fn start(&self) -> usize {
        self.mapping.base() as usize
    }

    /// Whether `address` lies in this image's code. The end counts too: a call may be the last instruction.
    pub fn contains(&self, address: usize) -> bool {
        (self.start()..=self.start() + self.code_bytes).contains(&address)
    }

    /// Offset of an address in the code; `None` where it lies elsewhere.
    fn offset(&self, address: usize) -> Option<u32> {
        self.contains(address).then(|| (address - self.start()) as u32)
    }

    fn address(&self, range: CodeRange) -> *const u8 {
        self.mapping.base().wrapping_add(range.start as usize)
    }

    /// Entry address of the function `index` of the module's function index space (imports counted), for calls with the
    /// `Tail` convention.
    ///
    /// # Panics
    /// If the function is imported.
    pub fn function_code(&self, index: FuncIndex) -> *const u8 {
        let defined = index.0.checked_sub(self.module.info.imported_functions);
        let defined = defined.expect("an imported function has no code here");
        self.address(self.module.functions[defined as usize].range)
    }

    fn trampolines(&self, signature: &MachineSignature) -> Option<&Trampolines> {
        self.trampolines.get(signature).map(|&index| &self.module.trampolines[index])
    }

    /// The trampoline from the host into functions of this signature, if the module carries one.
    pub fn entry_trampoline(&self, signature: &MachineSignature) -> Option<*const u8> {
        self.trampolines(signature).map(|trampolines| self.address(trampolines.entry))
    }

    /// The trampoline from compiled code to host functions of this signature, if the module carries one.
    pub fn exit_trampoline(&self, signature: &MachineSignature) -> Option<*const u8> {
        self.trampolines(signature).map(|trampolines| self.address(trampolines.exit))
    }

    /// The trap that a fault of the instruction at `pc` means; `None` where it may not fault.
    pub fn trap_at(&self, pc: usize) -> Option<TrapCode> {
        let offset = self.offset(pc)?;
        let traps = &self.module.traps;
        traps.binary_search_by_key(&offset, |site| site.offset).ok().map(|found| traps[found].code)
    }

    /// The live references of a frame that waits for a call to return to `return_address`: distances in bytes below the
    /// frame pointer. `None` where there are none.
    pub fn stack_map(&self, return_address: usize) -> Option<&[u32]> {
        let offset = self.offset(return_address)?;
        let maps = &self.module.stack_maps;
        let found = maps.entries.binary_search_by_key(&offset, |entry| entry.offset).ok()?;
        let entry = &maps.entries[found];
        Some(&maps.slots[entry.first as usize..][..entry.count as usize])
    }

    /// The call that returns to `return_address` and its exception handlers, in order of precedence, if it has any.
    pub fn call_site(&self, return_address: usize) -> Option<(&CallSite, &[Handler])> {
        let offset = self.offset(return_address)?;
        let sites = &self.module.call_sites;
        let found = sites.entries.binary_search_by_key(&offset, |site| site.offset).ok()?;
        let site = &sites.entries[found];
        Some((site, &sites.handlers[site.first as usize..][..site.count as usize]))
    }

    /// The address of a handler's landing pad.
    pub(crate) fn landing(&self, handler: &Handler) -> usize {
        self.start() + handler.landing as usize
    }

    /// Byte offset in the module file of the instruction that the machine instruction at `pc` belongs to.
    pub fn wasm_offset(&self, pc: usize) -> Option<u32> {
        let offset = self.offset(pc)?;
        let function = self.function_containing(offset)?;
        let addresses = &self.module.addresses;
        let after = addresses.partition_point(|&(start, _)| start <= offset);
        let &(start, wasm) = addresses.get(after.checked_sub(1)?)?;
        // An entry before the function says nothing about this one.
        (start >= self.module.functions[function].range.start).then_some(wasm)
    }

    /// Index, in the module's function index space, of the function that contains `pc`; `None` for trampolines.
    pub fn function_at(&self, pc: usize) -> Option<u32> {
        let function = self.function_containing(self.offset(pc)?)?;
        Some(self.module.functions[function].index)
    }

    /// Index of the function whose body in the module file contains a Wasm offset.
    pub fn function_of_source(&self, wasm_offset: u32) -> Option<u32> {
        let functions = &self.module.functions;
        let after = functions.partition_point(|function| function.source <= wasm_offset);
        Some(functions[after.checked_sub(1)?].index)
    }

    fn function_containing(&self, offset: u32) -> Option<usize> {
        let functions = &self.module.functions;
        let after = functions.partition_point(|function| function.range.start <= offset);
        let index = after.checked_sub(1)?;
        let range = functions[index].range;
        (offset - range.start < range.length).then_some(index)
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
    check(module.traps.is_sorted_by_key(|site| site.offset), "trap sites out of order")?;
    check(module.addresses.is_sorted_by_key(|&(offset, _)| offset), "addresses out of order")?;

    let part_of = |first: u32, count: u32, all: usize| first as u64 + count as u64 <= all as u64;
    let maps = &module.stack_maps;
    check(
        maps.entries.is_sorted_by_key(|entry| entry.offset)
            && maps.entries.iter().all(|entry| part_of(entry.first, entry.count, maps.slots.len())),
        "stack maps out of order",
    )?;
    let sites = &module.call_sites;
    check(
        sites.entries.is_sorted_by_key(|site| site.offset)
            && sites.entries.iter().all(|site| part_of(site.first, site.count, sites.handlers.len()))
            && sites.handlers.iter().all(|handler| handler.landing < code_bytes),
        "call sites out of order",
    )
}

#[cfg(test)]
mod tests {
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
        assert_eq!(image.code(), bytes);
        assert_eq!(image.to_compiled_module().code, bytes);
        let code = image.function_code(FuncIndex(2)) as usize;
        assert_eq!(image.function_at(code), Some(2));
        let trampoline = image.address(image.module().trampolines[0].entry) as usize;
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
        damaged(&|module| module.traps.reverse(), "trap sites");
        damaged(&|module| module.stack_maps.slots.clear(), "stack maps");
        damaged(&|module| module.call_sites.handlers.clear(), "call sites");
        damaged(&|module| module.functions.truncate(1), "function");
        damaged(&|module| module.trampolines[0].exit.length = u32::MAX, "trampoline");
        damaged(&|module| module.target.triple = "sparc-sun-solaris".into(), "sparc");
    }
}
