//! For tests: compiled modules made by hand through Cranelift, and just enough of a store to run them.
//!
//! Every function has the machine signature `(i32) -> i32`. A module imports two functions and two tags.

use std::sync::Arc;

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{
    AbiParam, BlockArg, BlockCall, ExceptionTableData, ExceptionTableItem, ExceptionTag, Function, InstBuilder,
    MemFlagsData, SigRef, Signature, StackSlotData, StackSlotKind, TrapCode as CraneliftTrap, Value, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, ExceptionContextLoc, FinalizedMachExceptionHandler};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use legato_compiler::abi::{
    Builtin, COLD_CELLS, CONTEXT_MAGIC, ContextHead, EntryRecord, FuncImport, HOST_MAGIC, HostContext, StoreContext,
};
use legato_compiler::artifact::{
    CallSite, CodeRange, CompiledFunction, CompiledModule, Handler, MachineSignature, MachineType, StackMapEntry,
    TargetInfo, Trampolines, TrapCode, TrapSite,
};
use legato_compiler::module::{
    CompositeType, FuncIndex, FuncType, Function as ModuleFunction, Import, ImportKind, ModuleInfo, SubType, TypeIndex,
    ValueType,
};
use legato_heap::plan::{AllocationPlan, ArrayPlan, BarrierPlan, ReferencePlan};
use legato_heap::{AccessPlan, MutatorContext, Reference, RootVisitor};

use crate::vm::os::Mapping;
use crate::vm::{CodeImage, StoreFrames, Unwind, ValueCell, activation};

const IMPORTS: u32 = 2;
const TAGS: u32 = 2;

/// What a body builds with.
pub(crate) struct Body<'a> {
    pub(crate) b: FunctionBuilder<'a>,
    pub(crate) context: Value,
    pub(crate) param: Value,
    wasm: SigRef,
}

fn flags() -> MemFlagsData {
    MemFlagsData::trusted()
}

pub(crate) fn trap(code: TrapCode) -> CraneliftTrap {
    CraneliftTrap::user(code as u8).unwrap()
}

impl Body<'_> {
    /// Code and context of an import.
    fn import(&mut self, import: u32) -> (Value, Value) {
        let offset = module_info(0).context_layout().func_imports + import * size_of::<FuncImport>() as u32;
        let code = self.b.ins().load(types::I64, flags(), self.context, offset as i32);
        let context = self.b.ins().load(types::I64, flags(), self.context, offset as i32 + 8);
        (code, context)
    }

    pub(crate) fn call_import(&mut self, import: u32, argument: Value) -> Value {
        let (code, context) = self.import(import);
        let call = self.b.ins().call_indirect(self.wasm, code, &[context, argument]);
        self.b.inst_results(call)[0]
    }

    /// Calls an import with handlers: tag 0 returns the payload plus 1000, any other exception payload plus 2000.
    pub(crate) fn call_catching(&mut self, import: u32, argument: Value, catch_all: bool) {
        let (code, context) = self.import(import);
        let (normal, caught, other) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        for (block, ty) in [(normal, types::I32), (caught, types::I64), (other, types::I64)] {
            self.b.append_block_param(block, ty);
        }
        let pool = &mut self.b.func.dfg.value_lists;
        let normal_call = BlockCall::new(normal, [BlockArg::TryCallRet(0)], pool);
        let mut items = vec![
            ExceptionTableItem::Context(self.context),
            ExceptionTableItem::Tag(ExceptionTag::from_u32(0), BlockCall::new(caught, [BlockArg::TryCallExn(0)], pool)),
        ];
        if catch_all {
            items.push(ExceptionTableItem::Default(BlockCall::new(other, [BlockArg::TryCallExn(0)], pool)));
        }
        let table = ExceptionTableData::new(self.wasm, normal_call, items);
        let table = self.b.func.dfg.exception_tables.push(table);
        self.b.ins().try_call_indirect(code, &[context, argument], table);
        self.b.switch_to_block(normal);
        let result = self.b.block_params(normal)[0];
        self.b.ins().return_(&[result]);
        for (block, plus) in [(caught, 1000), (other, 2000)] {
            self.b.switch_to_block(block);
            let payload = self.b.block_params(block)[0];
            let payload = self.b.ins().ireduce(types::I32, payload);
            let plus = self.b.ins().iconst(types::I32, plus);
            // The parameter must have survived the call in the frame.
            let sum = self.b.ins().iadd(payload, plus);
            let sum = self.b.ins().iadd(sum, self.param);
            self.b.ins().return_(&[sum]);
        }
    }
}

/// Compiles functions one by one into a module.
pub(crate) struct Assembler {
    isa: OwnedTargetIsa,
    module: CompiledModule,
}

fn module_info(defined: usize) -> ModuleInfo {
    let ty = FuncType { params: vec![ValueType::I32], results: vec![ValueType::I32] };
    let import =
        |index: u32| Import { module: "host".into(), name: index.to_string(), kind: ImportKind::Func(TypeIndex(0)) };
    let mut info = ModuleInfo {
        types: vec![SubType {
            is_final: true,
            supertype: None,
            composite: CompositeType::Func(ty),
            depth: 0,
            rec_group: (TypeIndex(0), 1),
        }],
        canonical_types: vec![TypeIndex(0)],
        imports: (0..IMPORTS).map(import).collect(),
        functions: vec![ModuleFunction { ty: TypeIndex(0), func_ref: None }; IMPORTS as usize + defined],
        imported_functions: IMPORTS,
        tags: vec![TypeIndex(0); TAGS as usize],
        ..ModuleInfo::default()
    };
    info.names.module = Some("hand-made".into());
    info.names.functions = (0..info.functions.len()).map(|index| format!("f{index}")).collect();
    info
}

fn signature() -> MachineSignature {
    MachineSignature { params: vec![MachineType::I32], results: vec![MachineType::I32] }
}

impl Assembler {
    pub(crate) fn new(references: ReferencePlan) -> Assembler {
        let mut builder = settings::builder();
        builder.set("preserve_frame_pointers", "true").unwrap();
        builder.set("enable_probestack", "true").unwrap();
        builder.set("probestack_strategy", "inline").unwrap();
        let isa = cranelift_native::builder().unwrap().finish(settings::Flags::new(builder)).unwrap();
        let features = isa.isa_flags().into_iter().filter(|flag| flag.as_bool() == Some(true));
        let module = CompiledModule {
            context: module_info(0).context_layout(),
            info: module_info(0),
            plan: AccessPlan {
                references,
                arrays: ArrayPlan::Contiguous,
                counting: None,
                allocation: AllocationPlan::SizeClasses {
                    cell_bytes: vec![],
                    runs_offset: MutatorContext::RUNS_OFFSET,
                    sizes_offset: MutatorContext::SIZES_OFFSET,
                },
                fresh_memory_is_zero: true,
                store_barrier: BarrierPlan::NONE,
                references_change_at_safepoints: true,
                null_guard_bytes: 4096,
            },
            target: TargetInfo {
                triple: isa.triple().to_string(),
                features: features.map(|flag| flag.name.to_string()).collect(),
            },
            code: vec![],
            functions: vec![],
            builtins: vec![],
            trampolines: vec![],
            traps: vec![],
            stack_maps: Default::default(),
            call_sites: Default::default(),
            addresses: vec![],
        };
        let mut assembler = Assembler { isa, module };
        let entry = assembler.entry();
        let exit = assembler.exit();
        assembler.module.trampolines.push(Trampolines { signature: signature(), entry, exit });
        assembler
    }

    fn wasm_signature(&self) -> Signature {
        let mut signature = Signature::new(CallConv::Tail);
        signature.params = vec![AbiParam::new(types::I64), AbiParam::new(types::I32)];
        signature.returns = vec![AbiParam::new(types::I32)];
        signature
    }

    fn c_signature(&self, params: usize, result: bool) -> Signature {
        let mut signature = Signature::new(self.isa.default_call_conv());
        signature.params = vec![AbiParam::new(types::I64); params];
        signature.returns = if result { vec![AbiParam::new(types::I32)] } else { vec![] };
        signature
    }

    /// Adds a function; returns its index in the module.
    pub(crate) fn function(&mut self, build: &dyn Fn(&mut Body<'_>)) -> u32 {
        let (wasm, config) = (self.wasm_signature(), self.isa.frontend_config());
        let range = self.compile(wasm.clone(), |mut b| {
            let wasm = b.import_signature(wasm);
            let block = b.current_block().unwrap();
            let (context, param) = (b.block_params(block)[0], b.block_params(block)[1]);
            let mut body = Body { b, context, param, wasm };
            build(&mut body);
            body.b.seal_all_blocks();
            body.b.finalize(config);
        });
        let index = IMPORTS + self.module.functions.len() as u32;
        self.module.functions.push(CompiledFunction { range, outlined: range.length, index, source: index * 100 });
        self.module.addresses.push((range.start, index * 100));
        index
    }

    fn entry(&mut self) -> CodeRange {
        let (wasm, config) = (self.wasm_signature(), self.isa.frontend_config());
        self.compile(self.c_signature(4, true), |mut b| {
            let wasm = b.import_signature(wasm);
            let block = b.current_block().unwrap();
            let [context, code, values, record] = *b.block_params(block) else { unreachable!() };
            let (normal, landing) = (b.create_block(), b.create_block());
            b.append_block_param(normal, types::I32);
            // The block whose handler's address is taken may not be the entry block.
            let calling = b.create_block();
            b.ins().jump(calling, &[]);
            b.switch_to_block(calling);
            let words = [
                (b.ins().get_stack_pointer(types::I64), std::mem::offset_of!(EntryRecord, sp)),
                (b.ins().get_frame_pointer(types::I64), std::mem::offset_of!(EntryRecord, fp)),
                (
                    b.ins().get_exception_handler_address(types::I64, calling, 0),
                    std::mem::offset_of!(EntryRecord, landing),
                ),
            ];
            for (word, offset) in words {
                b.ins().store(flags(), word, record, offset as i32);
            }
            let argument = b.ins().load(types::I32, flags(), values, 0);
            let pool = &mut b.func.dfg.value_lists;
            let normal_call = BlockCall::new(normal, [BlockArg::TryCallRet(0)], pool);
            let landing_call = BlockCall::new(landing, [], pool);
            let table = ExceptionTableData::new(wasm, normal_call, [ExceptionTableItem::Default(landing_call)]);
            let table = b.func.dfg.exception_tables.push(table);
            b.ins().try_call_indirect(code, &[context, argument], table);
            b.switch_to_block(normal);
            let result = b.block_params(normal)[0];
            b.ins().store(flags(), result, values, 0);
            let zero = b.ins().iconst(types::I32, 0);
            b.ins().return_(&[zero]);
            b.switch_to_block(landing);
            let one = b.ins().iconst(types::I32, 1);
            b.ins().return_(&[one]);
            b.seal_all_blocks();
            b.finalize(config);
        })
    }

    fn exit(&mut self) -> CodeRange {
        let (call, raise) = (self.c_signature(2, true), self.c_signature(1, false));
        let config = self.isa.frontend_config();
        self.compile(self.wasm_signature(), |mut b| {
            let (call, raise) = (b.import_signature(call), b.import_signature(raise));
            let block = b.current_block().unwrap();
            let [context, argument] = *b.block_params(block) else { unreachable!() };
            let cells = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 4));
            let cells = b.ins().stack_addr(types::I64, cells, 0);
            b.ins().store(flags(), argument, cells, 0);
            let fp = b.ins().get_frame_pointer(types::I64);
            let store = b.ins().load(types::I64, flags(), context, std::mem::offset_of!(ContextHead, store) as i32);
            for (from, to) in [
                (0, std::mem::offset_of!(StoreContext, last_exit_fp)),
                (8, std::mem::offset_of!(StoreContext, last_exit_pc)),
            ] {
                let word = b.ins().load(types::I64, flags(), fp, from);
                b.ins().store(flags(), word, store, to as i32);
            }
            let code = std::mem::offset_of!(HostContext, call) as i32;
            let code = b.ins().load(types::I64, flags(), context, code);
            let status = b.ins().call_indirect(call, code, &[context, cells]);
            let status = b.inst_results(status)[0];
            let (sound, failed) = (b.create_block(), b.create_block());
            b.ins().brif(status, failed, &[], sound, &[]);
            b.switch_to_block(sound);
            let result = b.ins().load(types::I32, flags(), cells, 0);
            b.ins().return_(&[result]);
            b.switch_to_block(failed);
            let builtins = std::mem::offset_of!(ContextHead, builtins) as i32;
            let builtins = b.ins().load(types::I64, flags(), context, builtins);
            let code = b.ins().load(types::I64, flags(), builtins, Builtin::Raise as i32 * 8);
            b.ins().call_indirect(raise, code, &[context]);
            b.ins().trap(trap(TrapCode::Internal));
            b.seal_all_blocks();
            b.finalize(config);
        })
    }

    /// Compiles a function and appends its code and tables.
    fn compile(&mut self, signature: Signature, build: impl FnOnce(FunctionBuilder<'_>)) -> CodeRange {
        let mut function = Function::new();
        function.signature = signature;
        let mut builders = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut function, &mut builders);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        build(builder);
        let mut context = Context::for_function(function);
        let compiled = context.compile(&*self.isa, &mut ControlPlane::default()).unwrap();
        let buffer = &compiled.buffer;
        assert!(buffer.relocs().is_empty());

        let module = &mut self.module;
        module.code.resize(module.code.len().next_multiple_of(16), 0xcc);
        let start = module.code.len() as u32;
        module.code.extend_from_slice(buffer.data());
        for site in buffer.traps() {
            module.traps.push(TrapSite { offset: start + site.offset, code: trap_code(site.code) });
        }
        for (offset, frame, map) in buffer.user_stack_maps() {
            let first = module.stack_maps.slots.len() as u32;
            module.stack_maps.slots.extend(map.entries().map(|(_, slot)| frame - slot));
            let count = module.stack_maps.slots.len() as u32 - first;
            module.stack_maps.entries.push(StackMapEntry { offset: start + offset, first, count });
        }
        for site in buffer.call_sites().filter(|site| !site.exception_handlers.is_empty()) {
            let first = module.call_sites.handlers.len() as u32;
            let mut context_offset = 0;
            for handler in site.exception_handlers {
                let (tag, landing) = match *handler {
                    FinalizedMachExceptionHandler::Tag(tag, landing) => (Some(tag.as_u32()), landing),
                    FinalizedMachExceptionHandler::Default(landing) => (None, landing),
                    FinalizedMachExceptionHandler::Context(ExceptionContextLoc::SPOffset(offset)) => {
                        context_offset = offset;
                        continue;
                    }
                    FinalizedMachExceptionHandler::Context(other) => panic!("context in {other:?}"),
                };
                module.call_sites.handlers.push(Handler { tag, landing: start + landing });
            }
            module.call_sites.entries.push(CallSite {
                offset: start + site.ret_addr,
                sp_distance: site.frame_offset.unwrap(),
                context_offset,
                first,
                count: module.call_sites.handlers.len() as u32 - first,
            });
        }
        CodeRange { start, length: module.code.len() as u32 - start }
    }

    pub(crate) fn finish(mut self) -> CompiledModule {
        self.module.info = module_info(self.module.functions.len());
        self.module
    }
}

fn trap_code(code: CraneliftTrap) -> TrapCode {
    let all = [TrapCode::Unreachable, TrapCode::MemoryOutOfBounds, TrapCode::NullReference, TrapCode::Internal];
    match code {
        CraneliftTrap::INTEGER_DIVISION_BY_ZERO => TrapCode::IntegerDivisionByZero,
        CraneliftTrap::INTEGER_OVERFLOW => TrapCode::IntegerOverflow,
        CraneliftTrap::STACK_OVERFLOW => TrapCode::StackOverflow,
        code => *all.iter().find(|&&known| trap(known) == code).unwrap(),
    }
}

/// A visitor that calls a function.
pub(crate) struct Visit<F>(pub(crate) F);

impl<F: FnMut(&mut Reference)> RootVisitor for Visit<F> {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        self.0(slot);
        false
    }
}

/// What a host function of the tests does.
pub(crate) type Host = Box<dyn Fn(&World, i32) -> Result<i32, Unwind>>;

#[repr(C)]
struct TestHost {
    context: HostContext,
    world: *const World,
    function: Host,
}

/// A store with one instance.
pub(crate) struct World {
    store: Box<std::cell::UnsafeCell<StoreFrames>>,
    pub(crate) image: Arc<CodeImage>,
    /// 64 KiB, the first page inaccessible.
    pub(crate) cage: Mapping,
    context: Vec<u128>,
    /// Boxed, since the context has their addresses.
    #[allow(clippy::vec_box)]
    _hosts: Vec<Box<TestHost>>,
    _builtins: Box<[*const u8]>,
}

unsafe extern "C" fn call_host(context: *mut HostContext, cells: *mut u8) -> u32 {
    // SAFETY: every host context of the tests is the start of a `TestHost` in a living world.
    let (host, cells) = unsafe { (&*context.cast::<TestHost>(), cells.cast::<i32>()) };
    // SAFETY: every host context of the tests is the start of a `TestHost` in a living world; the cells are the exit
    // trampoline's.
    match unsafe { (host.function)(&*host.world, *cells) } {
        // SAFETY: the exit trampoline's cells have a place for the result.
        Ok(result) => unsafe { *cells = result },
        Err(unwind) => {
            activation::set_pending(unwind);
            return 1;
        }
    }
    0
}

unsafe extern "C" fn raise(_context: *mut u8) {
    // SAFETY: called by the exit trampoline, which recorded the exit.
    unsafe { activation::raise() }
}

impl World {
    /// Tag ids of the instance.
    pub(crate) const TAG_IDS: [u32; TAGS as usize] = [501, 502];

    pub(crate) fn new(module: CompiledModule, hosts: [Host; IMPORTS as usize]) -> Box<World> {
        let image = CodeImage::publish(module).unwrap();
        let cage = Mapping::reserve(1 << 16).unwrap();
        cage.make_writable(1 << 12..1 << 16).unwrap();
        let mut builtins = vec![std::ptr::null(); Builtin::ALL.len()].into_boxed_slice();
        builtins[Builtin::Raise as usize] = raise as *const u8;
        let store = StoreFrames::new(cage.base(), |_| ());
        let layout = image.module().context.clone();
        let mut world = Box::new(World {
            store: Box::new(store.into()),
            cage,
            context: vec![0; layout.bytes as usize / 16],
            _hosts: vec![],
            _builtins: builtins,
            image,
        });
        let head = |magic| ContextHead {
            magic,
            func_refs: 0,
            store: world.store(),
            mutator: std::ptr::null_mut(),
            cage: world.cage.base(),
            types: std::ptr::null(),
            builtins: world._builtins.as_ptr(),
            cold_cells: [0; COLD_CELLS],
        };
        let (instance, host) = (head(CONTEXT_MAGIC), |_: usize| head(HOST_MAGIC));
        let exit = world.image.exit_trampoline(&signature()).unwrap();
        let pointer: *const World = &*world;
        let hosts: Vec<Box<TestHost>> = hosts
            .into_iter()
            .enumerate()
            .map(|(index, function)| {
                let context = HostContext { head: host(index), call: call_host };
                Box::new(TestHost { context, world: pointer, function })
            })
            .collect();
        let context = world.context.as_mut_ptr().cast::<u8>();
        // SAFETY: within the context, as its layout says.
        unsafe {
            context.cast::<ContextHead>().write(instance);
            context.add(layout.tags as usize).cast::<[u32; 2]>().write(World::TAG_IDS);
            for (index, host) in hosts.iter().enumerate() {
                let context = (&raw const **host).cast_mut().cast();
                let import = FuncImport { code: exit, context };
                let imports = world.context.as_mut_ptr().cast::<u8>().add(layout.func_imports as usize);
                imports.cast::<FuncImport>().add(index).write(import);
            }
        }
        world._hosts = hosts;
        world
    }

    /// The words of the store.
    pub(crate) fn store(&self) -> *mut StoreContext {
        self.store.get().cast()
    }

    /// Calls a function of the module by its index.
    pub(crate) fn call(&self, index: u32, argument: i32) -> Result<i32, Unwind> {
        let mut values = [ValueCell::default()];
        values[0].0[..4].copy_from_slice(&argument.to_le_bytes());
        let entry = self.image.entry_trampoline(&signature()).unwrap();
        let code = self.image.function_code(FuncIndex(index));
        let context = self.context.as_ptr().cast_mut().cast();
        // SAFETY: the trampoline and the code belong together, and the world is complete.
        unsafe { activation::enter(self.store(), entry, context, code, values.as_mut_ptr())? };
        Ok(i32::from_le_bytes(values[0].0[..4].try_into().unwrap()))
    }

    /// Writes a word of the cage.
    pub(crate) fn poke(&self, offset: usize, word: u32) {
        // SAFETY: the tests name words in the accessible part.
        unsafe { *self.cage.base().add(offset).cast::<u32>() = word }
    }
}
