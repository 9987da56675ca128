//! Trampolines alone: from the host through an entry and an exit trampoline to the host.

use legato_compiler::abi::{Builtin, COLD_CELLS, ContextHead, HOST_MAGIC, HostContext, StoreContext};
use legato_compiler::artifact::{MachineSignature, MachineType};
use legato_compiler::emit::compile_trampolines;
use legato_heap::HeapConfig;

use super::{CompileOptions, raise};
use crate::vm::{CodeImage, StoreFrames, Unwind, ValueCell, activation, frames};

/// Reverses its parameters into its results; fails where the first is 99.
unsafe extern "C" fn reverse(context: *mut HostContext, cells: *mut u8) -> u32 {
    // SAFETY: the trampoline gives the context below, and as many cells as there are parameters.
    let (store, cells) = unsafe {
        let cells: &mut [ValueCell] = std::slice::from_raw_parts_mut(cells.cast(), COUNT);
        ((*context).head.store, cells)
    };
    let mut frames = 0;
    // SAFETY: in a host function.
    unsafe { frames::for_each_frame(store, |_| frames += 1) };
    assert_eq!(frames, 0, "no function of a module is active");
    if cells[0].0[0] == 99 {
        activation::set_pending(Unwind::Error(anyhow::anyhow!("refused")));
        return 1;
    }
    cells.reverse();
    0
}

const COUNT: usize = 20;

#[test]
fn every_machine_type_passes_both_ways() {
    let types = [MachineType::I32, MachineType::F64, MachineType::I64, MachineType::V128, MachineType::F32];
    let params: Vec<MachineType> = types.into_iter().cycle().take(COUNT).collect();
    let results: Vec<MachineType> = params.iter().rev().copied().collect();
    let signature = MachineSignature { params, results };
    let plan = HeapConfig::default().access_plan();
    for optimize in [false, true] {
        let options = CompileOptions {
            loop_versions: Default::default(),
            features: Default::default(),
            plan: plan.clone(),
            optimize,
            parallel: false,
            verify: true,
        };
        let module = compile_trampolines(std::slice::from_ref(&signature), &options).unwrap();
        let image = CodeImage::publish(module).unwrap();
        let mut builtins = vec![std::ptr::null::<u8>(); Builtin::ALL.len()];
        builtins[Builtin::Raise as usize] = raise as *const u8;
        let mut frames = StoreFrames::new(std::ptr::null(), |_| ());
        let store = (&raw mut frames).cast();
        let head = ContextHead {
            magic: HOST_MAGIC,
            func_refs: 0,
            store,
            mutator: std::ptr::null_mut(),
            cage: std::ptr::null_mut(),
            types: std::ptr::null(),
            builtins: builtins.as_ptr(),
            cold_cells: [0; COLD_CELLS],
        };
        let mut host = HostContext { head, call: reverse };
        let entry = image.entry_trampoline(&signature).unwrap();
        let exit = image.exit_trampoline(&signature).unwrap();
        let mut call = |first: u8| {
            let mut cells: Vec<ValueCell> = (0..COUNT as u8).map(|byte| ValueCell([byte + 1; 16])).collect();
            cells[0].0[0] = first;
            let before = cells.clone();
            // SAFETY: both trampolines are for this signature, and the context is the host function's.
            let result = unsafe { activation::enter(store, entry, (&raw mut host).cast(), exit, cells.as_mut_ptr()) };
            (before, result, cells)
        };
        let (before, result, after) = call(1);
        result.unwrap();
        for (index, &ty) in signature.results.iter().enumerate() {
            let bytes = match ty {
                MachineType::I32 | MachineType::F32 => 4,
                MachineType::I64 | MachineType::F64 => 8,
                MachineType::V128 => 16,
            };
            assert_eq!(after[index].0[..bytes], before[COUNT - 1 - index].0[..bytes], "result {index}");
        }
        let (_, result, _) = call(99);
        assert!(matches!(result, Err(Unwind::Error(error)) if error.to_string() == "refused"));
    }
}
