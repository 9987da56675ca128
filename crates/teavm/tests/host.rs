//! Modules in the shape that TeaVM gives them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use legato::{Engine, Instance, Linker, Module, Store, Val};
use legato_teavm::TeaVmCtx;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Program {
    store: Store<TeaVmCtx>,
    instance: Instance,
    out: Shared,
    err: Shared,
}

fn start(text: &str) -> Result<Program> {
    let engine = Engine::default();
    let module = Module::new(&engine, text)?;
    assert!(legato_teavm::is_teavm_module(&module));
    let (out, err) = (Shared::default(), Shared::default());
    let mut store = Store::new(&engine, TeaVmCtx::new(out.clone(), err.clone()));
    let mut linker = Linker::new(&engine);
    legato_teavm::add_to_linker(&mut linker, &mut store, &module, |ctx: &mut TeaVmCtx| ctx)?;
    let instance = linker.instantiate(&mut store, &module)?;
    Ok(Program { store, instance, out, err })
}

impl Program {
    fn call(&mut self, name: &str, args: &[Val]) -> Result<Val> {
        let function = self.instance.get_func(&mut self.store, name).unwrap();
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        function.call(&mut self.store, args, &mut results)?;
        Ok(results.first().copied().unwrap_or(Val::I32(0)))
    }
}

#[test]
fn memory_and_console() {
    let mut program = start(
        r#"(module
          (import "env" "memory" (memory 2 100))
          (import "teavmMemory" "notifyHeapResized" (func $resized))
          (import "teavmMemory" "heapOffset" (global $offset i32))
          (import "teavmMemory" "maxSize" (global $max i32))
          (import "teavmConsole" "putcharStdout" (func $out (param i32)))
          (import "teavmConsole" "putcharStderr" (func $err (param i32)))
          (import "teavmDate" "currentTimeMillis" (func $now (result f64)))
          (func (export "run")
            (call $resized)
            (call $out (i32.const 0xd83c)) (call $out (i32.const 0xdfbc)) (call $out (i32.const 10))
            (call $err (i32.const 33)))
          (func (export "offset") (result i32) (global.get $offset))
          (func (export "max") (result i32) (global.get $max))
          (func (export "pages") (result i32) (memory.size))
          (func (export "now") (result f64) (call $now))
          (@custom "teavm.memoryRequirements" "{\"min\":2, \"dataSize\":70, \"shared\": false}"))"#,
    )
    .unwrap();
    program.call("run", &[]).unwrap();
    assert_eq!(program.call("offset", &[]).unwrap().i32(), Some(80));
    assert_eq!(program.call("max", &[]).unwrap().i32(), Some(6_553_600));
    assert_eq!(program.call("pages", &[]).unwrap().i32(), Some(2));
    assert!(program.call("now", &[]).unwrap().f64().unwrap() > 1.5e12);
    program.store.data_mut().flush().unwrap();
    assert_eq!(*program.out.0.lock().unwrap(), "🎼\n".as_bytes());
    assert_eq!(*program.err.0.lock().unwrap(), b"!");
}

#[test]
fn mathematics() {
    let mut program = start(
        r#"(module
          (import "teavmMath" "sqrt" (func $sqrt (param f64) (result f64)))
          (import "teavmMath" "pow" (func $pow (param f64 f64) (result f64)))
          (import "teavmMath" "random" (func $random (result f64)))
          (export "sqrt" (func $sqrt)) (export "pow" (func $pow)) (export "random" (func $random)))"#,
    )
    .unwrap();
    let float = |value: f64| Val::F64(value.to_bits());
    assert_eq!(program.call("sqrt", &[float(2.25)]).unwrap().f64(), Some(1.5));
    assert_eq!(program.call("pow", &[float(2.0), float(-1.0)]).unwrap().f64(), Some(0.5));
    let first = program.call("random", &[]).unwrap().f64();
    assert_ne!(program.call("random", &[]).unwrap().f64(), first);
}

#[test]
fn weak_references_give_back_their_target() {
    let mut program = start(
        r#"(module
          (type $object (sub (struct (field i32))))
          (type $weak (sub $object (struct (field i32) (field $target (mut externref)))))
          (import "teavm" "createWeakRef"
            (func $create (param (ref null $object) (ref null $weak) (ref null $object)) (result externref)))
          (import "teavm" "deref" (func $deref (param externref) (result (ref null $object))))
          (global $held (mut (ref null $weak)) (ref.null $weak))
          (func (export "make") (param i32)
            (global.set $held (struct.new $weak (i32.const 0) (ref.null extern)))
            (struct.set $weak $target (global.get $held)
              (call $create (struct.new $object (local.get 0)) (global.get $held) (ref.null $object))))
          (func (export "get") (result i32)
            (struct.get $object 0 (call $deref (struct.get $weak $target (global.get $held)))))
          (func (export "null") (result i32)
            (ref.is_null (call $deref (call $create (ref.null $object) (ref.null $weak) (ref.null $object))))))"#,
    )
    .unwrap();
    program.call("make", &[Val::I32(42)]).unwrap();
    program.store.gc();
    assert_eq!(program.call("get", &[]).unwrap().i32(), Some(42));
    assert_eq!(program.call("null", &[]).unwrap().i32(), Some(1));
}

#[test]
fn uncaught_exceptions_have_a_message() {
    let mut program = start(
        r#"(module
          (type $units (array (mut i16)))
          (type $object (sub (struct (field (mut eqref)) (field (mut eqref)))))
          (type $chars (sub $object (struct (field (mut eqref)) (field (mut eqref)) (field (ref $units)))))
          (type $string (sub $object (struct (field (mut eqref)) (field (mut eqref)) (field (ref null $chars)) (field i32))))
          (type $throwable (sub $object (struct (field (mut eqref)) (field (mut eqref)) (field (ref null $string)))))
          (import "teavmMemory" "notifyHeapResized" (func))
          (tag $java (param (ref null $throwable)))
          (func (export "run")
            (throw $java (struct.new $throwable (ref.null eq) (ref.null eq)
              (struct.new $string (ref.null eq) (ref.null eq)
                (struct.new $chars (ref.null eq) (ref.null eq)
                  (array.new_fixed $units 3 (i32.const 111) (i32.const 0xf6) (i32.const 33)))
                (i32.const 0)))))
          (func (export "teavm.exceptionMessage") (param (ref null $throwable)) (result (ref null $string))
            (struct.get $throwable 2 (local.get 0))))"#,
    )
    .unwrap();
    let error = program.call("run", &[]).unwrap_err();
    assert!(error.downcast_ref::<legato::ThrownException>().is_some(), "{error:?}");
    let exception = program.store.take_pending_exception().unwrap();
    let message = legato_teavm::exception_message(&mut program.store, &program.instance, exception);
    assert_eq!(message.as_deref(), Some("oö!"));
}

#[test]
fn wrong_imports_are_errors() {
    let wrong = [
        (r#"(module (import "teavmMemory" "heapOffset" (func)))"#, "it should be a global"),
        (r#"(module (import "teavm" "deref" (func)))"#, "it should take a reference"),
        (r#"(module (import "teavmMath" "sqrt" (func)))"#, "incompatible import type"),
        (r#"(module (import "teavmMath" "frobnicate" (func)))"#, "unknown import"),
        (
            r#"(module (import "teavmMemory" "heapOffset" (global i32)) (@custom "teavm.memoryRequirements" "{"))"#,
            "is broken",
        ),
    ];
    for (text, says) in wrong {
        let Err(error) = start(text) else { panic!("{text} was accepted") };
        assert!(format!("{error:#}").contains(says), "{text}: {error:#}");
    }
}
