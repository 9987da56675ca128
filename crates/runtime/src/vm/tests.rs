//! Leaving compiled code in every way there is, with modules made by hand.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, types};
use legato_compiler::artifact::{CompiledModule, StackMapEntry, TrapCode};
use legato_heap::Reference;
use legato_heap::plan::{ObjectAt, ReferencePlan};
use legato_heap::references::References;

use super::testing::{Assembler, Body, Host, Visit, World, trap};
use super::{TrapRecord, Unwind, activation, frames};

fn no_host() -> Host {
    Box::new(|_, _| panic!("not called"))
}

/// One module with a function of each kind.
struct Functions {
    module: CompiledModule,
    add: u32,
    unreachable: u32,
    divide: u32,
    null_field: u32,
    huge_frame: u32,
    call: u32,
    catch: u32,
    catch_one_tag: u32,
    keep: u32,
}

fn functions(references: ReferencePlan) -> Functions {
    let mut assembler = Assembler::new(references);
    let add = assembler.function(&|body: &mut Body<'_>| {
        let five = body.b.ins().iconst(types::I32, 5);
        let sum = body.b.ins().iadd(body.param, five);
        body.b.ins().return_(&[sum]);
    });
    let unreachable = assembler.function(&|body| {
        body.b.ins().trap(trap(TrapCode::Unreachable));
    });
    let divide = assembler.function(&|body| {
        let dividend = body.b.ins().iconst(types::I32, i32::MIN as i64);
        let quotient = body.b.ins().sdiv(dividend, body.param);
        body.b.ins().return_(&[quotient]);
    });
    let null_field = assembler.function(&|body| {
        let head = std::mem::offset_of!(legato_compiler::abi::ContextHead, cage);
        let cage = body.b.ins().load(types::I64, MemFlagsData::trusted(), body.context, head as i32);
        let offset = body.b.ins().uextend(types::I64, body.param);
        let object = body.b.ins().iadd(cage, offset);
        let faulting = MemFlagsData::new().with_trap_code(Some(trap(TrapCode::NullReference)));
        let field = body.b.ins().load(types::I32, faulting, object, 8);
        body.b.ins().return_(&[field]);
    });
    let huge_frame = assembler.function(&|body| {
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 64 << 20, 3);
        let slot = body.b.create_sized_stack_slot(slot);
        body.b.ins().stack_store(types::I64, body.context, slot, 0);
        body.b.ins().return_(&[body.param]);
    });
    let call = assembler.function(&|body| {
        let result = body.call_import(0, body.param);
        // Something is left to do after the call, so that this frame is on the stack.
        let sum = body.b.ins().iadd(result, body.param);
        body.b.ins().return_(&[sum]);
    });
    let catch = assembler.function(&|body| body.call_catching(0, body.param, true));
    let catch_one_tag = assembler.function(&|body| body.call_catching(0, body.param, false));
    let keep = assembler.function(&|body| {
        body.b.declare_value_needs_stack_map(body.param);
        let argument = body.b.ins().iconst(types::I32, 0);
        body.call_import(1, argument);
        let result = body.call_import(0, argument);
        let sum = body.b.ins().iadd(result, body.param);
        body.b.ins().return_(&[sum]);
    });
    let module = assembler.finish();
    Functions { module, add, unreachable, divide, null_field, huge_frame, call, catch, catch_one_tag, keep }
}

fn trap_of(result: Result<i32, Unwind>) -> TrapRecord {
    match result {
        Err(Unwind::Trap(record)) => record,
        other => panic!("no trap: {other:?}"),
    }
}

fn names(record: &TrapRecord) -> Vec<String> {
    frames::resolve(&record.frames).into_iter().map(|frame| frame.function_name.unwrap()).collect()
}

#[test]
fn faults_become_traps_and_the_code_runs_on() {
    let f = functions(References::Direct.plan());
    let world = World::new(f.module, [no_host(), no_host()]);
    for _ in 0..3 {
        assert_eq!(world.call(f.add, 37).unwrap(), 42);
        let record = trap_of(world.call(f.unreachable, 0));
        assert_eq!(record.code, TrapCode::Unreachable);
        assert_eq!(names(&record), [format!("f{}", f.unreachable)]);
        let frame = &frames::resolve(&record.frames)[0];
        assert_eq!(frame.wasm_offset, Some(f.unreachable * 100));
        assert_eq!(frame.module_name.as_deref(), Some("hand-made"));
        assert_eq!(trap_of(world.call(f.divide, 0)).code, TrapCode::IntegerDivisionByZero);
        assert_eq!(trap_of(world.call(f.divide, -1)).code, TrapCode::IntegerOverflow);
        assert_eq!(world.call(f.divide, 2).unwrap(), i32::MIN / 2);
        assert_eq!(trap_of(world.call(f.null_field, 0)).code, TrapCode::NullReference);
        world.poke((1 << 12) + 8, 77);
        assert_eq!(world.call(f.null_field, 1 << 12).unwrap(), 77);
        assert!(!activation::is_active(world.store()));
    }
}

#[test]
fn a_frame_larger_than_the_stack_is_a_trap_on_every_thread() {
    let f = functions(References::Direct.plan());
    let image = f.module.clone();
    let run = move || {
        let world = World::new(image.clone(), [no_host(), no_host()]);
        let record = trap_of(world.call(f.huge_frame, 0));
        assert_eq!(record.code, TrapCode::StackOverflow);
        assert_eq!(world.call(f.add, 1).unwrap(), 6);
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(run.clone())).collect();
    run();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn errors_and_traps_pass_through_nested_calls() {
    let f = functions(References::Direct.plan());
    let (call, unreachable) = (f.call, f.unreachable);
    let (call_name, unreachable_name) = (format!("f{call}"), format!("f{unreachable}"));
    let host: Host = Box::new(move |world, argument| {
        assert!(activation::is_active(world.store()));
        let frames_now = || {
            let mut seen = 0;
            // SAFETY: in a host function.
            unsafe { frames::for_each_frame(world.store(), |_| seen += 1) };
            seen
        };
        match argument {
            0 => {
                assert_eq!(frames_now(), 2);
                let record = trap_of(world.call(unreachable, 0));
                assert_eq!(names(&record), [&*unreachable_name, &call_name, &call_name]);
                // The walk begins at the outer activation's exit again.
                assert_eq!(frames_now(), 2);
                Err(Unwind::Error(anyhow::anyhow!("from the host")))
            }
            1 => {
                let error = world.call(call, 0).unwrap_err();
                let Unwind::Error(error) = error else { panic!("{error:?}") };
                assert_eq!(error.to_string(), "from the host");
                assert_eq!(frames_now(), 1);
                // SAFETY: in a host function.
                let record = unsafe {
                    let message = Some("by the host".into());
                    TrapRecord::capture(world.store(), TrapCode::Interrupt, message)
                };
                Err(Unwind::Trap(record))
            }
            2 => Err(Unwind::Panic(Box::new("payload"))),
            other => Ok(other),
        }
    });
    let world = World::new(f.module, [host, no_host()]);
    assert_eq!(world.call(f.call, 21).unwrap(), 42);
    let record = trap_of(world.call(f.call, 1));
    assert_eq!(record.code, TrapCode::Interrupt);
    assert_eq!(record.message.as_deref(), Some("by the host"));
    assert_eq!(names(&record), [format!("f{call}")]);
    let Err(Unwind::Panic(payload)) = world.call(f.call, 2) else { panic!("no panic") };
    assert_eq!(payload.downcast_ref(), Some(&"payload"));
    assert_eq!(world.call(f.call, 21).unwrap(), 42);
}

/// An exception object at this offset of the cage.
const OBJECT: usize = 0x2000;
/// Its handle, where it has one.
const HANDLE: usize = 0x3000;

#[test]
fn exceptions_find_the_handler_of_their_tag() {
    for references in References::ALL {
        let references = references.plan();
        let f = functions(references);
        let exception = if references.handles.is_some() { HANDLE } else { OBJECT };
        let (call, catch, catch_one_tag) = (f.call, f.catch, f.catch_one_tag);
        let host: Host = Box::new(move |world, argument| match argument {
            // Throws from here.
            0..10 => {
                if let ObjectAt::Through { offset } = references.object {
                    world.poke(exception + offset as usize, OBJECT as u32);
                }
                world.poke(OBJECT + 8, World::TAG_IDS[argument as usize % 2]);
                Err(Unwind::Exception(exception as u32))
            }
            // Throws from a nested activation that has no handler; passes it on.
            10..20 => match world.call(call, argument - 10) {
                Err(Unwind::Exception(passing)) => {
                    activation::set_pending(Unwind::Exception(passing));
                    let mut seen = Vec::new();
                    let mut visitor = Visit(|root: &mut Reference| seen.push(root.0));
                    activation::visit_activation_roots(world.store(), &mut visitor);
                    assert_eq!(seen, [exception as u32]);
                    Err(activation::take_pending().unwrap())
                }
                other => panic!("{other:?}"),
            },
            // A nested activation that catches.
            20..30 => world.call(catch, argument - 20),
            _ => Err(Unwind::Error(anyhow::anyhow!("not for handlers"))),
        });
        let world = World::new(f.module, [host, no_host()]);
        let exception = exception as i32;
        for _ in 0..3 {
            assert_eq!(world.call(catch, 0).unwrap(), exception + 1000);
            assert_eq!(world.call(catch, 1).unwrap(), exception + 2000 + 1);
            assert_eq!(world.call(catch_one_tag, 2).unwrap(), exception + 1000 + 2);
            assert_eq!(world.call(catch, 10).unwrap(), exception + 1000 + 10);
            assert_eq!(world.call(call, 20).unwrap(), exception + 1000 + 20);
            let uncaught = world.call(catch_one_tag, 1);
            assert!(matches!(uncaught, Err(Unwind::Exception(e)) if e == exception as u32), "{uncaught:?}");
            let uncaught = world.call(call, 0);
            assert!(matches!(uncaught, Err(Unwind::Exception(_))), "{uncaught:?}");
            assert!(matches!(world.call(catch, 99), Err(Unwind::Error(_))));
        }
    }
}

#[test]
fn references_in_frames_are_found_and_may_change() {
    let f = functions(References::Direct.plan());
    let keep = f.keep;
    let nest: Host = Box::new(move |world, argument| {
        if argument == 0 {
            // A second activation of the same store, with a frame of its own.
            return world.call(keep, 4000);
        }
        panic!("not called with {argument}");
    });
    let collect: Host = Box::new(|world, _| {
        let mut roots = Vec::new();
        let mut visitor = Visit(|root: &mut Reference| {
            roots.push(root.0);
            root.0 += 8;
        });
        // SAFETY: in a host function, and every call is a safepoint of the hand-made code.
        unsafe { frames::visit_stack_roots(world.store(), &mut visitor) };
        Ok(roots.iter().sum::<u32>() as i32)
    });
    // The inner `keep` must not nest again: it calls import 0 with 0 too, so let import 0 know how deep it is.
    let depth = std::cell::Cell::new(0);
    let nest: Host = Box::new(move |world, argument| {
        depth.set(depth.get() + 1);
        let result = if depth.get() == 1 { nest(world, argument) } else { Ok(0) };
        depth.set(depth.get() - 1);
        result
    });
    let world = World::new(f.module, [nest, collect]);
    // Outer: 800, moved by its own collection to 808 and by the inner one to 816. Inner: 4000, moved to 4008.
    assert_eq!(world.call(keep, 800).unwrap(), 816 + 4008);
}

#[test]
fn images_are_found_by_address_while_they_live() {
    let f = functions(References::Direct.plan());
    let bytes = f.module.code.clone();
    let image = super::CodeImage::publish(f.module).unwrap();
    assert_eq!(image.code(), bytes);
    assert_eq!(image.to_compiled_module().code, bytes);
    let code = image.function_code(legato_compiler::module::FuncIndex(f.catch)) as usize;
    assert_eq!(image.function_at(code), Some(f.catch));
    assert_eq!(image.function_at(image.code().as_ptr() as usize), None, "a trampoline is no function");
    assert!(super::registry::find(code).is_some_and(|found| std::sync::Arc::ptr_eq(&found, &image)));
    assert!(super::registry::find(0).is_none());
    drop(image);
    assert!(super::registry::find(code).is_none());
}

#[test]
fn stack_maps_are_found_in_any_order() {
    let f = functions(References::Direct.plan());
    // More of them than an image remembers.
    let mut module = f.module;
    let bytes = module.code.len() as u32;
    module.stack_maps.slots = (0..bytes).collect();
    let entries = (1..bytes).filter(|offset| offset % 3 != 0);
    module.stack_maps.entries = entries.map(|offset| StackMapEntry { offset, first: offset, count: 1 }).collect();
    let image = super::CodeImage::publish(module).unwrap();
    let start = image.code().as_ptr() as usize;
    let check = |offset: u32| {
        let expected = (offset % 3 != 0 && offset < bytes).then_some(offset);
        let found = image.stack_map(start + offset as usize);
        assert_eq!(found, expected.as_ref().map(std::slice::from_ref), "at {offset} of {bytes}");
    };
    assert!(bytes > 512);
    (0..=bytes).for_each(check);
    (0..=bytes).rev().for_each(check);
    (0..4 * bytes).for_each(|index| check(index.wrapping_mul(2_654_435_761) % (bytes + 1)));
}

#[test]
fn damaged_modules_are_refused() {
    let f = functions(References::Direct.plan());
    let damage = |damage: &dyn Fn(&mut CompiledModule)| {
        let mut module = f.module.clone();
        damage(&mut module);
        super::CodeImage::publish(module).unwrap_err().to_string()
    };
    assert!(damage(&|module| module.code.truncate(64)).contains("damaged"));
    assert!(damage(&|module| module.traps.reverse()).contains("trap sites"));
    assert!(damage(&|module| module.stack_maps.slots.clear()).contains("stack maps"));
    assert!(damage(&|module| module.functions.truncate(1)).contains("function"));
    assert!(damage(&|module| module.target.triple = "sparc-sun-solaris".into()).contains("sparc"));
}

/// Set in the process that is to die.
const DIE: &str = "LEGATO_TEST_HOST_FAULT";

#[test]
fn a_fault_of_the_host_still_kills_the_process() {
    use std::os::unix::process::ExitStatusExt;
    if std::env::var_os(DIE).is_some() {
        let f = functions(References::Direct.plan());
        let host: Host = Box::new(|_, argument| {
            // SAFETY: none: the process is to die of it.
            unsafe { Ok(*(argument as usize as *const i32)) }
        });
        let world = World::new(f.module, [host, no_host()]);
        let _ = world.call(f.call, 16);
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "vm::tests::a_fault_of_the_host_still_kills_the_process"]).env(DIE, "1");
    let output = child.output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
}
